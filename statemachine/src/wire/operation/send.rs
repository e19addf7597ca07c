//! The form of a command that is sent.

use jiff::Timestamp;
use serde::Serialize;

use crate::{ActionKind, Command, CommandId, Json, Note, TaskId, operation::SendCommand};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct SendForm {
    /// The task that the command is sent to.
    task: TaskId,
    /// The id of the command. Sending a command again with the same id is the same command. A UUID
    /// by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<CommandId>,
    /// The name of the command.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::CommandName"))]
    command: ActionKind,
    /// When a `sleep` ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// The result of a `complete`: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// The name of a `signal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The value of a `signal`: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    /// Why the command is sent: one line of up to 500 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    note: Option<Note>,
}

impl From<&SendCommand> for SendForm {
    fn from(send: &SendCommand) -> Self {
        let mut form = Self {
            task: send.task.clone(),
            id: Some(send.id.clone()),
            command: send.command.kind(),
            until: None,
            result: None,
            name: None,
            payload: None,
            note: send.note.clone(),
        };
        match &send.command {
            Command::Sleep { until } => form.until = Some(*until),
            Command::Complete { result } => form.result.clone_from(result),
            Command::Signal(signal) => {
                form.name = Some(signal.name().to_owned());
                form.payload = signal.payload_json().cloned();
            }
            Command::Run
            | Command::Pause
            | Command::Release
            | Command::Checkpoint
            | Command::Kill => {}
        }
        form
    }
}
