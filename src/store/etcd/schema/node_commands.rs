//! The commands of nodes, as Metafora writes them.

use serde::{Deserialize, Serialize};
use windlass_statemachine::TaskId;

use super::{
    json::{self, parse},
    kv::KeyValue,
    numbers::number,
};
use crate::store::{Error, NodeCommand, NodeCommandId, QueuedNodeCommand};

/// `/NS/nodes/NAME/commands/X`, as Metafora writes it.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    command: String,
    #[serde(default)]
    parameters: Option<Parameters>,
    /// Its place in the numbers of its revision.
    #[serde(default)]
    place: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Parameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskId>,
}

/// Reads the number of a node command, and the command or the reason why it is invalid.
pub(crate) fn read(kv: &KeyValue) -> (NodeCommandId, Result<QueuedNodeCommand, String>) {
    let stored = match parse::<Stored>(kv) {
        Ok(stored) => stored,
        Err(reason) => return (NodeCommandId(number(kv.create_revision(), 0)), Err(reason)),
    };
    let id = NodeCommandId(number(kv.create_revision(), stored.place));
    let command = match (
        stored.command.as_str(),
        stored.parameters.unwrap_or_default().task,
    ) {
        ("freeze", _) => NodeCommand::Freeze,
        ("unfreeze", _) => NodeCommand::Unfreeze,
        ("balance", _) => NodeCommand::Balance,
        ("drain", _) => NodeCommand::Drain,
        ("stop_task", Some(task)) => NodeCommand::StopTask { task },
        ("stop_task", None) => return (id, Err("stop_task names no task".into())),
        (other, _) => return (id, Err(format!("'{other}' is not a command for a node"))),
    };
    let lease = u64::try_from(kv.lease()).unwrap_or(0);
    (id, Ok(QueuedNodeCommand { id, lease, command }))
}

pub(crate) fn write(command: NodeCommand, place: u32) -> Result<String, Error> {
    let (name, task) = match command {
        NodeCommand::Freeze => ("freeze", None),
        NodeCommand::Unfreeze => ("unfreeze", None),
        NodeCommand::Balance => ("balance", None),
        NodeCommand::Drain => ("drain", None),
        NodeCommand::StopTask { task } => ("stop_task", Some(task)),
    };
    let stored = Stored {
        command: name.to_owned(),
        parameters: Some(Parameters { task }),
        place,
    };
    json::write("command", &stored)
}
