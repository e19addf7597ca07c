//! [`Registry`] for [`Split`].

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_statemachine::{Code, CommandId, NodeName, State, TaskId};

use super::{
    Split, add_content,
    coordinator::{only, stripped},
    merge::is_fresh,
};
use crate::store::{
    Change, ChangeStream, CommandRecord, Count, Error, Exported, Filter, Limits, NodeCommand,
    NodeRecord, Page, Registry, Send, StateRemoval, StateWrite, Submit, Submitted, TaskRecord,
    examine::{Examination, Finding, Strays, Verdict},
    export::There,
};

/// How many states an examination loads at once.
const EXAMINED: usize = 1000;

impl Split {
    /// The tasks whose record cannot be read, by the coordinator or by the state store.
    async fn list_unreadable(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        // Only the state store knows which of its states it cannot read: each is asked for.
        let all = Filter {
            quarantined: false,
            states: Vec::new(),
            error: None,
            ..filter.clone()
        };
        let mut found = Vec::new();
        let mut after = page.after;
        loop {
            let limit = page.limit.clamp(1, 1000);
            let records = self.registry.list(&all, Page { after, limit }).await?;
            let Some(last) = records.last() else {
                return Ok(found);
            };
            after = last.order;
            let records = self.overlay_all(records).await?;
            found.extend(records.into_iter().filter(|record| filter.matches(record)));
            if found.len() >= page.limit as usize {
                found.truncate(page.limit as usize);
                return Ok(found);
            }
        }
    }

    async fn load_one(&self, id: &TaskId) -> Result<Option<State>, Error> {
        let loaded = self.load(std::slice::from_ref(id)).await;
        only(loaded, "load a state")
    }

    /// Takes a task: first its state into the state store, where nothing reads it as long as there is
    /// no such task, then the rest. Where the rest is refused, the state that was there before is put
    /// back. A crash between the two leaves a task that is to be replaced with the new state: the same
    /// import again completes it.
    async fn import_one(&self, mut task: Exported) -> Result<(), Error> {
        let id = task.task.id.clone();
        match self.registry.get(&id).await {
            Err(Error::NotFound { .. }) => {}
            Ok(record) => task.check_room(&There {
                order: record.order,
                has_ended: record.state.is_ok_and(|s| s.code().is_terminal()),
                is_claimed: record.node.is_some(),
            })?,
            Err(error) => return Err(error),
        }
        task.check_size(self.limits().max_bytes)?;
        let state = std::mem::replace(&mut task.state, State::new(task.submitted_at));
        task.state = stripped(state.clone());
        let loaded = self.load_one(&id).await;
        if let Some(leftover) = StateRemoval::of(&id, &loaded) {
            only(self.states.remove(vec![leftover]).await, "remove a state")?;
        }
        let seen = Some((state.fence, state.version));
        let own = StateRemoval {
            task: id.clone(),
            seen,
        };
        let is_stored = !is_fresh(&state);
        if is_stored {
            let task = id.clone();
            let write = StateWrite { task, state };
            only(self.states.store(vec![write]).await, "store a state")?;
        }
        let imported = only(self.registry.import(vec![task]).await, "import a task");
        if imported.as_ref().is_err_and(|e| !e.is_retryable()) {
            if is_stored {
                // Its great fence must not shut out a task that took the id meanwhile.
                only(self.states.remove(vec![own]).await, "remove a state")?;
            }
            if let Ok(Some(state)) = loaded {
                let write = StateWrite { task: id, state };
                only(self.states.store(vec![write]).await, "store a state")?;
            }
        }
        imported
    }

    /// Loads the state of every task. The registry's own examination reads what it stores itself.
    async fn examine_states(&self) -> Finding {
        const CHECK: &str = "state-store";
        let mut unreadable = Strays::default();
        let ids = match self.registry.ids().await {
            Ok(ids) => ids,
            Err(error) => return Finding::unknown(CHECK, &error, "check the store first"),
        };
        for page in ids.chunks(EXAMINED) {
            for (id, loaded) in page.iter().zip(self.load(page).await) {
                match loaded {
                    Ok(_) => {}
                    Err(Error::Corrupt { .. }) => unreadable.add(id.to_string()),
                    Err(error) => {
                        let advice = "check whether the state store can be reached";
                        return Finding::unknown(CHECK, &error, advice);
                    }
                }
            }
        }
        let what = (Verdict::Warning, "states that cannot be read");
        let advice = "windlass list --quarantined shows the reason; restore the states, or retry the \
                      tasks to start them from their props";
        Finding::none_of(CHECK, what, &unreadable, 0, advice)
    }

    /// Removes unreadable states of tasks that have ended: a retry was asked for.
    async fn drop_unreadable(&self, ids: &[TaskId]) -> Result<(), Error> {
        let loaded = self.load(ids).await;
        let mut unreadable = Vec::new();
        for (id, loaded) in ids.iter().zip(loaded) {
            if matches!(loaded, Err(Error::Corrupt { .. }))
                && let Ok(record) = self.registry.get(id).await
                && record.state.is_ok_and(|s| s.code().is_terminal())
            {
                let (task, seen) = (id.clone(), None);
                unreadable.push(StateRemoval { task, seen });
            }
        }
        if unreadable.is_empty() {
            return Ok(());
        }
        self.states.remove(unreadable).await.into_iter().collect()
    }
}

#[async_trait]
impl Registry for Split {
    fn limits(&self) -> Limits {
        self.registry.limits()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.registry.identity().await
    }

    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let ids: Vec<TaskId> = tasks.iter().map(|submit| submit.task.id.clone()).collect();
        // The state of a task that is replaced is not read from now on; the first claim removes it.
        let mut answers = self.registry.submit(tasks).await;
        for (id, answer) in ids.iter().zip(&mut answers) {
            if matches!(answer, Ok(Submitted::Existing(_)))
                && let Ok(record) = self.get(id).await
                && let Err(error) = record.state
            {
                *answer = Err(error);
            }
        }
        answers
    }

    async fn send(&self, commands: Vec<Send>) -> Vec<Result<u64, Error>> {
        self.registry.send(commands).await
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        self.registry.command(id).await
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        self.registry.commands(task).await
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let record = self.registry.get(id).await?;
        let mut records = self.overlay_all(vec![record]).await?;
        records.pop().ok_or_else(|| Error::no_task(id))
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        if filter.quarantined && page.limit > 0 {
            return self.list_unreadable(filter, page).await;
        }
        let records = self.registry.list(filter, page).await?;
        self.overlay_all(records).await
    }

    async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.registry.counts().await
    }

    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let answers = self.registry.delete(ids.clone()).await;
        let deleted = ids.into_iter().zip(&answers);
        let deleted = deleted.filter(|(_, answer)| answer.is_ok());
        self.forget(deleted.map(|(id, _)| id).collect()).await;
        answers
    }

    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        if let Err(error) = self.drop_unreadable(&ids).await {
            return ids.iter().map(|_| Err(error.clone())).collect();
        }
        self.registry.retry(ids).await
    }

    async fn purge(&self, states: &[Code], before: Timestamp, limit: u32) -> Result<u64, Error> {
        let changes = self.registry.changes(None).await?;
        let gone = self.registry.purge(states, before, limit).await?;
        self.forget_deleted(gone, changes).await;
        Ok(gone)
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        self.registry.nodes().await
    }

    async fn send_node(&self, node: &NodeName, command: NodeCommand) -> Result<u64, Error> {
        self.registry.send_node(node, command).await
    }

    async fn node_outcome(&self, order: u64) -> Result<Option<String>, Error> {
        self.registry.node_outcome(order).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        self.registry.history(id, limit).await
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        self.registry.changes(after).await
    }

    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.registry.ids().await
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let exported = self.registry.export(ids).await;
        let mut whole = Vec::with_capacity(ids.len());
        for (exported, loaded) in exported.into_iter().zip(self.load(ids).await) {
            whole.push(exported.and_then(|mut exported| {
                if !is_fresh(&exported.state)
                    && let Some(stored) = loaded?
                {
                    add_content(&mut exported.state, &stored);
                }
                Ok(exported)
            }));
        }
        whole
    }

    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let imports = tasks.into_iter().map(|task| self.import_one(task));
        let mut answers = Vec::new();
        for import in imports {
            answers.push(import.await);
        }
        answers
    }

    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error> {
        let mut findings = self.registry.examine(how).await?;
        findings.push(self.examine_states().await);
        Ok(findings)
    }
}
