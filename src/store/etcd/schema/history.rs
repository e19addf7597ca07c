//! The stored history of a task: one key for each write.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_statemachine::{Author, Fence, TaskId};

use super::{
    fences::Fences,
    json::{is_zero, parse, write},
    kv::KeyValue,
    numbers::number,
    phrase::{self, Phrase},
};
use crate::store::{Change, ChangeKind, Error, rules::kept_time::kept};

/// The changes of one write: `/NS/history/ID/VERSION` in a shared namespace, and a line of the state or of a block in
/// the layout `Compact` ([`Recent`](super::Recent)).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    place: u32,
    /// The version of the task after the write, if the key does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    /// The revision of the write, if a later one has written the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<i64>,
    /// The number of a line from another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// Who made the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Author>,
    #[serde(deserialize_with = "phrase::changes")]
    what: Vec<ChangeKind>,
}

/// An [`Entry`] as a line of a state or of a block: as short as possible.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    #[serde(skip_serializing_if = "is_zero")]
    place: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Author>,
    what: Vec<Phrase>,
}

impl Entry {
    pub(crate) fn write(
        at: Timestamp,
        (place, by): (u32, Option<&Author>),
        what: &[ChangeKind],
    ) -> Result<String, Error> {
        let entry = Self {
            at: kept(at),
            place,
            version: None,
            revision: None,
            seq: None,
            by: by.cloned(),
            what: what.to_vec(),
        };
        write("history", &entry)
    }

    /// Returns the last version of the task in a block.
    pub(crate) fn version(kv: &KeyValue) -> Option<u64> {
        let entries = Self::all(kv).into_iter();
        entries.filter_map(|entry| entry.version).max()
    }

    /// Returns the line of a state, to which the state adds version and revision. Its time has
    /// microseconds.
    pub(crate) fn write_line(
        at: Timestamp,
        (place, by): (u32, Option<&Author>),
        what: &[ChangeKind],
    ) -> Result<String, Error> {
        let line = Line {
            at: kept(at),
            place,
            by,
            what: what.iter().map(Phrase::of).collect(),
        };
        write("history", &line)
    }

    /// Returns the value of a change from another store.
    pub(crate) fn of(change: &Change) -> Result<String, Error> {
        let entry = Self {
            at: kept(change.at),
            place: 0,
            version: None,
            revision: None,
            seq: Some(change.seq),
            by: change.by.clone(),
            what: vec![change.what.clone()],
        };
        write("history", &entry)
    }

    /// Returns the entries of a key below `history/`: a single one, or those of a block.
    fn all(kv: &KeyValue) -> Vec<Self> {
        match is_block(kv) {
            true => read_lines(kv).unwrap_or_default(),
            false => parse(kv).into_iter().collect(),
        }
    }

    /// Returns whether a value is a valid value of a key below `history/`.
    pub(crate) fn is_readable(kv: &KeyValue) -> bool {
        !Self::all(kv).is_empty()
    }

    /// Reads the changes of a key below `history/`.
    pub(crate) fn read(id: &TaskId, kv: &KeyValue, fences: &Fences) -> Vec<Change> {
        let entries = Self::all(kv).into_iter();
        entries
            .flat_map(|entry| entry.changes(id, kv.mod_revision(), fences))
            .collect()
    }

    /// Like [`read`](Self::read), without changes that an earlier write has reported.
    pub(crate) fn read_new(id: &TaskId, kv: &KeyValue, fences: &Fences) -> Vec<Change> {
        match is_block(kv) {
            true => Vec::new(),
            false => Self::read(id, kv, fences),
        }
    }

    /// Returns the changes. `written` is the revision that wrote the value.
    pub(super) fn changes(self, id: &TaskId, written: i64, fences: &Fences) -> Vec<Change> {
        let revision = self.revision.unwrap_or(written);
        let by = self.by;
        let changes = self.what.into_iter().zip(self.place..);
        changes
            .map(|(mut what, place)| {
                // The fence of a claim is known only after its write.
                if let ChangeKind::Claimed { fence, .. } = &mut what
                    && *fence == Fence(0)
                {
                    *fence = fences.of(revision);
                }
                let seq = self.seq.unwrap_or_else(|| number(revision, place));
                Change::new(seq, kept(self.at), id.clone(), what).by(by.clone())
            })
            .collect()
    }
}

/// The part of the history in a state or a block.
#[derive(Deserialize)]
pub(super) struct Stored {
    #[serde(default)]
    pub(super) lines: Vec<Map<String, Value>>,
}

/// Reads the lines of a state or of a block, except those with changes that only a later version knows. A line
/// contains its version only if that does not follow the line before.
pub(super) fn read_lines(kv: &KeyValue) -> Result<Vec<Entry>, String> {
    let mut next = None;
    let lines = parse::<Stored>(kv)?.lines.into_iter().filter_map(|line| {
        let version = line.get("version").and_then(Value::as_u64).or(next);
        next = version.map(|version| version.saturating_add(1));
        let mut entry: Entry = serde_json::from_value(Value::Object(line)).ok()?;
        entry.version = version;
        Some(entry)
    });
    Ok(lines.collect())
}

/// Returns whether the value is a block: the lines for which a state had no more room
/// ([`Recent`](super::Recent)).
pub(super) fn is_block(kv: &KeyValue) -> bool {
    kv.value().starts_with(br#"{"lines":"#)
}
