//! A log beside a store's file that another user has planted.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
};

use super::{beside, existing};

#[allow(
    clippy::unwrap_used,
    reason = "a helper of tests, outside of the test functions that clippy knows"
)]
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_log_that_another_user_has_planted_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let log = beside(&path, "-wal");
    for name in [&path, &log] {
        fs::write(name, "").unwrap();
    }
    set_mode(&path, 0o644);
    let check = || existing(&path).map_err(|error| error.to_string());
    check().unwrap();
    // Only root can give a file to another user.
    if chown(&log, Some(65534), Some(65534)).is_ok() {
        let refused = check().unwrap_err();
        assert!(
            refused.contains("-wal' belongs to another user (uid 65534)"),
            "{refused}"
        );
        // Any user may write the tasks themselves.
        set_mode(&path, 0o666);
        check().unwrap();
        set_mode(&path, 0o644);
    }
    fs::remove_file(&log).unwrap();
    // A pipe made every command wait for its writer.
    nix::unistd::mkfifo(&log, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let refused = check().unwrap_err();
    assert!(refused.contains("-wal' is not a regular file"), "{refused}");
    fs::remove_file(&log).unwrap();
    symlink("elsewhere", &log).unwrap();
    let refused = check().unwrap_err();
    assert!(refused.contains("-wal' is a link"), "{refused}");
}
