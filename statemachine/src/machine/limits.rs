//! Checks whether the store would refuse a message.

use super::{Config, Env, Write, io::Answer};
use crate::{Action, Message, Outcome, TaskState, size::Size};

impl Size {
    /// Returns the size of a write: its state, and the replies to signals.
    pub fn of_write(write: &Write) -> Self {
        let replies = write.outcomes.iter().map(|(_, outcome)| match outcome {
            Outcome::Answered { reply } => reply.len(),
            _ => 0,
        });
        Self {
            reply: replies.sum(),
            ..Self::of(&write.state)
        }
    }
}

pub(super) fn too_large(field: &str, bytes: usize, limit: usize) -> String {
    format!("{field}: has {bytes} bytes; at most {limit} are allowed (with the task's props)")
}

/// Returns the reason why the store would refuse a reply to a signal; `None` when it would not.
pub(super) fn unfit_answer(answer: &Answer, durable: &TaskState, limit: usize) -> Option<String> {
    for (part, field) in [
        (Some(&answer.reply), "reply"),
        (answer.data.as_ref(), "data"),
    ] {
        if let Some(Err(e)) = part.map(|part| part.check_depth(field)) {
            return Some(e.to_string());
        }
    }
    let data = answer.data.as_ref().or(durable.data.as_ref());
    let size = Size {
        data: data.map_or(0, |d| d.len()),
        result: 0,
        reply: answer.reply.len(),
    };
    (!size.fits(limit)).then(|| too_large(size.largest(), size.bytes(), limit))
}

/// Returns the message, or an error in its place when the store would refuse its data or result, when it submits a task
/// with a time after `9999-12-30T22:00:00Z` or with times that contradict each other, and when it waits for a signal that
/// its kind rejects. A retry would not change any of these.
pub(super) fn checked(
    mut message: Message,
    durable: &TaskState,
    config: &Config,
    env: Env,
) -> Message {
    let result = match &message.body.action {
        Action::Complete { result } => result.as_ref(),
        _ => None,
    };
    for (part, field) in [(message.body.data.as_ref(), "data"), (result, "result")] {
        if let Some(Err(e)) = part.map(|part| part.check_depth(field)) {
            return Message::fail(e);
        }
    }
    if message.body.awaited_signal.is_some() && !config.takes_signals {
        return Message::fail(
            "wait_for_signal: the kind does not accept signals, so none would come",
        );
    }
    for (_, reply) in &message.body.answers {
        if let Err(e) = reply.check_depth("reply") {
            return Message::fail(e);
        }
    }
    let reply = message
        .body
        .answers
        .iter()
        .map(|(_, reply)| reply.len())
        .sum();
    let (own_data, result) = (message.body.data.is_some(), result.map_or(0, |r| r.len()));
    let data = message.body.data.as_ref().or(durable.data.as_ref());
    let size = Size {
        data: data.map_or(0, |d| d.len()),
        result,
        reply,
    };
    if let Err(e) = message.resolve_times(env.now) {
        return Message::fail(e);
    }
    let limit = config.max_data_bytes;
    // A message that adds nothing is not refused because the durable data is already beyond the
    // limit.
    if size.fits(limit) || (!own_data && result == 0 && reply == 0) {
        return message;
    }
    Message::fail(too_large(size.largest(), size.bytes(), limit))
}
