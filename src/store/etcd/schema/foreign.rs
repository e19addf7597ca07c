//! What nodes and clients of Metafora store, in forms of their own.

use jiff::Timestamp;
use windlass_statemachine::{ActionKind, Code, Fence, State};

use super::{json::parse, kv::KeyValue};
use crate::store::What;

/// A sleep without a time, as Metafora stores it for a handler that has named none: it is over.
pub(crate) fn endless_sleep(kv: &KeyValue) -> Option<State> {
    let mut stored: serde_json::Map<String, serde_json::Value> = parse(kv).ok()?;
    let sleeps = stored.get("state")? == "sleeping" && !stored.contains_key("until");
    if !sleeps || stored.contains_key("version") {
        return None;
    }
    stored.insert("until".into(), Timestamp::UNIX_EPOCH.to_string().into());
    serde_json::from_value(stored.into()).ok()
}

/// The step in the table that led to an end that no write reported.
pub(crate) fn step_to(to: Code) -> What {
    let (message, from) = match to {
        Code::Killed => (ActionKind::Kill, Code::Runnable),
        Code::Failed => (ActionKind::Error, Code::Fault),
        _ => (ActionKind::Complete, Code::Runnable),
    };
    What::Moved {
        message,
        from,
        to,
        fence: Fence(0),
        command: None,
    }
}
