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

/// `/NS/history/ID/VERSION`: the changes of one write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    place: u32,
    /// The number of a line from another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    what: Vec<ChangeKind>,
}

impl Entry {
    pub(crate) fn write(at: Timestamp, place: u32, what: &[ChangeKind]) -> Result<String, Error> {
        let (what, seq) = (what.to_vec(), None);
        write(
            "history",
            &Self {
                at,
                place,
                seq,
                what,
            },
        )
    }

    /// Writes a change from another store.
    pub(crate) fn of(change: &Change) -> Result<String, Error> {
        let entry = Self {
            at: change.at,
            place: 0,
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
