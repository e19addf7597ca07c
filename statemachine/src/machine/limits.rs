//! What the store would refuse of a message.

use super::{Config, Env};
use crate::{Action, Message, TaskState, size::Size};

pub(super) fn too_large(field: &str, bytes: usize, limit: usize) -> String {
    format!("{field}: has {bytes} bytes; at most {limit} are allowed (with the task's props)")
}

/// Returns the message, or an error in its place when the store would refuse its data or result, or
/// when it submits a task that starts beyond the year 9999. A retry changes none of these.
pub(super) fn checked(
    mut message: Message,
    durable: &TaskState,
    config: &Config,
    env: Env,
) -> Message {
    let result = match &message.action {
        Action::Complete { result } => result.as_ref(),
        _ => None,
    };
    for (part, field) in [(message.data.as_ref(), "data"), (result, "result")] {
        if let Some(Err(e)) = part.map(|part| part.check_depth(field)) {
            return Message::fail(e);
        }
    }
    let (own_data, result) = (message.data.is_some(), result.map_or(0, |r| r.len()));
    let data = message.data.as_ref().or(durable.data.as_ref());
    let size = Size {
        data: data.map_or(0, |d| d.len()),
        result,
    };
    if let Err(e) = message.resolve_starts(env.now) {
        return Message::fail(e);
    }
    let limit = config.max_data_bytes;
    // Durable data beyond the limit is not the fault of a message that has neither.
    if size.fits(limit) || (!own_data && result == 0) {
        return message;
    }
    Message::fail(too_large(size.largest(), size.bytes(), limit))
}
