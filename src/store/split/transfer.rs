//! [`Transfer`] for [`Split`].

use std::path::Path;

use async_trait::async_trait;
use windlass_statemachine::{TaskId, TaskState};

use super::{
    Split, add_content,
    coordinator::{only, stripped},
    merge::is_fresh,
};
use crate::store::{
    Error, Exported, Moment, PastTasks, StateRemoval, StateWrite, Transfer,
    copy::{Backup, Copied, Outside},
    export::TargetTask,
};

impl Split {
    fn inner_transfer(&self) -> Result<&dyn Transfer, Error> {
        let lacks = || Error::unsupported(self.registry.name(), "copy tasks");
        self.registry.transfer().ok_or_else(lacks)
    }

    async fn load_one(&self, id: &TaskId) -> Result<Option<TaskState>, Error> {
        let loaded = self.load(std::slice::from_ref(id)).await;
        only(loaded, "load a state")
    }

    /// Imports a task: first its state into the state store, where nothing reads it before the task
    /// exists, then the rest. When the rest is refused, the earlier state is stored again. A crash in
    /// between may leave a task that is to be replaced with the new state; repeating the import
    /// completes it.
    async fn import_one(&self, mut task: Exported) -> Result<(), Error> {
        let id = task.task.id.clone();
        match self.registry.get(&id).await {
            Err(Error::NotFound { .. }) => {}
            Ok(record) => task.check_room(&TargetTask {
                order: record.order,
                has_ended: record.state.is_ok_and(|s| s.code().is_terminal()),
                is_claimed: record.node.is_some(),
            })?,
            Err(error) => return Err(error),
        }
        // Before anything is written to the state store.
        Copied::refuse(self.copied().await?.as_ref())?;
        task.check_fits(self.registry.limits().max_bytes)?;
        let state = std::mem::replace(&mut task.state, TaskState::new(task.submitted_at));
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
        let imported = only(
            self.inner_transfer()?.import(vec![task]).await,
            "import a task",
        );
        if imported.as_ref().is_err_and(|e| !e.is_retryable()) {
            if is_stored {
                // Its greater fence must not fence off a task that has taken the id in the
                // meantime.
                only(self.states.remove(vec![own]).await, "remove a state")?;
            }
            if let Ok(Some(state)) = loaded {
                let write = StateWrite { task: id, state };
                only(self.states.store(vec![write]).await, "store a state")?;
            }
        }
        imported
    }
}

/// The tasks of a moment of the coordinator, with their present states.
///
/// No state is written without a claim. So a state is that of the moment unless a later claim has stored it, which shows
/// by its fence, or it was removed with its task.
struct Past {
    split: Split,
    tasks: Box<dyn PastTasks>,
}

impl Past {
    async fn whole(
        &self,
        mut exported: Exported,
        loaded: Result<Option<TaskState>, Error>,
    ) -> Result<Exported, Error> {
        if is_fresh(&exported.state) {
            return Ok(exported);
        }
        let id = &exported.task.id;
        let late = |what: &str| {
            let reason = format!(
                "'{id}' was {what} while the export read the states, which are in a store of their own; stop the nodes, and \
                 export again"
            );
            Error::unavailable("export the store", reason)
        };
        match loaded? {
            Some(stored) if stored.fence > exported.fence => Err(late("claimed")),
            Some(stored) => {
                add_content(&mut exported.state, &stored);
                Ok(exported)
            }
            None => match self.split.registry.get(id).await {
                Ok(record) if record.order == exported.order => Ok(exported),
                Ok(_) | Err(Error::NotFound { .. }) => Err(late("deleted")),
                Err(error) => Err(error),
            },
        }
    }
}

#[async_trait]
impl PastTasks for Past {
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let exported = self.tasks.export(ids).await;
        let mut whole = Vec::with_capacity(ids.len());
        for (exported, loaded) in exported.into_iter().zip(self.split.load(ids).await) {
            whole.push(match exported {
                Ok(exported) => self.whole(exported, loaded).await,
                Err(error) => Err(error),
            });
        }
        whole
    }
}

#[async_trait]
impl Transfer for Split {
    async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        self.inner_transfer()?.ids().await
    }

    async fn outside(&self, limit: u32) -> Result<Vec<Outside>, Error> {
        self.inner_transfer()?.outside(limit).await
    }

    async fn copied(&self) -> Result<Option<Copied>, Error> {
        self.inner_transfer()?.copied().await
    }

    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error> {
        self.inner_transfer()?.set_copied(mark).await
    }

    async fn backup(&self, _: &Path) -> Result<Backup, Error> {
        Err(Error::Unsupported {
            store: self.registry.name().to_owned(),
            operation: "back up the store",
            instead: "its states are in another store: stop the nodes, and back up both, each on its own",
        })
    }

    async fn moment(&self) -> Result<Moment, Error> {
        let moment = self.inner_transfer()?.moment().await?;
        let split = self.clone();
        Ok(moment.through(|tasks| Past { split, tasks }))
    }

    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let exported = match self.inner_transfer() {
            Ok(inner) => inner.export(ids).await,
            Err(error) => return ids.iter().map(|_| Err(error.clone())).collect(),
        };
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
}
