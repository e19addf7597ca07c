//! The checks that write nothing.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use super::{api, cargo, circles, root, run, tools};

type Check = fn(&Path, &mut Vec<String>);

/// The checks in their order, by their names on the command line.
const CHECKS: [(&str, Check); 9] = [
    ("formatting", check_formatting),
    ("circles", check_circles),
    ("api", check_api),
    ("locks", check_locks),
    ("lints", check_lints),
    ("features", check_features),
    ("docs", check_docs),
    ("msrv", check_msrv),
    ("licences", check_licences),
];

/// Runs all checks, or those that are named.
pub(crate) fn verify(names: &[String]) -> Result<(), String> {
    if let Some(unknown) = names
        .iter()
        .find(|n| CHECKS.iter().all(|(name, _)| name != n))
    {
        let known = CHECKS.map(|(name, _)| name).join(", ");
        return Err(format!(
            "could not verify '{unknown}': the checks are {known}"
        ));
    }
    let protoc = tools::protoc(&root())?;
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        if names.is_empty() || names.iter().any(|n| n == name) {
            check(&protoc, &mut failed);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

/// Cargo with these arguments, and with protoc for the build with etcd.
fn cargo_with(protoc: &Path, args: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.env("PROTOC", protoc).args(args);
    cargo
}

fn note(what: &str, command: &mut Command, failed: &mut Vec<String>) {
    if let Err(why) = run(what, command) {
        failed.push(why);
    }
}

fn check_formatting(protoc: &Path, failed: &mut Vec<String>) {
    note(
        "formatting",
        &mut cargo_with(protoc, &["fmt", "--all", "--check"]),
        failed,
    );
    let mut peers = rustfmt_of_peers();
    note("formatting of the peers", peers.arg("--check"), failed);
}

/// Refuses files that import each other.
fn check_circles(_: &Path, failed: &mut Vec<String>) {
    failed.extend(circles::check(&root()));
}

/// Compares the public items with their list.
fn check_api(_: &Path, failed: &mut Vec<String>) {
    failed.extend(api::check(&root()));
}

/// Formats the programs of `benches/peers/`, each a workspace of its own. It needs none of their dependencies; lints would
/// build them all.
pub(crate) fn rustfmt_of_peers() -> Command {
    let folder = root().join("benches/peers");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.current_dir(&folder);
    for program in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let sources = ["src/main.rs", "src/lib.rs"].map(|file| program.path().join(file));
        rustfmt.args(sources.iter().filter(|file| file.is_file()));
    }
    rustfmt
}

/// The lock files of the programs of windlass in `benches/peers/`, which are outside of the workspace: a new dependency of
/// the library has to be in them too.
fn check_locks(protoc: &Path, failed: &mut Vec<String>) {
    for program in ["windlass", "windlass-etcd"] {
        let manifest = root().join("benches/peers").join(program);
        let mut metadata = cargo_with(protoc, &["metadata", "--locked", "--format-version", "1"]);
        metadata
            .arg("--manifest-path")
            .arg(manifest.join("Cargo.toml"))
            .stdout(Stdio::null());
        let what = format!("the lock file of benches/peers/{program}");
        note(&what, &mut metadata, failed);
    }
}

fn check_lints(protoc: &Path, failed: &mut Vec<String>) {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-Dwarnings",
    ];
    note("lints", &mut cargo_with(protoc, &clippy), failed);
}

fn check_features(protoc: &Path, failed: &mut Vec<String>) {
    for (what, features) in FEATURES_ALONE {
        let mut clippy = cargo_with(protoc, &["clippy"]);
        clippy.args(features.split(' ')).args(["--", "-Dwarnings"]);
        note(what, &mut clippy, failed);
    }
}

fn check_docs(protoc: &Path, failed: &mut Vec<String>) {
    let doc = ["doc", "--workspace", "--all-features", "--no-deps"];
    let mut doc = cargo_with(protoc, &doc);
    note("docs", doc.env("RUSTDOCFLAGS", "-Dwarnings"), failed);
}

/// The builds of users, which the build of the workspace with all features does not contain.
const FEATURES_ALONE: [(&str, &str); 6] = [
    ("the library by default", "-p windlass"),
    (
        "the library without its default features",
        "-p windlass --no-default-features",
    ),
    (
        "the library with etcd and without SQLite",
        "-p windlass --no-default-features --features etcd",
    ),
    (
        "the library with the conformance suite alone",
        "-p windlass --no-default-features --features conformance",
    ),
    (
        "the library with the helpers for tests alone",
        "-p windlass --no-default-features --features testing",
    ),
    ("the command line by default", "-p windlass-cli"),
];

/// The stated minimum (`rust-version`) holds if its own compiler accepts the code.
fn check_msrv(protoc: &Path, failed: &mut Vec<String>) {
    let stated = env!("CARGO_PKG_RUST_VERSION");
    let version = |command: &mut Command| {
        let out = command
            .arg("--version")
            .output()
            .ok()
            .filter(|o| o.status.success())?;
        let text = String::from_utf8(out.stdout).ok()?;
        text.split_whitespace().nth(1).map(ToOwned::to_owned)
    };
    let is_stated = |v: &str| v == stated || v.starts_with(&format!("{stated}."));
    if version(&mut Command::new("rustc")).is_some_and(|v| is_stated(&v)) {
        eprintln!("==> minimum Rust version {stated}: it is the compiler of this very run");
        return;
    }
    let with = format!("+{stated}.0");
    if version(Command::new("rustc").arg(&with)).is_some_and(|v| is_stated(&v)) {
        let mut check = Command::new("cargo");
        check.current_dir(root()).env("PROTOC", protoc).args([
            &with,
            "check",
            "--workspace",
            "--all-features",
        ]);
        if let Err(why) = run(&format!("minimum Rust version {stated}"), &mut check) {
            failed.push(why);
        }
        return;
    }
    failed.push(format!(
        "minimum Rust version {stated}: could not check it: its compiler is not installed; \
         install it with `rustup toolchain install {stated}.0`"
    ));
}

fn check_licences(_: &Path, failed: &mut Vec<String>) {
    let there = cargo()
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|o| o.status.success());
    if !there {
        eprintln!(
            "==> licences and advisories: NOT CHECKED, cargo-deny is not installed \
             (cargo install cargo-deny)"
        );
        return;
    }
    // Advisories need a database from the network; licences, bans and sources do not.
    let mut deny = cargo();
    deny.args([
        "deny",
        "--all-features",
        "check",
        "licenses",
        "bans",
        "sources",
    ]);
    if let Err(why) = run("licences, bans, sources", &mut deny) {
        failed.push(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_check_is_an_error_with_the_known_ones() {
        let error = verify(&["lint".to_owned()]).err().unwrap_or_default();
        assert!(
            error.contains("'lint'")
                && error.contains("formatting, circles, api, locks, lints, features"),
            "{error}"
        );
    }

    /// Licences have a job of their own there, with the advisories.
    #[test]
    fn the_public_ci_runs_every_check() -> Result<(), std::io::Error> {
        let file = std::fs::read_to_string(root().join(".github/workflows/ci.yml"))?;
        let names = CHECKS.map(|(name, _)| name).join(", ");
        let names = names.trim_end_matches(", licences");
        assert!(file.contains(&format!("check: [{names}]")), "{names}");
        assert!(file.contains("  licences:\n"));
        Ok(())
    }
}
