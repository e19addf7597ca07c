//! The index of ended tasks by the time of their end, with one key for each task. Without it, a list by end would have
//! to read all of them.
//!
//! `meta/ended/TIME/ID` with the state as its value. Each write that makes or removes the record of an ended task does
//! the same with its key here.

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskId};

use super::{Envelope, KeyValue, Keys, Snapshot, json::parse, keys::ENDED};

/// Returns the digits of a time in microseconds since 1970, which sort by time.
pub(crate) fn digits(micros: i64) -> String {
    format!("{:016x}", micros.cast_unsigned() ^ (1 << 63))
}

/// A key of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// In microseconds since 1970.
    pub(crate) at: i64,
    pub(crate) id: TaskId,
    /// The state; `None` for a value that cannot be read.
    pub(crate) state: Option<StateKind>,
}

impl End {
    /// Reads a key with its value.
    pub(crate) fn read(keys: &Keys, kv: &KeyValue) -> Option<Self> {
        let (at, id) = keys.strip(kv.key(), ENDED)?.split_once('/')?;
        let at = u64::from_str_radix(at, 16)
            .ok()
            .filter(|_| at.len() == 16)?;
        Some(Self {
            at: (at ^ (1 << 63)).cast_signed(),
            id: TaskId::new(id).ok()?,
            state: parse(kv).ok(),
        })
    }
}

impl Keys {
    /// Returns the key of a task in the index of ended tasks.
    pub(crate) fn ended(&self, at: Timestamp, id: &TaskId) -> String {
        format!("{}{ENDED}{}/{id}", self.root(), digits(at.as_microsecond()))
    }
}

impl Snapshot {
    /// Returns the possible keys of an ended task in the index. The record of a task that a node of Metafora has
    /// ended has a different time than its state.
    pub(crate) fn end_keys(&self, keys: &Keys, id: &TaskId) -> Vec<String> {
        let Some(record) = &self.finished else {
            return Vec::new();
        };
        let ended_at = Envelope::read(record)
            .ok()
            .and_then(|record| record.ended_at);
        let state = self.state().ok().map(|(state, _)| state);
        let since = state.filter(|state| state.code().is_terminal());
        let times = ended_at.into_iter().chain(since.map(|state| state.since));
        let mut found: Vec<String> = times.map(|at| keys.ended(at, id)).collect();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_the_times() {
        let times = [
            i64::MIN,
            -5,
            -1,
            0,
            1,
            255,
            256,
            1_764_150_000_000_000,
            i64::MAX,
        ];
        let texts = times.map(digits);
        assert!(texts.is_sorted(), "{texts:?}");
        assert!(texts.iter().all(|text| text.len() == 16));
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let keys = Keys::new("n");
        for (micros, id) in [(0, "a"), (-7, "a b"), (1_764_150_000_000_000, "daily@2030")] {
            let at = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MIN);
            let id: TaskId = id.parse().unwrap_or_else(|e| panic!("{e}"));
            let key = keys.ended(at, &id);
            let kv = KeyValue::new(&key, r#""failed""#, 1);
            let end = End {
                at: micros,
                id,
                state: Some(StateKind::Failed),
            };
            assert_eq!(End::read(&keys, &kv), Some(end));
            assert!(keys.is_meta(key.as_bytes()));
        }
        for key in [
            "/n/meta/ended/1/a",
            "/n/meta/ended/8000000000000000",
            "/n/meta/ended/x/a",
        ] {
            assert_eq!(End::read(&keys, &KeyValue::new(key, "1", 1)), None, "{key}");
        }
    }
}
