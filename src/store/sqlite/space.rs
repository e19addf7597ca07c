//! The free space of a disk.

use std::path::Path;

/// Returns how many bytes the disk of a file has free; `None` where that is not known.
#[cfg(unix)]
#[allow(
    clippy::unnecessary_cast,
    reason = "these numbers are smaller on other systems"
)]
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path.parent()?).ok()?;
    let (blocks, size) = (stat.blocks_available(), stat.fragment_size());
    Some((blocks as u64).saturating_mul(size as u64))
}

#[cfg(not(unix))]
pub(super) fn free(_: &Path) -> Option<u64> {
    None
}
