//! [`Handler`]: runs bulk operations.

use serde::{Deserialize, Serialize};
use windlass::{
    Message, Retry, StatefulHandler, TaskContext, TaskId, async_trait,
    runner::KindConfig,
    store::{Error, Store, TaskRecord, Transaction},
};

use super::{
    Spec,
    act::{self, Before, concerns},
    dry_run::page,
    place::Place,
};
use crate::{Role, Scope, Token, Tokens, mask::without_values, problem::without_text};

/// How many tasks are changed between two checkpoints.
const STEP: u32 = 200;
/// How many refusals the data keeps. The log of the task has every one.
const KEPT: usize = 50;
/// How many bulk operations a node works on at once.
const SLOTS: u32 = 4;

/// The handler of the kind [`KIND`](super::KIND).
///
/// # Example
///
/// See [`dry_run`](super::dry_run).
#[derive(Debug, Clone)]
pub struct Handler {
    store: Store,
    tokens: Tokens,
}

/// What a bulk operation has done: the data of its task while it runs, and the result of its end. After a crash in the middle of
/// a step, `done` may lack tasks that this step has deleted, or that match no longer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Progress {
    /// How many tasks were changed, or have received the command.
    pub done: u64,
    /// How many tasks the action did not fit, or the store has refused.
    pub refused: u64,
    /// The first 50 refusals. The log of the task has every one.
    pub refusals: Vec<Refusal>,
    /// The incarnation of the task: a retry begins to count from zero.
    incarnation: u32,
    /// Where the next step begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<Place>,
}

/// A bulk operation while it runs.
struct Operation {
    record: TaskRecord,
    /// The identity of its store.
    store: String,
}

/// A task that was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Refusal {
    /// The task.
    pub task: TaskId,
    /// Why.
    pub reason: String,
}

/// Returns why a task was not changed. The change of a task is a transaction of its own, so its parts say nothing.
fn reason(error: Error) -> String {
    match error {
        Error::Refused(refusals) => {
            let all: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            all.join("; ")
        }
        error => error.to_string(),
    }
}

impl Handler {
    /// Returns the handler for the bulk operations of a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            tokens: Tokens::new(store),
        }
    }

    /// Returns the settings with which a node runs bulk operations: apart from other kinds, with four slots.
    pub fn config() -> KindConfig {
        let retry = Retry::exponential(20, std::time::Duration::from_secs(60));
        KindConfig::default().apart().slots(SLOTS).retry(retry)
    }

    /// Returns which tasks were submitted before the dry run of the operation.
    async fn before(&self, task: &TaskContext, spec: &Spec) -> Result<Before, Stopped> {
        let store = self.store.registry().identity().await?;
        let here = spec.counted_to.as_ref().filter(|to| to.store == store);
        Ok(match here {
            Some(newest) => Before::Order(newest.order),
            None => Before::Copied(task.order(), spec.counted_at),
        })
    }

    /// Returns the present scope of the operation.
    async fn scope(&self, spec: &Spec) -> Result<Scope, Stopped> {
        let Some(of) = &spec.token else {
            return Ok(Scope::default());
        };
        let now = self.store.clock().now();
        let tokens = self.tokens.list().await?;
        let is_it = |token: &Token| token.of() == *of;
        let token = tokens.into_iter().find(is_it);
        let live = token.filter(|token| token.expires_at.is_none_or(|at| now < at));
        let live = live.filter(|token| token.role.allows(Role::Operate));
        live.map(|token| token.scope).ok_or_else(|| {
            Stopped::For(format!(
                "the token '{}', with which the operation was started, is revoked, expired or may no longer change tasks; \
                 the tasks that were changed stay so",
                of.name
            ))
        })
    }

    /// Reads the operation, and finds its place again if the store was copied or imported since its last step.
    async fn begin(
        &self,
        task: &TaskContext,
        spec: &Spec,
        progress: &mut Progress,
    ) -> Result<Operation, Error> {
        let registry = self.store.registry();
        let of = Operation {
            record: registry.get(task.id()).await?,
            store: registry.identity().await?,
        };
        let Some(place) = &mut progress.place else {
            return Ok(of);
        };
        if place.find_again(&self.store, spec, &of.store).await? {
            return Ok(of);
        }
        // Nobody knows the place any more. Tasks that were deleted are not met again, and the changes of the others
        // have the same names.
        let is_delete = spec.action == super::BulkAction::Delete;
        *progress = Progress {
            done: if is_delete { progress.done } else { 0 },
            incarnation: task.incarnation(),
            ..Progress::default()
        };
        Ok(of)
    }

    /// Changes the tasks of one page.
    async fn step(
        &self,
        task: &TaskContext,
        (spec, of): (&Spec, &Operation),
        progress: &mut Progress,
    ) -> Result<bool, Stopped> {
        let scope = self.scope(spec).await?;
        let before = self.before(task, spec).await?;
        let client = windlass::Client::new(&self.store);
        let page = page(
            &client,
            (&spec.filter, spec.action),
            STEP,
            progress.place.as_ref().map(|place| &place.cursor),
        )
        .await?;
        let concerned = |record: &&TaskRecord| {
            concerns(record, &spec.filter, &scope, before) && record.task.id != *task.id()
        };
        let records: Vec<&TaskRecord> = page.tasks.iter().filter(concerned).collect();
        let seen = progress.done + progress.refused;
        if seen + records.len() as u64 > spec.tasks {
            return Err(Stopped::For(format!(
                "more tasks match now than the {} of the dry run; make another dry run for the rest",
                spec.tasks
            )));
        }
        let mut refused: Vec<(TaskId, String)> = Vec::new();
        let mut changes: Vec<(TaskId, Transaction)> = Vec::new();
        for record in records {
            let id = act::name(&of.record, task.incarnation(), record);
            match act::change(spec, record, &id) {
                Ok(change) => changes.push((record.task.id.clone(), change)),
                Err(reason) => refused.push((record.task.id.clone(), reason)),
            }
        }
        let (ids, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let applied = self.store.registry().apply(changes).await;
        for (id, applied) in ids.into_iter().zip(applied) {
            match applied {
                Ok(_) => progress.done += 1,
                Err(error) if error.is_retryable() => return Err(error.into()),
                // A reader of the operation sees its refusals, also those of masked tasks.
                Err(error) => refused.push((id, reason(without_values(without_text(error))))),
            }
        }
        for (id, reason) in refused {
            task.log(format_args!("{id}: {reason}"));
            progress.refused += 1;
            if progress.refusals.len() < KEPT {
                progress.refusals.push(Refusal { task: id, reason });
            }
        }
        progress.place = Place::after(&of.store, &page);
        let all = spec.tasks.max(1) as f64;
        let seen = (progress.done + progress.refused) as f64;
        task.set_progress(
            seen / all,
            format!("{} done, {} refused", progress.done, progress.refused),
        );
        Ok(progress.place.is_some())
    }
}

/// Why a step did not end.
enum Stopped {
    /// Another try may work.
    Store(Error),
    /// The operation ends here.
    For(String),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        match error.is_retryable() {
            true => Self::Store(error),
            false => Self::For(error.to_string()),
        }
    }
}

#[async_trait]
impl StatefulHandler for Handler {
    async fn run(&self, task: TaskContext) -> Message {
        let spec: Spec = match task.props() {
            Ok(spec) => spec,
            Err(error) => return Message::fail(error),
        };
        let mut progress: Progress = match task.data() {
            Ok(progress) => progress.unwrap_or_default(),
            Err(error) => return Message::fail(error),
        };
        // An earlier version has kept no place that a copy of the store keeps.
        if progress.incarnation != task.incarnation() || progress.place.is_none() {
            progress = Progress {
                incarnation: task.incarnation(),
                ..Progress::default()
            };
        }
        let of = match self.begin(&task, &spec, &mut progress).await {
            Ok(of) => of,
            Err(error) if error.is_retryable() => return Message::error(error),
            Err(error) => return Message::fail(error),
        };
        loop {
            // Between two steps: what a step has changed is in the data.
            if task.should_stop() {
                return task.stop_requested().await.message();
            }
            // On a copy: a step that fails is taken again as a whole, and each change happens once.
            let mut next = progress.clone();
            match self.step(&task, (&spec, &of), &mut next).await {
                Ok(true) => {}
                Ok(false) => return Message::complete_with(&next),
                Err(Stopped::Store(error)) => return Message::error(error),
                Err(Stopped::For(reason)) => return Message::fail(reason),
            }
            if let Err(error) = task.checkpoint(&next).await {
                tracing::debug!(%error, "the progress of a bulk operation was not stored");
                return match task.should_stop() {
                    true => task.stop_requested().await.message(),
                    false => Message::error(error),
                };
            }
            progress = next;
        }
    }
}
