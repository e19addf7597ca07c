//! The public items of the libraries beside those of the last release.

use std::process::Command;

use super::tags;
use crate::{packages::PUBLISHED, root, run, tools};

/// `cargo xtask semver`: whether the version fits what has changed since the last release.
///
/// # Errors
///
/// When a change needs a greater version, and when cargo-semver-checks is not installed.
pub(crate) fn semver() -> Result<(), String> {
    let root = root();
    let Some(last) = tags::last(&root)? else {
        eprintln!(
            "==> semver: NOT CHECKED, there is no release yet (no tag vN.N.N before this commit)"
        );
        return Ok(());
    };
    let mut check = Command::new("cargo");
    check
        .current_dir(&root)
        .env("PROTOC", tools::protoc(&root)?);
    check.args(["semver-checks", "--all-features", "--baseline-rev", &last]);
    // The library of the command line is no API.
    let libraries = PUBLISHED.into_iter().filter(|name| *name != "windlass-cli");
    check.args(libraries.flat_map(|name| ["--package", name]));
    run(
        &format!("the public items beside those of {last}"),
        &mut check,
    )
    .map_err(|why| format!("{why}; cargo install cargo-semver-checks, if it is not there"))
}
