//! The JSON texts that rows hold.

use windlass_statemachine::{TaskState, size::Size};

use super::errors::Stop;

/// About the bytes of a state beside its data.
const FRAME: usize = 192;

/// Returns a state as its row holds it.
pub(super) fn to_json(state: &TaskState) -> Result<String, Stop> {
    let invalid = |e: &dyn std::fmt::Display| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new("state", reason)
    };
    // Most of the length is known, and growing a text step by step costs more than writing it.
    let mut text = Vec::with_capacity(FRAME + Size::of(state).bytes());
    serde_json::to_writer(&mut text, state).map_err(|e| invalid(&e))?;
    Ok(String::from_utf8(text).map_err(|e| invalid(&e))?)
}
