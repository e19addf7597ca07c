//! [`InputFiles`]: the files that a task reads, and whether they changed since it ended.
//!
//! The rule is that of make. A task that has ended runs again if one of its files
//!
//! - was modified after the task ended, or
//! - has another time or size than when the task was submitted, and was not modified while the task
//!   waited or ran: a copy of an older version replaced it.
//!
//! A modification while the task waits or runs does not count: the command read the new content, or
//! wrote it itself (`sed -i`). A missing file does not count either, because many commands move or
//! delete the files that they read.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use jiff::{SignedDuration, Timestamp};
use windlass::{TaskState, statemachine::text::of_io, store::TaskRecord};

use crate::hash;

/// The label with the digest of the times and sizes of a task's files, as they were when the task was
/// submitted.
pub(super) const LABEL: &str = "batch-inputs";

/// The digits of a digest.
const DIGITS: usize = 20;
/// How far the time of a file may be behind the clock: file systems use the time of the last tick.
const TICK: SignedDuration = SignedDuration::from_millis(20);
/// The store keeps times in milliseconds.
const ROUNDING: SignedDuration = SignedDuration::from_millis(1);

/// The files that a task reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum InputFiles {
    /// No files.
    #[default]
    None,
    /// This file, if it is a regular file.
    Line(PathBuf),
    /// These files.
    Named(Vec<PathBuf>),
}

/// Times and sizes of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The value of the label.
    pub(super) digest: String,
    /// When the newest was modified.
    newest: Timestamp,
}

impl InputFiles {
    /// Returns the first named file that cannot show whether it changed, with the reason.
    pub(super) fn not_there(&self) -> Option<String> {
        let Self::Named(files) = self else {
            return None;
        };
        files.iter().find_map(|file| {
            let name = file.display();
            match fs::metadata(file) {
                Ok(data) if data.is_dir() => Some(format!(
                    "'{name}' is a folder, whose time is not that of the files in it"
                )),
                Ok(_) => None,
                Err(e) => Some(format!("'{name}' cannot be looked at: {}", of_io(&e))),
            }
        })
    }

    /// Reads the times and sizes. `None` when there is no file, or one of them is missing.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        let (files, only_regular) = match self {
            Self::None => return None,
            Self::Line(file) => (std::slice::from_ref(file), true),
            Self::Named(files) => (files.as_slice(), false),
        };
        let mut parts = Vec::with_capacity(files.len());
        let mut newest = Duration::ZERO;
        for file in files {
            let data = fs::metadata(file).ok()?;
            if only_regular && !data.is_file() {
                return None;
            }
            // A time before 1970 counts as 1970; the digest has the exact time.
            let modified = data.modified().ok()?;
            let since = modified.duration_since(UNIX_EPOCH);
            newest = newest.max(since.as_ref().copied().unwrap_or_default());
            parts.push(format!("{since:?} {}", data.len()));
        }
        let parts: Vec<&[u8]> = (files.iter().zip(&parts))
            .flat_map(|(file, part)| [bytes(file), part.as_bytes()])
            .collect();
        let newest = Timestamp::UNIX_EPOCH.checked_add(newest).ok()?;
        Some(Stamp {
            digest: hash::hex(&parts, DIGITS),
            newest,
        })
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

impl Stamp {
    /// Returns whether the files changed since this task ended in this state.
    pub(super) fn differs(&self, record: &TaskRecord, state: &TaskState) -> bool {
        let recorded = record.task.labels.get(LABEL);
        if recorded == Some(&self.digest) {
            return false;
        }
        let after = |moment: Timestamp, slack| moment.checked_add(slack).unwrap_or(moment);
        let replaced = after(self.newest, TICK) < record.submitted_at;
        self.newest > after(state.since, ROUNDING) || recorded.is_some() && replaced
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Returns a task that was submitted at 100, ended at 200, and has this label.
    fn ended(digest: Option<&str>) -> (TaskRecord, TaskState) {
        let mut state = TaskState::new(at(100));
        state.since = at(200);
        let mut new = windlass::NewTask::new("exec").id("t");
        if let Some(digest) = digest {
            new = new.label(LABEL, digest);
        }
        let record = TaskRecord::new(new.build().unwrap().task, Ok(state.clone()), 1, at(100));
        (record, state)
    }

    #[test]
    fn a_file_differs_as_make_has_it() {
        for (recorded, modified, differs) in [
            (Some("same"), 50, false),
            (Some("same"), 300, false),
            (Some("other"), 300, true),
            (Some("other"), 150, false),
            (Some("other"), 50, true),
            (None, 300, true),
            (None, 150, false),
            (None, 50, false),
        ] {
            let stamp = Stamp {
                digest: "same".into(),
                newest: at(modified),
            };
            let (record, state) = ended(recorded);
            let found = stamp.differs(&record, &state);
            assert_eq!(found, differs, "{recorded:?}, modified at {modified}");
        }
    }

    #[test]
    fn time_size_and_name_make_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b");
        fs::write(&file, "1").unwrap();
        let set = |second: u64| {
            let time = UNIX_EPOCH + Duration::from_secs(second);
            File::options()
                .append(true)
                .open(&file)
                .unwrap()
                .set_modified(time)
                .unwrap();
        };
        let digest = |inputs: &InputFiles| inputs.stamp().map(|stamp| stamp.digest);
        let line = InputFiles::Line(file.clone());
        set(10);
        let first = digest(&line);
        assert!(first.is_some());
        set(11);
        assert_ne!(digest(&line), first);
        set(10);
        assert_eq!(digest(&line), first);
        fs::write(&file, "12").unwrap();
        set(10);
        assert_ne!(digest(&line), first);
        assert_eq!(line.stamp().unwrap().newest, at(10));

        // A folder is not an input by default; a missing file leaves no stamp.
        assert_eq!(digest(&InputFiles::Line(dir.path().into())), None);
        assert!(digest(&InputFiles::Named(vec![dir.path().into()])).is_some());
        let missing = dir.path().join("missing");
        assert_eq!(digest(&InputFiles::Named(vec![file, missing])), None);
        assert_eq!(digest(&InputFiles::None), None);
    }
}
