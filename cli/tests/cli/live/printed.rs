//! The output of commands, and its files.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
};

use super::{Place, until};

/// The numbers, one a line.
pub(crate) fn seq(from: usize, to: usize) -> String {
    (from..=to).map(|n| format!("{n}\n")).collect()
}

/// The numbers are in these lines, each once and in order. Not `assert_eq!`: it would print them all.
pub(crate) fn is_seq(text: &str, from: usize, to: usize) {
    let lines = text.lines().count();
    assert!(
        text == seq(from, to),
        "{lines} lines are not {from} to {to}"
    );
}

/// The folder of the only store with logs, with those of its tasks in it.
pub(crate) fn of_store(place: &Place) -> PathBuf {
    let mut found = fs::read_dir(place.path("s.db.logs")).unwrap();
    found.next().unwrap().unwrap().path()
}

/// What lies in it.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// How many bytes its files take.
pub(crate) fn size(folder: &Path) -> u64 {
    let sizes = files(folder)
        .into_iter()
        .map(|f| fs::metadata(f).unwrap().len());
    sizes.sum()
}

/// What a program has printed so far, read in the background: a test that waits for it can fail.
pub(crate) struct Printed(Arc<Mutex<String>>);

impl Printed {
    /// By this program, to its standard output.
    pub(crate) fn by(program: &mut Child) -> Self {
        let mut from = BufReader::new(program.stdout.take().unwrap());
        let text = Arc::new(Mutex::new(String::new()));
        let into = text.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            while from.read_line(&mut line).unwrap() > 0 {
                into.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        Self(text)
    }

    /// Waits for this many lines; returns all that there are.
    pub(crate) fn lines(&self, lines: usize) -> String {
        let text = || self.0.lock().unwrap().clone();
        until("the lines are there", || text().lines().count() >= lines);
        text()
    }
}

/// Starts it; its standard output can be read.
pub(crate) fn piped(place: &Place, args: &[&str]) -> Child {
    let mut command = place.windlass(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}
