//! [`Spares`]: records of commands that have ended, used again for the next commands.
//!
//! A file system takes longer to make a file the more files were deleted lately: ext4 passes over the
//! numbers of all files that were deleted within a minute. A record that is renamed deletes none.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// How the names of spare records begin. No folder of a task has such a name.
const PREFIX: &str = "spare=";
/// The most spare records: each has an open file.
const MOST: usize = 16;
/// A longer record is emptied before it is used again.
const LONGEST: u64 = 16 * 1024;

/// The spare records of one process.
#[derive(Debug)]
pub(crate) struct Spares {
    /// Distinguishes the names from those of other processes, also of another process namespace.
    process: u64,
    made: AtomicU64,
    files: Mutex<Vec<Spare>>,
}

#[derive(Debug)]
struct Spare {
    path: PathBuf,
    file: File,
}

impl Default for Spares {
    fn default() -> Self {
        Self {
            process: RandomState::new().hash_one(std::process::id()),
            made: AtomicU64::new(0),
            files: Mutex::default(),
        }
    }
}

impl Spare {
    /// Makes it the record with this line, in the place of one that is there. The line is whole before
    /// the record has its name.
    fn begin(&mut self, record: &Path, line: &[u8]) -> io::Result<()> {
        if self.file.stream_position()? > LONGEST {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.file.write_all(line)?;
        fs::rename(&self.path, record)
    }
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Vec<Spare>> {
        // Nothing panics between two steps of a change.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a record that ends with this line of a spare one. `None` when there is no spare record, or
    /// it cannot be used.
    pub(super) fn begin(&self, record: &Path, line: &[u8]) -> Option<File> {
        let mut spare = self.lock().pop()?;
        match spare.begin(record, line) {
            Ok(()) => Some(spare.file),
            // Another worker has removed it, or the disk is full.
            Err(_) => {
                let _ = fs::remove_file(&spare.path);
                None
            }
        }
    }

    /// Takes the record of a command that has ended. The record loses its name.
    pub(super) fn take(&self, record: &Path, file: File) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = record.with_file_name(format!("{PREFIX}{:016x}-{number}", self.process));
        if self.lock().len() < MOST && fs::rename(record, &path).is_ok() {
            self.lock().push(Spare { path, file });
        } else {
            let _ = fs::remove_file(record);
        }
    }

    /// Removes the files.
    pub(super) fn clear(&self) {
        for spare in self.lock().drain(..) {
            let _ = fs::remove_file(spare.path);
        }
    }

    /// Removes the file with this name if it is a spare record that another process has left. A process
    /// that still has it makes another.
    pub(super) fn remove_left(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return false;
        };
        if !rest.starts_with(&format!("{:016x}-", self.process)) {
            let _ = fs::remove_file(path);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_used_again_and_ends_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let spares = Spares::default();
        assert!(spares.begin(&path("a.run"), b"a\n").is_none());
        fs::write(path("a.run"), "first\n").unwrap();
        let file = File::options().append(true).open(path("a.run")).unwrap();
        spares.take(&path("a.run"), file);
        assert!(!path("a.run").exists());
        assert_eq!(names(), 1);

        let mut file = spares.begin(&path("b.run"), b"b\n").unwrap();
        file.write_all(b"b is 7\n").unwrap();
        assert!(
            fs::read_to_string(path("b.run"))
                .unwrap()
                .ends_with("\nb\nb is 7\n")
        );
        // It takes the place of a record that is there.
        spares.take(&path("b.run"), file);
        fs::write(path("c.run"), "left\n").unwrap();
        let mut file = spares.begin(&path("c.run"), b"c\n").unwrap();
        assert!(
            fs::read_to_string(path("c.run"))
                .unwrap()
                .ends_with("\nc\n")
        );
        assert_eq!(names(), 1);

        // It does not grow for ever.
        file.write_all(&[b'x'; LONGEST as usize]).unwrap();
        spares.take(&path("c.run"), file);
        let file = spares.begin(&path("d.run"), b"d\n").unwrap();
        let bytes = fs::metadata(path("d.run")).unwrap().len();
        assert_eq!(bytes, 2, "only its line");

        // One that another worker removed is not used.
        spares.take(&path("d.run"), file);
        let left = fs::read_dir(dir.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        assert!(spares.remove_left(&left) && left.exists(), "it is ours");
        assert!(Spares::default().remove_left(&left) && !left.exists());
        assert!(spares.begin(&path("e.run"), b"e\n").is_none());
        assert!(!spares.remove_left(&path("e@1")));

        for name in ["f.run", "g.run"] {
            let file = File::create(path(name)).unwrap();
            spares.take(&path(name), file);
        }
        assert_eq!(names(), 2);
        spares.clear();
        assert_eq!(names(), 0);
    }

    #[test]
    fn spare_records_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::default();
        for n in 0..MOST + 3 {
            let record = dir.path().join(format!("{n}.run"));
            let file = File::create(&record).unwrap();
            spares.take(&record, file);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MOST);
    }
}
