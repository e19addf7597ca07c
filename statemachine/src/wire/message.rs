//! A message of a handler, as one JSON object.

mod awaited;
mod effects;
mod reply;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use self::{
    awaited::{AwaitedForm, awaiting},
    effects::{effects, with_effect},
    reply::{ReplyForm, read_reply},
};
use super::{
    fields::Fields,
    moment,
    operation::{self, LineForm},
};
use crate::{
    Action, ActionKind, CommandId, Invalid, Json, Message, TaskId, Waits, Wake, waits::NO_DEADLINE,
};

/// A complete message, which the error of a missing field shows.
const EXAMPLE: &str = r#"write it like {"message":"sleep","until":"in 5m","data":{"page":7}}"#;

/// The fields that every message may have.
const ANY: [&str; 6] = [
    "message",
    "data",
    "no_data",
    "effects",
    "replies",
    "keep_signals",
];

/// The names of messages.
const NAMES: &str = "run, sleep, pause, release, checkpoint, error, complete, kill";

/// A message of a handler.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct MessageForm {
    /// What the handler asks for: every action but `signal`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::MessageName"))]
    message: ActionKind,
    /// When a `sleep` ends: a time, or `in` with a length of time, counted from when the message is applied. A `sleep`
    /// has either this, `after` or `after_ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The tasks that a `sleep` waits for: it ends when none of them is live. Up to 1,000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", serde(default))]
    after: Vec<TaskId>,
    /// As `after`; the task fails when one of them does not complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", serde(default))]
    after_ok: Vec<TaskId>,
    /// When a `sleep` stops waiting for other tasks: a time, or `in` with a length of time, counted from when the message is
    /// applied; never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_deadline: Option<String>,
    /// The signal that a `pause`, or a `sleep` until a time, waits for. Clients list the task among those that wait for
    /// people.
    #[serde(skip_serializing_if = "Option::is_none")]
    awaits_signal: Option<AwaitedForm>,
    /// The text of an `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether the retry policy decides what follows an `error`; `true` by default. `false` fails the task at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<bool>,
    /// The result of a `complete`: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// The new data of the task: any JSON but `null`. Without it the task keeps its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
    /// `true`: the new data of the task is `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_data: Option<bool>,
    /// Changes of other tasks, and guards, in the same write. If one is refused, neither the changes
    /// nor the transition are applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", serde(default))]
    effects: Vec<LineForm>,
    /// Replies to signals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", serde(default))]
    replies: Vec<ReplyForm>,
    /// `true`: signals without a reply stay in the queue for the next run. Otherwise they end as unanswered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", serde(default))]
    keep_signals: bool,
}

impl<J> Serialize for Message<J> {
    /// Writes the form that [`read_message`] reads.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        MessageForm::from(self).serialize(to)
    }
}

impl<J> From<&Message<J>> for MessageForm {
    fn from(message: &Message<J>) -> Self {
        let replies = message.answers().map(|(signal, reply)| ReplyForm {
            signal,
            reply: reply.clone(),
        });
        let (data, no_data) = operation::new(message.data().cloned());
        let mut form = Self {
            message: message.kind(),
            until: None,
            after: Vec::new(),
            after_ok: Vec::new(),
            after_deadline: None,
            awaits_signal: message.awaited_signal().map(|signal| AwaitedForm {
                name: signal.name().to_owned(),
                text: signal.text().to_owned(),
                schema: signal.schema().cloned(),
            }),
            error: None,
            retry: None,
            result: None,
            data,
            no_data,
            effects: effects(message),
            replies: replies.collect(),
            keep_signals: message.body.keeps_signals,
        };
        match message.action() {
            Action::Sleep { until } if message.waits().is_some() => {
                let end = Some(*until).filter(|until| *until != Wake::At(NO_DEADLINE));
                form.after_deadline = end.map(moment::text);
            }
            Action::Sleep { until } => form.until = Some(moment::text(*until)),
            Action::Error { error, retryable } => {
                form.error = Some(error.clone());
                form.retry = (!retryable).then_some(false);
            }
            Action::Complete { result } => form.result.clone_from(result),
            Action::Run | Action::Pause | Action::Release | Action::Checkpoint | Action::Kill => {}
        }
        if let Some(waits) = message.waits() {
            *(if waits.ok {
                &mut form.after_ok
            } else {
                &mut form.after
            }) = waits.tasks.clone();
        }
        form
    }
}

/// Reads a message from one JSON object, as a worker in another language sends it.
///
/// | `message` | fields |
/// |---|---|
/// | `run`, `release`, `checkpoint`, `kill` | |
/// | `pause` | `awaits_signal`, if it waits for one |
/// | `sleep` | `until` with an optional `awaits_signal`, or `after` or `after_ok` with an optional `after_deadline` |
/// | `error` | `error`; `retry`: `false` fails the task at once |
/// | `complete` | `result` |
///
/// Each may have `data` (or `"no_data":true`), `effects` (an array of objects as [`Line`](super::Line) describes them), `replies`
/// (`[{"signal":7,"reply":"thanks"}]`) and `keep_signals`. Times may be relative, as [`read_moment`](super::read_moment)
/// reads them. Those of the message and of a submitted task count from when the message is applied; `due` of a task that
/// is rescheduled and `until` of a command count from `now`. `new_id` makes the id of each command without one.
///
/// # Errors
///
/// [`Invalid`] that names the field (`effects[1].due` for a field of an effect); the field is `message` for a text that is
/// not a JSON object.
///
/// # Example
///
/// ```
/// use jiff::Timestamp;
/// use windlass_statemachine::{CommandId, Message, wire::read_message};
///
/// let read = |text: &str| read_message(text, Timestamp::UNIX_EPOCH, || CommandId::new("new"));
/// let text = r#"{"message":"sleep","until":"in 1h","data":{"page":7},"effects":[{"op":"delete","task":"draft"}]}"#;
/// let message: Message = read(text)?;
/// assert_eq!(serde_json::to_string(&message).unwrap(), text);
/// let wrong = read(r#"{"message":"run","effects":[{"op":"delete"}]}"#).unwrap_err();
/// assert_eq!(wrong.field(), "effects[0].task");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
pub fn read_message(
    text: &str,
    now: Timestamp,
    mut new_id: impl FnMut() -> Result<CommandId, Invalid>,
) -> Result<Message, Invalid> {
    let mut fields = Fields::parse(text, "message", EXAMPLE)?;
    let name: String = fields.need("message")?;
    let (mut message, own) = action(&name, &mut fields)?;
    if let Some(data) = fields.take_new("data", "no_data")? {
        message = message.with_json(data);
    }
    let effects: Option<Vec<Box<RawValue>>> = fields.take("effects")?;
    for (at, effect) in effects.into_iter().flatten().enumerate() {
        message = with_effect(message, effect.get(), now, &mut new_id).map_err(|e| {
            let field = match e.field() {
                "operation" => format!("effects[{at}]"),
                field => format!("effects[{at}].{field}"),
            };
            Invalid::new(field, e.reason())
        })?;
    }
    let replies: Option<Vec<Box<RawValue>>> = fields.take("replies")?;
    for (at, reply) in replies.into_iter().flatten().enumerate() {
        let reply = read_reply(reply.get())
            .map_err(|e| Invalid::new(format!("replies[{at}].{}", e.field()), e.reason()))?;
        message.body.answers.push(reply);
    }
    if fields.take("keep_signals")? == Some(true) {
        message = message.keep_signals();
    }
    fields.end(ANY.into_iter().chain(own.iter().copied()))?;
    Ok(message)
}

/// Reads the action, and returns the names of its own fields.
fn action(name: &str, fields: &mut Fields) -> Result<(Message, &'static [&'static str]), Invalid> {
    Ok(match name {
        "run" => (Message::run(), &[]),
        "pause" => (awaiting(Action::Pause, fields)?, &["awaits_signal"]),
        "release" => (Message::release(), &[]),
        "checkpoint" => (Message::checkpoint(), &[]),
        "kill" => (Message::kill(), &[]),
        "sleep" => (
            sleep(fields)?,
            &[
                "until",
                "after",
                "after_ok",
                "after_deadline",
                "awaits_signal",
            ],
        ),
        "error" => {
            let error: String = fields.need("error")?;
            let message = match fields.take("retry")? {
                Some(false) => Message::fail(error),
                _ => Message::error(error),
            };
            (message, &["error", "retry"])
        }
        "complete" => {
            let result = fields.take_json("result")?;
            (Action::Complete { result }.into(), &["result"])
        }
        other => {
            let reason = format!("'{other}' is not one of {NAMES}");
            return Err(Invalid::new("message", reason));
        }
    })
}

fn sleep(fields: &mut Fields) -> Result<Message, Invalid> {
    let until: Option<String> = fields.take("until")?;
    let after: Vec<String> = fields.take("after")?.unwrap_or_default();
    let after_ok: Vec<String> = fields.take("after_ok")?.unwrap_or_default();
    let deadline: Option<String> = fields.take("after_deadline")?;
    let needs = |field, reason: &str| Err(Invalid::new(field, reason));
    let (field, tasks) = match (&until, after.is_empty(), after_ok.is_empty()) {
        (_, false, false) => {
            return needs(
                "after_ok",
                "is given along with `after`; put every task into one of them",
            );
        }
        (Some(_), _, false) | (Some(_), false, _) => {
            return needs(
                "until",
                "is given along with tasks to wait for; write it as `after_deadline`",
            );
        }
        (Some(text), true, true) => {
            if deadline.is_some() {
                return needs(
                    "after_deadline",
                    "is the end of a wait, and the message waits for no task; give `after` or `after_ok` too",
                );
            }
            let until = moment::read_wake("until", text)?;
            return awaiting(Action::Sleep { until }, fields);
        }
        (None, true, true) => {
            return Err(Invalid::new("until", format!("is missing; {EXAMPLE}")));
        }
        (None, false, true) => ("after", after),
        (None, true, false) => ("after_ok", after_ok),
    };
    if fields.left.contains_key("awaits_signal") {
        return needs(
            "awaits_signal",
            "is given along with tasks to wait for; wait for one after the other",
        );
    }
    // The names are checked here, so that an error names the field of the input.
    let waits = Waits::new(field, tasks).map_err(|e| Invalid::new(field, e.reason()))?;
    let message = match field {
        "after" => Message::wait_for(waits.tasks),
        _ => Message::wait_for_ok(waits.tasks),
    };
    let deadline = deadline.map(|text| moment::read_wake("after_deadline", &text));
    Ok(match deadline.transpose()? {
        Some(Wake::At(at)) => message.deadline(at),
        Some(Wake::After(wait)) => message.within(wait),
        None => message,
    })
}

#[cfg(test)]
mod tests;
