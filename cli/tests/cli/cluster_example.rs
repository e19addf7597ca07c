//! The example of a cluster does what it says: with fewer tasks, on the etcd that the tests have.
#![cfg(feature = "etcd")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{path::Path, process::Command};

#[test]
fn the_work_completes_although_a_worker_and_a_member_are_killed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let script = root.join("examples/cluster/run.sh");
    let mut run = Command::new("bash");
    run.arg(&script)
        .env("TASKS", "24")
        .env("WINDLASS", env!("CARGO_BIN_EXE_windlass"));
    let done = run.output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}\n{errors}");
    assert!(told.contains("killing worker n1 and member m1"), "{told}");
    assert!(told.contains("24 of 24 completed"), "{told}");
    assert!(told.trim_end().ends_with("stopping"), "{told}\n{errors}");
}
