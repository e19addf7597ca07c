//! Records of tasks as stores keep them: states, envelopes, commands, outcomes, retry policies.
//!
//! Its twin is in `statemachine/tests/statemachine/properties.rs`, with values of every type.

#[path = "../../../statemachine/tests/statemachine/common/stored.rs"]
mod records;

/// Reads bytes as each record. Returns whether one of them reads.
pub fn check(input: &[u8]) -> bool {
    records::read_everything(input)
}
