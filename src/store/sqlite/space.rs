//! The free space of a disk, and other resources that a machine may lack for a file.

use std::path::Path;

use crate::{MachineFault, store::Error};

/// A disk with less free space than this, in bytes, is full: SQLite and the file system need some
/// themselves.
const NONE: u64 = 64 << 10;

/// A commit writes several pages to the log: with less free space than this, in bytes, most fail.
const COMMIT: u64 = 16 << 10;

/// Returns the error of a write to a file whose disk has no room for a commit.
pub(super) fn full(path: &Path) -> Option<Error> {
    let free = free(path).filter(|free| *free < COMMIT)?;
    let (file, free) = (path.display(), free >> 10);
    Some(Error::unavailable(
        "write",
        format!("the disk of '{file}' is full ({free} KiB free); free space on that disk"),
    ))
}

/// Returns what the machine presently lacks for a file. SQLite reports an error of the disk without
/// its number.
pub(super) fn fault_of(path: &Path) -> Option<MachineFault> {
    // Opens the folder, because closing the file would end the locks of this process on it.
    let opened = std::fs::File::open(path.parent()?);
    let fault = opened.err().and_then(|error| MachineFault::of(&error));
    fault.or_else(|| (free(path)? < NONE).then_some(MachineFault::DiskFull))
}

/// Returns the free bytes on the disk of a file; `None` if they are not known.
#[cfg(unix)]
#[allow(
    clippy::unnecessary_cast,
    reason = "these numbers are smaller on other systems"
)]
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path.parent()?).ok()?;
    // Some file systems keep blocks that only root may use.
    let blocks = match nix::unistd::geteuid().is_root() {
        true => stat.blocks_free(),
        false => stat.blocks_available(),
    };
    let size = stat.fragment_size();
    Some((blocks as u64).saturating_mul(size as u64))
}

#[cfg(not(unix))]
pub(super) fn free(_: &Path) -> Option<u64> {
    None
}
