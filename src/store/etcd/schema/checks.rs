//! What is wrong with what is to be stored.

use jiff::Timestamp;
use windlass_statemachine::{Command, CommandId, Invalid, Task, TaskId};

use crate::store::Error;

pub(crate) fn exists(id: &TaskId) -> Error {
    Error::AlreadyExists {
        what: "task",
        name: id.to_string(),
    }
}

pub(crate) fn other_command(id: &CommandId, task: &TaskId) -> Error {
    let reason = format!("'{id}' was sent to task '{task}' before; give a new id");
    Invalid::new("command id", reason).into()
}

pub(crate) fn check_task(task: &Task, limit: usize) -> Result<(), Error> {
    let bytes = task.props.len();
    if bytes > limit {
        return Err(Error::TooLarge {
            field: "props",
            bytes,
            limit,
        });
    }
    Ok(task.check(limit)?)
}

/// Checks a command for a task with so many bytes of props.
pub(crate) fn check_command(
    command: &Command,
    props: usize,
    limit: usize,
    now: Timestamp,
) -> Result<(), Error> {
    command.check(now)?;
    match command {
        Command::Complete { result: Some(json) } if props + json.len() > limit => {
            Err(Error::TooLarge {
                field: "result",
                bytes: props + json.len(),
                limit,
            })
        }
        _ => Ok(()),
    }
}
