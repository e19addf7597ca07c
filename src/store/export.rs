//! [`Exported`]: a task with everything that belongs to it, for another store.

mod history;
mod key;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Fence, Invalid, Json, NodeName, Task, TaskState, plain,
    size::Size,
    state::{LastCommand, Pause, SettledSignal},
    wire::TaskForm,
};

use super::{Change, CommandRecord, Error, LogPart, TaskRecord, rules};

/// Returns the name of the first field in which two tasks differ, in their form to submit.
fn differing(one: &Task, other: &Task) -> Option<&'static str> {
    if one == other {
        return None;
    }
    let fields = |task: &Task| {
        let text = serde_json::to_string(&TaskForm::from(task.clone())).unwrap_or_default();
        plain::object::<plain::Fields<Json>>(&text).map_or_else(|_| BTreeMap::new(), |read| read.0)
    };
    let (one, other) = (fields(one), fields(other));
    let mut names = TaskForm::FIELDS.into_iter();
    // The form contains only the part of a wait that was submitted.
    let differs = names.find(|name| one.get(*name) != other.get(*name));
    differs.or(Some("waits"))
}

/// A task with everything that belongs to it, as [`Transfer::export`](super::Transfer::export) returns
/// it and [`Transfer::import`](super::Transfer::import) takes it.
///
/// # Guarantees
///
/// - Positions (of the submit, of commands, of changes) are numbers of the store that assigned them.
///   The store that imports the task assigns new ones, in the same order.
/// - As JSON, it is a line of [`Store::export`](super::Store::export).
/// - The fence is not a position: it continues to grow. In any store the next claim of the task has
///   a greater fence, so that a system that checks fences rejects the earlier owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Exported {
    /// The task.
    pub task: Task,
    /// Its state.
    pub state: TaskState,
    /// Its submit order.
    pub order: u64,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The fence of its last claim; 0 if it was never claimed.
    pub fence: Fence,
    /// The node that lost the last claim. The next claim counts the loss as an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_by: Option<NodeName>,
    /// Its commands in order, including those with an outcome.
    pub commands: Vec<CommandRecord>,
    /// Its history, oldest first, as far back as the store keeps it.
    pub history: Vec<Change>,
    /// The lines that its handlers have logged, as far as the store keeps them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogPart>,
    /// Whether the task has its unique key: another task may have taken the key, or it is free. Absent for a task without a
    /// unique key, and in a file of an earlier version: then the task that was submitted last has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_key: Option<bool>,
    /// For [`Transfer::import`](super::Transfer::import): the submit order of the task in the target
    /// that this one replaces. `None`, the value after an export, requires that the id is free.
    #[serde(skip)]
    pub replaces: Option<u64>,
}

/// The task in the target that has the id of an imported one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetTask {
    pub(crate) order: u64,
    pub(crate) has_ended: bool,
    pub(crate) is_claimed: bool,
}

impl Exported {
    /// Makes an export of the records of a store.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when the task is quarantined, or one of its commands cannot be read;
    /// [`Error::Invalid`] (field `task`) when it is claimed, because its owner could write while it
    /// is read.
    pub fn new(
        record: TaskRecord,
        lost_by: Option<NodeName>,
        commands: Vec<CommandRecord>,
        history: Vec<Change>,
    ) -> Result<Self, Error> {
        let id = &record.task.id;
        if let Some(node) = &record.node {
            let reason =
                format!("'{id}' is claimed by node '{node}'; stop or drain that node first");
            return Err(Invalid::new("task", reason).into());
        }
        let state = record.state?;
        let waiting = commands.iter().filter(|c| c.outcome.is_none()).count() as u64;
        if waiting != record.commands && !state.code().is_terminal() {
            let reason = format!(
                "{} commands wait for it, and {waiting} of them can be read",
                record.commands
            );
            return Err(Error::corrupt_task(id, reason));
        }
        Ok(Self {
            task: record.task,
            state,
            order: record.order,
            submitted_at: record.submitted_at,
            fence: record.fence,
            lost_by,
            commands,
            history,
            log: Vec::new(),
            holds_key: None,
            replaces: None,
        })
    }

    /// Adds the lines that the handlers of the task have logged.
    #[must_use]
    pub fn with_log(mut self, log: Vec<LogPart>) -> Self {
        self.log = log;
        self
    }

    /// Returns whether both come from one submit.
    pub(super) fn is_of_the_submit_of(&self, other: &Self) -> bool {
        let (a, b) = (&self.task, &other.task);
        (&a.id, &a.kind, &a.props, self.submitted_at)
            == (&b.id, &b.kind, &b.props, other.submitted_at)
    }

    /// Returns the name of the first field that differs from `other`; `None` when the tasks are the same.
    /// Positions and fences are not compared, because they differ from store to store. Nor is the history,
    /// which a store may keep only in part ([`has_history_of`](Self::has_history_of)).
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        // Each field of the state is named here.
        let TaskState {
            status,
            since,
            run_since,
            paused,
            data,
            data_version,
            earlier_data,
            errors,
            attempts,
            attempts_left,
            claims,
            incarnation,
            reschedules,
            version,
            fence,
            commit,
            last_command,
            progress,
            waits: waiting,
            awaited_signal,
            deadlines,
            // Orders are new in each store.
            kept_signals: _,
            deliveries: _,
            settled_signals,
            // So are fences and versions.
            run: _,
            report: _,
        } = &self.state;
        let t = &other.state;
        let command = |c: &CommandRecord| {
            let content = (c.id.clone(), c.noted(), c.outcome.clone());
            (content, c.sent_at)
        };
        let pending = |e: &Self| -> Vec<_> {
            let pending = e.commands.iter().filter(|c| c.outcome.is_none());
            pending.map(command).collect()
        };
        let kept = |e: &Self| {
            let waits = e.commands.iter().filter(|c| c.outcome.is_none());
            waits.filter(|c| c.order <= e.state.kept_signals).count()
        };
        let who = |p: &Option<Box<Pause>>| p.clone().map(|p| (p.by, p.note, p.until, p.waited));
        let last = |last: &Option<LastCommand>| last.as_ref().map(|last| last.outcome.clone());
        let settled = |settled: &[SettledSignal]| -> Vec<_> {
            settled.iter().map(|one| one.outcome.clone()).collect()
        };
        let checks: [(&'static str, bool); 22] = [
            ("submitted_at", self.submitted_at == other.submitted_at),
            (
                "state",
                (status, who(paused)) == (&t.status, who(&t.paused)),
            ),
            ("since", (since, run_since) == (&t.since, &t.run_since)),
            ("data", *data == t.data),
            ("data_version", *data_version == t.data_version),
            ("earlier data", *earlier_data == t.earlier_data),
            ("errors", *errors == t.errors),
            ("attempts", *attempts == t.attempts),
            ("attempts left", *attempts_left == t.attempts_left),
            (
                "claims",
                (claims, incarnation, reschedules, version, &self.lost_by)
                    == (
                        &t.claims,
                        &t.incarnation,
                        &t.reschedules,
                        &t.version,
                        &other.lost_by,
                    ),
            ),
            ("fence", *fence == t.fence),
            ("commit", *commit == t.commit),
            ("last_command", last(last_command) == last(&t.last_command)),
            ("progress", *progress == t.progress),
            ("state.waits", *waiting == t.waits),
            ("awaited signal", *awaited_signal == t.awaited_signal),
            ("deadlines", *deadlines == t.deadlines),
            ("kept signals", kept(self) == kept(other)),
            (
                "settled signals",
                settled(settled_signals) == settled(&t.settled_signals),
            ),
            ("pending commands", pending(self) == pending(other)),
            ("log", self.log == other.log),
            (
                "commands",
                self.commands.iter().map(command).collect::<Vec<_>>()
                    == other.commands.iter().map(command).collect::<Vec<_>>(),
            ),
        ];
        let states = || checks.into_iter().find(|(_, same)| !same);
        differing(&self.task, &other.task).or_else(|| states().map(|(what, _)| what))
    }

    /// Checks that this task may replace the task in the target that has its id.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] and [`Error::AlreadyFinished`] when it is to replace another task;
    /// [`Error::Invalid`] (field `task`) when the task in the target is claimed.
    pub(crate) fn check_room(&self, target: &TargetTask) -> Result<(), Error> {
        let id = &self.task.id;
        if self.replaces != Some(target.order) {
            return Err(rules::submit::refused(id, target.has_ended));
        }
        if target.is_claimed {
            let reason = format!(
                "'{id}' cannot be replaced: it is claimed in the target; stop the node that has it, or \
                 wait for the end of its lease"
            );
            return Err(Invalid::new("task", reason).into());
        }
        Ok(())
    }

    /// Returns the bytes of props, data, result and log lines.
    pub fn bytes(&self) -> usize {
        let lines = self.log.iter().flat_map(|part| &part.lines);
        let log: usize = lines.map(|line| line.text.len()).sum();
        self.task.props.len() + Size::of(&self.state).bytes() + log
    }

    /// Checks the bytes of props, data and result against the limit of a store, the fence against [`Fence::MOST`], and
    /// the log against its bounds.
    pub(crate) fn check_fits(&self, limit: usize) -> Result<(), Error> {
        if self.fence > Fence::MOST {
            let reason = format!(
                "of task '{}' is {}, more than {}, the most that a store takes: delete the task, or submit it again \
                 under another id",
                self.task.id,
                self.fence,
                Fence::MOST
            );
            return Err(Invalid::new("fence", reason).into());
        }
        rules::log_lines::check(&self.log)?;
        rules::size::check_task(&self.task, limit)?;
        rules::size::check(Size::of(&self.state), self.task.props.len(), limit)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use windlass_statemachine::{ActionKind, Command, CommitId, Limit, Outcome, StateKind};

    use super::*;
    use crate::store::ChangeKind;

    pub(super) fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn command(order: u64, outcome: Option<Outcome>) -> CommandRecord {
        CommandRecord {
            id: format!("c{order}").parse().unwrap(),
            task: "a".parse().unwrap(),
            order,
            command: Command::Pause,
            sent_at: at(2),
            by: None,
            note: None,
            outcome,
        }
    }

    pub(crate) fn exported() -> Exported {
        let task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        let applied = Outcome::Applied {
            from: StateKind::Runnable,
            to: StateKind::Paused,
        };
        let mut state = TaskState::new(at(1));
        state.last_command = Some(LastCommand::new(70, applied.clone()));
        let moved = ChangeKind::Moved {
            message: ActionKind::Pause,
            from: StateKind::Runnable,
            to: StateKind::Paused,
            fence: Fence(900),
            command: Some(70),
        };
        let change = |seq, what| Change::new(seq, at(3), task.id.clone(), what);
        Exported {
            history: vec![change(80, moved), change(99, ChangeKind::Retried)],
            commands: vec![command(70, Some(applied)), command(90, None)],
            task,
            state,
            order: 50,
            submitted_at: at(1),
            fence: Fence(900),
            lost_by: None,
            log: Vec::new(),
            holds_key: None,
            replaces: None,
        }
    }

    /// SQLite stored a fence above 2^63 as a negative number, smaller than all others.
    #[test]
    fn a_fence_beyond_the_range_is_refused() {
        let mut one = exported();
        one.fence = Fence::MOST;
        one.check_fits(usize::MAX).unwrap();
        one.fence = Fence(Fence::MOST.0 + 1);
        let refused = one.check_fits(usize::MAX).unwrap_err().to_string();
        assert!(
            refused.contains("fence: of task 'a' is 4611686018427387905"),
            "{refused}"
        );
    }

    #[test]
    fn differences_are_named() {
        let one = exported();
        type Change = fn(&mut Exported);
        let changes: [(&str, Change); 14] = [
            ("kind", |e| e.task.kind = "other".parse().unwrap()),
            ("limits", |e| {
                e.task.limits = vec![Limit::at_once("k", 1).unwrap()];
            }),
            ("start_by", |e| e.task.start_by = Some(at(9))),
            ("meta", |e| drop(e.task.meta.insert("a".into(), "b".into()))),
            ("after", |e| {
                let waits = windlass_statemachine::Waits::new("after", ["u"]);
                e.task.waits = Some(Box::new(waits.unwrap()));
            }),
            ("state", |e| {
                e.state.status = windlass_statemachine::TaskStatus::Paused;
            }),
            ("data_version", |e| e.state.data_version = 9),
            ("commit", |e| e.state.commit = Some(CommitId(9))),
            ("kept signals", |e| e.state.kept_signals = 90),
            ("data", |e| {
                e.state.data = Some(windlass_statemachine::Json::null());
            }),
            ("attempts", |e| e.state.attempts = 3),
            ("pending commands", |e| {
                e.commands[1].command = Command::Kill;
            }),
            ("commands", |e| e.commands[0].sent_at = at(9)),
            ("submitted_at", |e| e.submitted_at = at(9)),
        ];
        for (field, change) in changes {
            let mut other = exported();
            change(&mut other);
            assert_eq!(one.difference(&other), Some(field));
        }
    }
}
