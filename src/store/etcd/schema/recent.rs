//! [`Recent`]: the newest lines of a task's history, in the value of its state.

use std::sync::Arc;

use serde_json::Value;
use windlass_statemachine::TaskId;

use super::{
    fences::Fences,
    history::{Stored, read_lines},
    json::{extended, parse},
    kv::KeyValue,
};
use crate::store::Change;

/// The most lines in a state.
pub(crate) const LINES: usize = 4;
/// How many blocks of this many lines are kept below `history/`.
pub(crate) const BLOCKS: u64 = 16;

/// The newest lines of a task's history, oldest first. In the layout `Compact` the value of the state has up to
/// [`LINES`] of them. When it is full, the next write moves them to a block below `history/`. So a transition writes a
/// key of the history only once in [`LINES`] times, and a task that sleeps has no such key until it was claimed often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recent(Vec<Line>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    version: u64,
    /// The revision of the write; 0 for a write that is not made yet.
    revision: i64,
    /// The [`Entry`] as JSON, without version and revision.
    text: Arc<str>,
}

/// Lines that are moved out of the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The place in the ring of blocks.
    pub(crate) number: u64,
    /// The value.
    pub(crate) text: String,
}

impl Recent {
    /// Reads the lines of a state. An unreadable one has none.
    pub(crate) fn of(state: Option<&KeyValue>) -> Self {
        let read = state.and_then(|kv| Self::read(kv).ok());
        read.unwrap_or_default()
    }

    /// Reads the lines of a state. The error says why they cannot be read. A line with changes that only a later
    /// version knows is kept unchanged.
    pub(crate) fn read(kv: &KeyValue) -> Result<Self, String> {
        let mut next = 0;
        let lines = parse::<Stored>(kv)?.lines.into_iter().map(|mut line| {
            let version = line.remove("version").and_then(|number| number.as_u64());
            let version = version.unwrap_or(next);
            next = version.saturating_add(1);
            let revision = line.remove("revision").and_then(|number| number.as_i64());
            Line {
                version,
                revision: revision.unwrap_or(kv.mod_revision()),
                text: Value::Object(line).to_string().into(),
            }
        });
        Ok(Self(lines.collect()))
    }

    /// Adds the line of the next write, which makes this version. Returns the earlier lines when the state is full.
    pub(crate) fn push(&mut self, version: u64, line: String) -> Option<Full> {
        let full = (self.0.len() >= LINES).then(|| self.take());
        self.0.push(Line {
            version,
            revision: 0,
            text: line.into(),
        });
        full
    }

    fn take(&mut self) -> Full {
        let first = self.0.first().map_or(0, |line| line.version);
        let text = self.text();
        self.0.clear();
        Full {
            number: first / LINES as u64,
            text,
        }
    }

    /// Sets the revision that wrote the last line.
    pub(crate) fn written(mut self, revision: i64) -> Self {
        for line in self.0.iter_mut().filter(|line| line.revision == 0) {
            line.revision = revision;
        }
        self
    }

    /// Adds the lines to the JSON object of a state.
    pub(crate) fn extend(&self, state: String) -> String {
        match self.0.is_empty() {
            true => state,
            false => extended(state, &self.text()),
        }
    }

    /// Returns the lines as the field of a JSON object.
    fn text(&self) -> String {
        let mut text = String::from(r#"{"lines":["#);
        let mut expected = None;
        for (n, line) in self.0.iter().enumerate() {
            text.push_str(if n > 0 { ",{" } else { "{" });
            if line.revision > 0 {
                text.push_str(&format!(r#""revision":{},"#, line.revision));
            }
            if expected != Some(line.version) {
                text.push_str(&format!(r#""version":{},"#, line.version));
            }
            text.push_str(line.text.trim_start_matches('{'));
            expected = Some(line.version.saturating_add(1));
        }
        text.push_str("]}");
        text
    }

    /// Returns the version of the last line.
    pub(crate) fn last_version(&self) -> Option<u64> {
        self.0.last().map(|line| line.version)
    }

    /// Returns the last version that an unreadable state may have, if the last block ends with this one.
    pub(crate) fn last_possible(flushed: u64) -> u64 {
        flushed.saturating_add(LINES as u64)
    }
}

/// Returns the changes in the lines of a state.
pub(crate) fn changes_of(id: &TaskId, state: &KeyValue, fences: &Fences) -> Vec<Change> {
    let lines = read_lines(state).unwrap_or_default().into_iter();
    lines
        .flat_map(|entry| entry.changes(id, state.mod_revision(), fences))
        .collect()
}

/// Returns the changes that the last write of a state made.
pub(crate) fn new_changes_of(id: &TaskId, state: &KeyValue, fences: &Fences) -> Vec<Change> {
    let lines = read_lines(state).unwrap_or_default().into_iter();
    lines
        .filter(|entry| entry.revision.is_none())
        .flat_map(|entry| entry.changes(id, state.mod_revision(), fences))
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Fence, Json, TaskState};

    use super::*;
    use crate::store::{
        ChangeKind,
        etcd::schema::{
            Entry, Hold,
            numbers::number,
            records::{read_state, write_state},
        },
    };

    fn id() -> TaskId {
        "a".parse().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the line of a claim, which has two changes.
    fn line(second: i64) -> String {
        let at = Timestamp::from_second(second).unwrap_or_else(|e| panic!("{e}"));
        let node = "n".parse().unwrap_or_else(|e| panic!("{e}"));
        let what = [
            ChangeKind::Lost { fence: Fence(1) },
            ChangeKind::Claimed {
                node,
                fence: Fence(0),
                abandoned: true,
            },
        ];
        Entry::write_line(at, (5, None), &what).unwrap_or_else(|e| panic!("{e}"))
    }

    fn state(recent: &Recent, revision: i64) -> KeyValue {
        let state = TaskState {
            data: Json::parse("data", "[1]").ok(),
            ..TaskState::new(Timestamp::UNIX_EPOCH)
        };
        let text = write_state(&state, &Hold::default()).unwrap_or_else(|e| panic!("{e}"));
        let kv = KeyValue::new("/n/state/a", &recent.extend(text), revision);
        // The state is read as without lines.
        let read = read_state(&kv, &Fences::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read, (state, Hold::default()));
        kv
    }

    fn orders(changes: &[Change]) -> Vec<(u64, u64)> {
        let fence = |change: &Change| change.what.fence().map_or(0, |fence| fence.0);
        changes
            .iter()
            .map(|change| (change.seq, fence(change)))
            .collect()
    }

    #[test]
    fn a_line_keeps_the_revision_of_its_write_in_later_values_of_the_state() {
        let mut recent = Recent::default();
        assert_eq!(recent.push(1, line(1)), None);
        let kv = state(&recent, 7);
        let expected = vec![(number(7, 5), 1), (number(7, 6), 7)];
        assert_eq!(
            orders(&changes_of(&id(), &kv, &Fences::default())),
            expected
        );
        assert_eq!(
            orders(&new_changes_of(&id(), &kv, &Fences::default())),
            expected
        );
        // One that knows the revision of its own write, and one that is read from the state.
        let read = Recent::of(Some(&kv));
        assert_eq!(recent.clone().written(7), read);
        let mut later = read;
        assert_eq!(later.push(2, line(2)), None);
        let kv = state(&later, 9);
        let second = [(number(9, 5), 1), (number(9, 6), 9)];
        assert_eq!(
            orders(&new_changes_of(&id(), &kv, &Fences::default())),
            second
        );
        let all = [expected, second.to_vec()].concat();
        assert_eq!(orders(&changes_of(&id(), &kv, &Fences::default())), all);
        // A write without a step adds no line.
        let kv = state(&Recent::of(Some(&kv)), 12);
        assert_eq!(orders(&changes_of(&id(), &kv, &Fences::default())), all);
        assert_eq!(new_changes_of(&id(), &kv, &Fences::default()), []);
    }

    #[test]
    fn the_lines_of_a_full_state_are_moved_to_a_block() {
        let mut recent = Recent::default();
        let first = 4 * LINES as u64;
        for version in first..first + LINES as u64 {
            assert_eq!(recent.push(version, line(1)), None, "{version}");
            recent = recent.written(version as i64);
        }
        let version = first + LINES as u64;
        let full = recent
            .push(version, line(2))
            .unwrap_or_else(|| panic!("no block"));
        assert_eq!((full.number, recent.last_version()), (4, Some(version)));
        let block = KeyValue::new("/n/history/a/r04", &full.text, version as i64);
        assert_eq!(Entry::version(&block), Some(version - 1));
        let changes = Entry::read(&id(), &block, &Fences::default());
        let revisions: Vec<u64> = changes.iter().map(|change| change.seq >> 12).collect();
        let expected: Vec<u64> = (first..version).flat_map(|at| [at, at]).collect();
        assert_eq!(revisions, expected);
        assert_eq!(Entry::read_new(&id(), &block, &Fences::default()), []);
        // The state has only the next line.
        let kv = state(&recent, version as i64);
        assert_eq!(changes_of(&id(), &kv, &Fences::default()).len(), 2);
    }

    #[test]
    fn a_version_is_written_where_it_does_not_follow_the_one_before() {
        let mut recent = Recent::default();
        for version in [3, 4, 9] {
            recent.push(version, line(1));
            recent = recent.written(1);
        }
        let text = recent.extend("{}".to_owned());
        assert_eq!(text.matches("version").count(), 2, "{text}");
        let read = Recent::of(Some(&KeyValue::new("/n/state/a", &text, 1)));
        assert_eq!(read, recent);
    }

    /// A node and a node of a later version: the earlier one skips the line, and its next write of the
    /// state keeps it.
    #[test]
    fn a_line_of_a_later_version_is_skipped_and_kept() {
        let text = r#"{"lines":[{"version":3,"at":"1970-01-01T00:00:00Z","what":["grew 7"]},{"at":"1970-01-01T00:00:01Z","what":["lost 7"]}]}"#;
        let kv = KeyValue::new("/n/state/a", text, 9);
        let read = read_lines(&kv).unwrap_or_default();
        let versions: Vec<Option<u64>> = read.iter().map(|entry| entry.version).collect();
        assert_eq!(versions, [Some(4)]);
        let mut recent = Recent::of(Some(&kv));
        recent.push(5, line(5));
        let later = recent.extend("{}".to_owned());
        assert!(
            later.contains(
                r#""revision":9,"version":3,"at":"1970-01-01T00:00:00Z","what":["grew 7"]"#
            ),
            "{later}"
        );
    }

    #[test]
    fn a_state_without_lines_has_none_and_an_unreadable_one_says_why() {
        let kv = |text| KeyValue::new("/n/state/a", text, 1);
        for text in ["{}", r#"{"state":"paused"}"#] {
            assert_eq!(Recent::read(&kv(text)), Ok(Recent::default()));
        }
        assert_eq!(Recent::default().extend("{}".to_owned()), "{}");
        for text in ["{", r#"{"lines":1}"#] {
            assert!(Recent::read(&kv(text)).is_err(), "{text}");
        }
        assert_eq!(Recent::of(None), Recent::default());
    }
}
