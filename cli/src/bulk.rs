//! [`Report`]: the outcome of an action on one task or on many.

use std::{borrow::Cow, collections::BTreeSet};

use indicatif::ProgressBar;
use serde::Serialize;
use windlass::{CommandId, Outcome, TaskId, store};

use crate::{
    exit::{Exit, Failure},
    output::Output,
    select::count,
};

/// How many tasks a call to the store handles at a time.
pub(crate) const CHUNK: usize = 500;

/// The outcome for one task.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Item {
    /// The task.
    pub(crate) id: TaskId,
    /// The command that was sent to the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command_id: Option<CommandId>,
    /// The outcome of the command, with `--wait`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    /// What a named task waits for or waited for that a resume skips; only of `pause` and `resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) skips: Option<String>,
    /// Why the action failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The exit code for this task alone.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

impl Item {
    /// Returns the item of an action that succeeded.
    pub(crate) fn done(id: TaskId) -> Self {
        Self {
            id,
            command_id: None,
            outcome: None,
            skips: None,
            error: None,
            exit: Exit::Ok,
        }
    }

    /// Returns the item of an action that failed.
    pub(crate) fn failed(id: TaskId, failure: impl Into<Failure>) -> Self {
        let failure = failure.into();
        let error = Some(failure.to_string());
        Self {
            error,
            exit: failure.exit(),
            ..Self::done(id)
        }
    }

    /// Records the outcome of the task's command.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        if !outcome.is_applied() && !matches!(outcome, Outcome::Answered { .. }) {
            self.exit = Exit::No;
        }
        self.outcome = Some(outcome);
    }
}

/// The outcome for all tasks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The action: the name of the command.
    pub(crate) action: &'static str,
    /// The number of tasks for which the action succeeded.
    done: usize,
    /// The number of tasks for which the action failed, or had no effect.
    failed: usize,
    /// The outcome of each task.
    pub(crate) tasks: Vec<Item>,
}

impl Report {
    /// Reports an action on one task.
    pub(crate) fn one(action: &'static str, item: Item) -> Self {
        Self::new(action, vec![item])
    }

    /// Reports an action on these tasks.
    pub(crate) fn new(action: &'static str, tasks: Vec<Item>) -> Self {
        Self {
            action,
            done: 0,
            failed: 0,
            tasks,
        }
    }

    /// Applies the action to the tasks in batches, with a progress bar.
    pub(crate) async fn run<F, Fut>(
        action: &'static str,
        ids: Vec<TaskId>,
        bar: &ProgressBar,
        act: F,
    ) -> Self
    where
        F: Fn(Vec<TaskId>) -> Fut,
        Fut: Future<Output = Vec<Result<Option<CommandId>, store::Error>>>,
    {
        let mut tasks = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(CHUNK) {
            for (id, answer) in chunk.iter().zip(act(chunk.to_vec()).await) {
                let id = id.clone();
                tasks.push(match answer {
                    Ok(command_id) => Item {
                        command_id,
                        ..Item::done(id)
                    },
                    Err(e) => Item::failed(id, e),
                });
            }
            bar.inc(chunk.len() as u64);
        }
        bar.finish_and_clear();
        Self::new(action, tasks)
    }

    /// Prints the report, with `did` for the action (`deleted`). Returns the exit code.
    pub(crate) fn print(mut self, out: &Output, did: &str) -> Result<Exit, Failure> {
        self.failed = self.tasks.iter().filter(|t| t.exit != Exit::Ok).count();
        self.done = self.tasks.len() - self.failed;
        if out.is_json() {
            out.json(&self)?;
        } else {
            self.print_text(out, did)?;
        }
        let exits: BTreeSet<u8> = self.tasks.iter().map(|t| t.exit.code()).collect();
        Ok(match (exits.len(), self.tasks.first()) {
            (0, _) | (_, None) => Exit::Ok,
            (1, Some(first)) => first.exit,
            _ => Exit::No,
        })
    }

    fn print_text(&self, out: &Output, did: &str) -> Result<(), Failure> {
        let mut silent = 0;
        for task in &self.tasks {
            let id = &task.id;
            match (&task.outcome, &task.error) {
                (_, Some(error)) if self.tasks.len() == 1 => out.complain(named(id, error)),
                (_, Some(error)) => out.complain(format!("{id}: {error}")),
                (Some(outcome), None) => out.line(format!("{id}: {}: {outcome}", self.action))?,
                (None, None) => silent += 1,
            }
        }
        match (silent, self.tasks.first()) {
            (0, _) => Ok(()),
            (1, Some(only)) if self.tasks.len() == 1 => out.line(format!("{}: {did}", only.id)),
            _ => out.line(format!("{}: {did}", count(silent))),
        }
    }
}

/// Returns an error with the id of its task, which most errors have already.
fn named<'a>(id: &TaskId, error: &'a str) -> Cow<'a, str> {
    match error.contains(&format!("'{id}'")) {
        true => error.into(),
        false => format!("task '{id}': {error}").into(),
    }
}
