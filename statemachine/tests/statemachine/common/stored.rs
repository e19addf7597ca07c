//! Reads bytes as each persisted form. `tests/parsers` includes this file, for the fuzz target `stored`.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use windlass_statemachine::{Command, Json, Outcome, Retry, Task, TaskState};

/// Checks that a value that is written reads back as the same value, and is written as the same text.
pub(crate) fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let back: T = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{text} does not read back: {error}"));
    assert_eq!(&back, value);
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

/// Reads bytes as every persisted form; what reads is also written, and reads back the same. Returns whether one of the
/// records of a task reads.
pub(crate) fn read_everything(bytes: &[u8]) -> bool {
    fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> bool {
        match serde_json::from_slice::<T>(bytes) {
            Ok(value) => round_trip(&value),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return false;
            }
        }
        true
    }
    read::<Json>(bytes);
    let records = [
        read::<TaskState>(bytes),
        read::<Command>(bytes),
        read::<Task>(bytes),
        read::<Outcome>(bytes),
        read::<Retry>(bytes),
    ];
    records.contains(&true)
}
