//! What nodes and clients of Metafora store, in forms of their own.

use jiff::Timestamp;
use windlass_statemachine::{ActionKind, Fence, StateKind, TaskState};

use super::{json::parse, kv::KeyValue};
use crate::store::ChangeKind;

/// A sleep without a time, as Metafora stores it for a handler that has named none: it is over.
pub(crate) fn endless_sleep(kv: &KeyValue) -> Option<TaskState> {
    let mut stored: serde_json::Map<String, serde_json::Value> = parse(kv).ok()?;
    let sleeps = stored.get("state")? == "sleeping" && !stored.contains_key("until");
    if !sleeps || stored.contains_key("version") {
        return None;
    }
    stored.insert("until".into(), Timestamp::UNIX_EPOCH.to_string().into());
    serde_json::from_value(stored.into()).ok()
}

/// The step in the table that led to an end that no write reported.
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
