//! What commands print, and where it is kept.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use super::Place;

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

/// Starts it; its standard output can be read.
pub(crate) fn piped(place: &Place, args: &[&str]) -> Child {
    let mut command = place.windlass(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}
