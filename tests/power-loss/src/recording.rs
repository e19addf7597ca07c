//! [`Recording`]: a workload that has run under the recorder.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use windlass_robustness::BoxError;

use crate::{
    disk::{Disk, Files},
    loss::Loss,
    site::Site,
    trace::{self, Op},
};

const RECORDER: &str = include_str!("recorder.c");

/// What a workload has done to its folder.
#[derive(Debug)]
pub struct Recording {
    /// The files before it started.
    pub before: Files,
    /// Every change, in order.
    pub ops: Vec<Op>,
}

impl Recording {
    /// Runs a workload in an empty folder, or in one with these files.
    ///
    /// # Errors
    ///
    /// When the recorder cannot be compiled, the workload fails, or the trace does not lead to the
    /// files that are there in the end: then the recorder has missed a change.
    pub fn of(workload: &Path, args: &[&str], before: Files) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        // The recorder compares paths as text.
        let root = folder.path().canonicalize()?;
        let site = Site::at(&root.join("recorded"));
        site.create(&before)?;
        let (trace, log) = (root.join("trace"), root.join("log"));
        let status = Command::new(workload)
            .arg(site.folder())
            .args(args)
            .env("LD_PRELOAD", compile(&root)?)
            .env("POWER_LOSS_FOLDER", site.folder())
            .env("POWER_LOSS_TRACE", &trace)
            // Some handlers panic on purpose.
            .env("RUST_BACKTRACE", "0")
            .stderr(File::create(&log)?)
            .status()?;
        if !status.success() {
            let log = fs::read_to_string(&log)?;
            return Err(format!("the workload failed: {status}; its log:\n{log}").into());
        }
        let ops = trace::parse(&fs::read(&trace)?)?;
        let recording = Self { before, ops };
        recording.is_complete(&site.files()?)?;
        Ok(recording)
    }

    /// Counts how often a file was written at its beginning.
    pub fn written_from_the_start(&self, file: &str) -> usize {
        let mut open = BTreeSet::new();
        let starts = self.ops.iter().filter(|op| match op {
            Op::Open { fd, name, .. } if name == file => {
                open.insert(*fd);
                false
            }
            Op::Open { fd, .. } | Op::Close { fd } => {
                open.remove(fd);
                false
            }
            Op::Write { fd, at: 0, .. } => open.contains(fd),
            _ => false,
        });
        starts.count()
    }

    fn is_complete(&self, found: &Files) -> Result<(), BoxError> {
        let mut disk = Disk::new(&self.before);
        self.ops.iter().try_for_each(|op| disk.apply(op))?;
        let replayed = disk.after(Loss::None, &mut fastrand::Rng::with_seed(0));
        let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>().join(", ");
        if names(&replayed) != names(found) {
            let (replayed, found) = (names(&replayed), names(found));
            let why = format!("the trace leads to the files {replayed}; there are {found}");
            return Err(why.into());
        }
        match replayed.iter().find(|(name, text)| found[*name] != **text) {
            Some((name, _)) => Err(format!("the trace leads to another content of {name}").into()),
            None => Ok(()),
        }
    }
}

/// Compiles the recorder with the C compiler that SQLite needs too.
fn compile(folder: &Path) -> Result<PathBuf, BoxError> {
    let source = folder.join("recorder.c");
    let library = folder.join("recorder.so");
    fs::write(&source, RECORDER)?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o"])
        .arg(&library)
        .arg(&source)
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|e| format!("could not start {}: {e}", compiler.display()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("could not compile the recorder: {why}").into());
    }
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_missed_is_noticed() {
        let before = Files::from([("a".to_owned(), b"x".to_vec())]);
        let recording = Recording {
            before: before.clone(),
            ops: Vec::new(),
        };
        recording.is_complete(&before).unwrap();
        let other = Files::from([("a".to_owned(), b"y".to_vec())]);
        assert!(recording.is_complete(&other).is_err());
        assert!(recording.is_complete(&Files::new()).is_err());
    }
}
