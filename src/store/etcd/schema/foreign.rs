//! Values that only nodes and clients of Metafora store.

use jiff::Timestamp;
use windlass_statemachine::{ActionKind, Fence, StateKind, TaskState};

use super::{json::parse, kv::KeyValue};
use crate::store::ChangeKind;

/// Reads a sleep without a time, which Metafora stores for a handler that gave none: the task is
/// due.
pub(crate) fn endless_sleep(kv: &KeyValue) -> Option<TaskState> {
    let mut stored: serde_json::Map<String, serde_json::Value> = parse(kv).ok()?;
    let sleeps = stored.get("state")? == "sleeping" && !stored.contains_key("until");
    if !sleeps || stored.contains_key("version") {
        return None;
    }
    stored.insert("until".into(), Timestamp::UNIX_EPOCH.to_string().into());
    serde_json::from_value(stored.into()).ok()
}

/// Returns the transition to an end for which no write reported one.
pub(crate) fn step_to(to: StateKind) -> ChangeKind {
    let (message, from) = match to {
        StateKind::Killed => (ActionKind::Kill, StateKind::Runnable),
        StateKind::Failed => (ActionKind::Error, StateKind::Fault),
        _ => (ActionKind::Complete, StateKind::Runnable),
    };
    ChangeKind::Moved {
        message,
        from,
        to,
        fence: Fence(0),
        command: None,
    }
}
