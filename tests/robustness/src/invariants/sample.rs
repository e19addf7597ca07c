//! Small worlds to plant violations in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass::{
    ActionKind, Command, CommandId, Fence, Outcome, QueuedCommand, StateKind, Task, TaskId,
    TaskState, TaskStatus,
    store::{Change, ChangeKind, CommandRecord, TaskRecord},
};

use super::Found;
use crate::{
    feed::Life,
    witness::{Line, Said},
    world::{Subject, World},
};

pub(super) fn id() -> TaskId {
    "t".parse().unwrap()
}

pub(super) fn fence(number: u64) -> Fence {
    Fence(number)
}

pub(super) fn submitted() -> ChangeKind {
    ChangeKind::Submitted {
        state: StateKind::Runnable,
    }
}

pub(super) fn claimed(node: &str, number: u64) -> ChangeKind {
    ChangeKind::Claimed {
        node: node.parse().unwrap(),
        fence: fence(number),
        abandoned: false,
    }
}

pub(super) fn moved(
    number: u64,
    message: ActionKind,
    from: StateKind,
    to: StateKind,
) -> ChangeKind {
    ChangeKind::Moved {
        message,
        from,
        to,
        fence: fence(number),
        command: None,
    }
}

pub(super) fn by_command(order: u64, what: ChangeKind) -> ChangeKind {
    match what {
        ChangeKind::Moved {
            message,
            from,
            to,
            fence,
            ..
        } => ChangeKind::Moved {
            message,
            from,
            to,
            fence,
            command: Some(order),
        },
        other => other,
    }
}

pub(super) fn completed(number: u64) -> ChangeKind {
    moved(
        number,
        ActionKind::Complete,
        StateKind::Runnable,
        StateKind::Completed,
    )
}

pub(super) fn checkpointed(number: u64) -> ChangeKind {
    ChangeKind::Checkpointed {
        fence: fence(number),
    }
}

pub(super) fn dropped(number: u64) -> ChangeKind {
    ChangeKind::Dropped {
        fence: fence(number),
    }
}

pub(super) fn lost(number: u64) -> ChangeKind {
    ChangeKind::Lost {
        fence: fence(number),
    }
}

/// A task of the kind `steps` with this history; its record agrees with it.
pub(super) fn subject(history: Vec<ChangeKind>) -> Subject {
    let now = Timestamp::UNIX_EPOCH;
    let mut state = TaskState::new(now);
    let mut node = None;
    for what in &history {
        match what {
            ChangeKind::Claimed {
                node: by,
                fence,
                abandoned,
            } => {
                state.claims += 1;
                state.attempts += u32::from(*abandoned);
                state.version += 1;
                state.fence = *fence;
                node = Some(by.clone());
            }
            ChangeKind::Moved { to, .. } => {
                state.version += 1;
                state.status = match to {
                    StateKind::Runnable => TaskStatus::Runnable,
                    StateKind::Sleeping => TaskStatus::Sleeping { until: now },
                    StateKind::Paused => TaskStatus::Paused,
                    StateKind::Fault => TaskStatus::Fault,
                    StateKind::Completed => TaskStatus::Completed { result: None },
                    StateKind::Failed => TaskStatus::Failed,
                    StateKind::Killed => TaskStatus::Killed,
                };
                if to.is_terminal() {
                    node = None;
                }
            }
            ChangeKind::Checkpointed { .. } => state.version += 1,
            ChangeKind::Dropped { .. } | ChangeKind::Lost { .. } => node = None,
            ChangeKind::Retried => state = state.retried(now),
            _ => {}
        }
    }
    let mut task = Task::new(id(), "steps".parse().unwrap());
    task.props = windlass::Json::new("props", &crate::kinds::Job::default()).unwrap();
    let changes = history
        .into_iter()
        .zip(1..)
        .map(|(what, seq)| Change::new(seq, now, id(), what));
    let history = changes.collect();
    let mut record = TaskRecord::new(task, Ok(state), 1, now);
    record.node = node;
    Subject {
        record,
        history,
        commands: Vec::new(),
    }
}

pub(super) fn with_count(mut subject: Subject, n: u64) -> Subject {
    let kept = crate::kinds::Kept { n };
    if let Ok(state) = &mut subject.record.state {
        state.data = Some(windlass::Json::new("data", &kept).unwrap());
    }
    subject
}

pub(super) fn command(order: u64, command: Command, outcome: Option<Outcome>) -> CommandRecord {
    let queued = QueuedCommand::new(CommandId::new(format!("c{order}")).unwrap(), order, command);
    let mut record = CommandRecord::new(id(), queued, Timestamp::UNIX_EPOCH);
    record.outcome = outcome;
    record
}

pub(super) fn world(subject: Subject) -> World {
    let mut world = World::default();
    world.subjects.insert(subject.id().clone(), subject);
    world
}

pub(super) fn of_history(history: Vec<ChangeKind>) -> World {
    world(subject(history))
}

pub(super) fn line(at: u64, pid: u32, said: Said) -> Line {
    Line { at, pid, said }
}

pub(super) fn start(at: u64, pid: u32, number: u64, n: u64) -> Line {
    let said = Said::Start {
        task: id(),
        fence: fence(number),
        n,
    };
    line(at, pid, said)
}

pub(super) fn end(at: u64, pid: u32, number: u64) -> Line {
    let said = Said::End {
        task: id(),
        fence: fence(number),
    };
    line(at, pid, said)
}

pub(super) fn asked(at: u64, pid: u32, number: u64, n: u64) -> Line {
    let said = Said::Asked {
        task: id(),
        fence: fence(number),
        n,
    };
    line(at, pid, said)
}

pub(super) fn acked(at: u64, pid: u32, number: u64, n: u64) -> Line {
    let said = Said::Acked {
        task: id(),
        fence: fence(number),
        n,
    };
    line(at, pid, said)
}

/// The life of a task with this history, which a delete has ended.
pub(super) fn gone(history: Vec<ChangeKind>) -> BTreeMap<TaskId, Vec<Life>> {
    let history = subject(history).history;
    let deleted = Change::new(
        history.len() as u64 + 1,
        Timestamp::UNIX_EPOCH,
        id(),
        ChangeKind::Deleted,
    );
    let life = Life {
        history,
        deleted: Some(deleted),
    };
    BTreeMap::from([(id(), vec![life])])
}

/// A world in which nothing is left but the life of a task that was deleted.
pub(super) fn of_gone(history: Vec<ChangeKind>) -> World {
    World {
        gone: gone(history),
        ..World::default()
    }
}

/// Asserts that nothing is found.
#[track_caller]
pub(super) fn holds(found: Found) {
    assert_eq!(found, vec![]);
}

/// Asserts that exactly one violation is found, with this text.
#[track_caller]
pub(super) fn caught(found: Found, says: &str) {
    assert!(
        found.iter().any(|(_, how)| how.contains(says)),
        "{says:?} is not in {found:?}"
    );
}
