//! The stored history of a task: one key for each write.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Fence, TaskId};

use super::{
    fences::Fences,
    json::{is_zero, parse, write},
    kv::KeyValue,
    numbers::number,
};
use crate::store::{Change, ChangeKind, Error};

/// `/NS/history/ID/VERSION`, or `/NS/history/ID/rNN` in a layout of our own: the changes of one write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    place: u32,
    /// The version of the task that the write made, where the key does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// The number of a line from another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    what: Vec<ChangeKind>,
}

impl Entry {
    pub(crate) fn write(at: Timestamp, place: u32, what: &[ChangeKind]) -> Result<String, Error> {
        Self::write_version(at, place, what, None)
    }

    /// As [`write`](Self::write), with the version that the key does not have.
    pub(crate) fn write_version(
        at: Timestamp,
        place: u32,
        what: &[ChangeKind],
        version: Option<u64>,
    ) -> Result<String, Error> {
        let entry = Self {
            at,
            place,
            version,
            seq: None,
            what: what.to_vec(),
        };
        write("history", &entry)
    }

    /// Returns the version of the task that an entry holds.
    pub(crate) fn version(kv: &KeyValue) -> Option<u64> {
        parse::<Self>(kv).ok()?.version
    }

    /// Writes a change from another store.
    pub(crate) fn of(change: &Change) -> Result<String, Error> {
        let entry = Self {
            at: change.at,
            place: 0,
            version: None,
            seq: Some(change.seq),
            what: vec![change.what.clone()],
        };
        write("history", &entry)
    }

    /// Reads the changes of an entry.
    pub(crate) fn read(id: &TaskId, kv: &KeyValue, fences: &Fences) -> Vec<Change> {
        let Ok(entry) = parse::<Self>(kv) else {
            return Vec::new();
        };
        let revision = kv.mod_revision();
        let changes = entry.what.into_iter().zip(entry.place..);
        changes
            .map(|(mut what, place)| {
                // A claim learns its fence only after its write.
                if let ChangeKind::Claimed { fence, .. } = &mut what
                    && *fence == Fence(0)
                {
                    *fence = fences.of(revision);
                }
                Change {
                    seq: entry.seq.unwrap_or_else(|| number(revision, place)),
                    at: entry.at,
                    task: id.clone(),
                    what,
                }
            })
            .collect()
    }
}
