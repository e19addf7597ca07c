//! What holds for every value of a key that other programs write. Only in tests, and in a build of the fuzzer.
#![allow(clippy::panic, reason = "a check fails by panicking")]

#[cfg(test)]
#[path = "../../../../tests/parsers/tests/twins/bounded.rs"]
mod bounded;

use windlass_statemachine::{Outcome, StateKind, TaskState};

use super::{
    commands::Stored,
    fences::Fences,
    foreign::endless_sleep,
    kv::KeyValue,
    records::{Envelope, read_state, write_state},
};

fn value(value: &[u8]) -> KeyValue {
    KeyValue {
        key: b"/ns/state/a".to_vec(),
        value: value.to_vec(),
        created: 3,
        written: 7,
        lease: 0,
    }
}

/// Reads bytes as the state, the envelope and a command of a task. Returns whether the state reads.
///
/// A state that reads is written, and reads back the same with the same claim. Only a sleep without a time and without the
/// version, which no node of windlass writes, gets the first time there is.
///
/// # Panics
///
/// If one of these does not hold.
pub fn check_values(input: &[u8]) -> bool {
    let kv = value(input);
    let envelope = Envelope::read(&kv);
    assert!(
        envelope.is_ok() || !input.is_empty(),
        "an empty envelope is one of Metafora"
    );
    command(&kv);
    let is_plain = serde_json::from_slice::<TaskState>(input).is_ok();
    if let Some(sleep) = endless_sleep(&kv) {
        assert!(!is_plain, "a sleep without a time is no state of its own");
        assert_eq!(sleep.code(), StateKind::Sleeping);
        assert_eq!(sleep.version, 0);
    }
    let fences = Fences::default();
    let Ok((state, hold)) = read_state(&kv, &fences) else {
        return false;
    };
    let written = write_state(&state, &hold).unwrap_or_else(|error| panic!("{error}"));
    let again = read_state(&value(written.as_bytes()), &fences);
    assert_eq!(again, Ok((state, hold)), "{written}");
    true
}

/// A command keeps its outcome, also one whose text cannot be read.
fn command(kv: &KeyValue) {
    let stored = Stored::read(Some("c"), kv);
    let outcome = Outcome::Rejected {
        reason: "why".to_owned(),
    };
    let written = stored.write_outcome(outcome.clone());
    let written = written.unwrap_or_else(|error| panic!("{error}"));
    let again = Stored::read(Some("c"), &value(written.as_bytes()));
    assert_eq!(again.became, Some(outcome), "{written}");
    assert_eq!(again.order, stored.order, "{written}");
    if stored.command.is_err() {
        assert_eq!(again.text, stored.text, "{written}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{bounded, check_values};

    /// The bounded twin of the fuzz target `metafora`.
    #[test]
    fn values_of_other_programs_are_read_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/metafora");
        for (name, input) in bounded::corpus(&folder) {
            assert_eq!(check_values(&input), name.starts_with("ok."), "{name}");
        }
        bounded::twin(&folder, 2000, check_values);
    }
}
