//! A message of a handler, as one JSON object.

mod awaited;
mod reply;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use self::{
    awaited::{AwaitedForm, awaiting},
    reply::{ReplyForm, read_reply},
};
use super::{
    Line,
    fields::Fields,
    moment,
    operation::{self, LineForm},
};
use crate::{
    Action, ActionKind, CommandId, Guard, Invalid, Json, Message, Operation, SubmitTask, TaskId,
    Waits, Wake,
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
    /// When a `sleep` stops waiting for other tasks; never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_deadline: Option<Timestamp>,
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
            Action::Sleep { until } => form.until = Some(moment::text(*until)),
            Action::Error { error, retryable } => {
                form.error = Some(error.clone());
                form.retry = (!retryable).then_some(false);
            }
            Action::Complete { result } => form.result.clone_from(result),
            Action::Run | Action::Pause | Action::Release | Action::Checkpoint | Action::Kill => {}
        }
        if let Some(waits) = message.waits() {
            form.until = None;
            form.after_deadline = waits.deadline;
            *(if waits.ok {
                &mut form.after_ok
            } else {
                &mut form.after
            }) = waits.tasks.clone();
        }
        form
    }
}

fn effects<J>(message: &Message<J>) -> Vec<LineForm> {
    let effects = message.effects();
    let submits = effects.submit.iter().enumerate().map(|(at, submit)| {
        let mut line = LineForm::from(&Operation::Submit(submit.clone()));
        if let (LineForm::Submit(form), Some(wait)) = (&mut line, message.start_in(at)) {
            form.start_in(moment::text(Wake::After(wait)));
        }
        line
    });
    let sends = effects.send.iter().cloned().map(Operation::Send);
    let deletes = effects.delete.iter().cloned().map(Operation::Delete);
    let retries = effects.retry.iter().cloned().map(Operation::Retry);
    let moves = effects
        .reschedule
        .iter()
        .cloned()
        .map(Operation::Reschedule);
    let others = sends.chain(deletes).chain(retries).chain(moves);
    let others = others.map(|operation| LineForm::from(&operation));
    let guards = effects.require.iter().map(LineForm::from);
    submits.chain(others).chain(guards).collect()
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
/// Each may have `data` (or `"no_data":true`), `effects` (an array of objects as [`Line`] describes them), `replies`
/// (`[{"signal":7,"reply":"thanks"}]`) and `keep_signals`. Times may be relative, as [`read_moment`](super::read_moment)
/// reads them: `until` and the `start_at` of a submitted task count from when the message is applied, the others from
/// `now`. `new_id` makes the id of each command without one.
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
    let (mut message, own) = action(&name, &mut fields, now)?;
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
fn action(
    name: &str,
    fields: &mut Fields,
    now: Timestamp,
) -> Result<(Message, &'static [&'static str]), Invalid> {
    Ok(match name {
        "run" => (Message::run(), &[]),
        "pause" => (awaiting(Action::Pause, fields)?, &["awaits_signal"]),
        "release" => (Message::release(), &[]),
        "checkpoint" => (Message::checkpoint(), &[]),
        "kill" => (Message::kill(), &[]),
        "sleep" => (
            sleep(fields, now)?,
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

fn sleep(fields: &mut Fields, now: Timestamp) -> Result<Message, Invalid> {
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
            let until = moment::wake("until", text)?;
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
    Ok(match deadline {
        Some(text) => message.deadline(moment::read_moment("after_deadline", &text, now)?),
        None => message,
    })
}

fn with_effect(
    message: Message,
    text: &str,
    now: Timestamp,
    new_id: impl FnOnce() -> Result<CommandId, Invalid>,
) -> Result<Message, Invalid> {
    let (text, start_in) = start_in(text)?;
    let line = Line::read_at(&text, now, new_id)?;
    Ok(match line {
        Line::Guards(guards) => guards
            .into_iter()
            .fold(message, |message, Guard { task, require }| {
                message.and_require(task, require)
            }),
        Line::Operation(Operation::Submit(submit)) => {
            let mut submit = SubmitTask::from(submit);
            submit.start_in = start_in;
            message.and_submit(submit)
        }
        Line::Operation(Operation::Send(send)) => message.and_sent(Ok(send)),
        Line::Operation(Operation::Delete(one)) if one.force => message.and_force_delete(one.task),
        Line::Operation(Operation::Delete(one)) => message.and_delete(one.task),
        Line::Operation(Operation::Retry(retry)) => message.and_retry_with(retry),
        Line::Operation(Operation::Reschedule(change)) => message.and_reschedule(change),
    })
}

/// Removes a relative `start_at` from an effect, because it counts from when the message is
/// applied.
fn start_in(text: &str) -> Result<(String, Option<std::time::Duration>), Invalid> {
    let unchanged = || Ok((text.to_owned(), None));
    let Ok(mut fields) = Fields::parse(text, "operation", "") else {
        return unchanged();
    };
    let start = fields.left.get("start_at");
    let start = start.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    match start
        .map(|start| moment::wake("start_at", &start))
        .transpose()?
    {
        Some(Wake::After(wait)) => {
            fields.left.remove("start_at");
            Ok((fields.text(), Some(wait)))
        }
        _ => unchanged(),
    }
}

#[cfg(test)]
mod tests;
