//! The checks that write nothing.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use super::{api, cargo, circles, lengths, neighbours, packages, python, root, run, site, tools};

type Check = fn(&Path, &mut Vec<String>);

/// The checks in their order, by their names on the command line.
const CHECKS: [(&str, Check); 13] = [
    ("formatting", check_formatting),
    ("circles", check_circles),
    ("lengths", check_lengths),
    ("api", check_api),
    ("versions", check_versions),
    ("locks", check_locks),
    ("lints", check_lints),
    ("features", check_features),
    ("docs", check_docs),
    ("site", check_site),
    ("packages", check_packages),
    ("neighbours", check_neighbours),
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

/// Refuses files that are too long.
fn check_lengths(_: &Path, failed: &mut Vec<String>) {
    failed.extend(lengths::check(&root()));
}

/// Compares the public items with their list.
fn check_api(_: &Path, failed: &mut Vec<String>) {
    failed.extend(api::check(&root()));
}

/// Compares the versions of the Python package with that of the crates.
fn check_versions(_: &Path, failed: &mut Vec<String>) {
    failed.extend(python::check_versions(&root()));
}

/// Formats the programs of `benches/peers/` and of `fuzz/`, each its own workspace. It needs none of their dependencies;
/// lints would build them all.
pub(crate) fn rustfmt_of_peers() -> Command {
    let folder = root().join("benches/peers");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.current_dir(&folder);
    for program in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let sources = ["src/main.rs", "src/lib.rs"].map(|file| program.path().join(file));
        rustfmt.args(sources.iter().filter(|file| file.is_file()));
    }
    let targets = std::fs::read_dir(root().join("fuzz/fuzz_targets"));
    rustfmt.args(
        targets
            .into_iter()
            .flatten()
            .flatten()
            .map(|target| target.path()),
    );
    rustfmt
}

/// The lock files of the programs of windlass in `benches/peers/` and `fuzz/`, which are outside of the workspace: a new
/// dependency of the library has to be in them too.
fn check_locks(protoc: &Path, failed: &mut Vec<String>) {
    for program in [
        "benches/peers/windlass",
        "benches/peers/windlass-etcd",
        "fuzz",
    ] {
        let manifest = root().join(program);
        let mut metadata = cargo_with(protoc, &["metadata", "--locked", "--format-version", "1"]);
        metadata
            .arg("--manifest-path")
            .arg(manifest.join("Cargo.toml"))
            .stdout(Stdio::null());
        let what = format!("the lock file of {program}");
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

/// Builds the site of the documents, and follows its links.
fn check_site(_: &Path, failed: &mut Vec<String>) {
    failed.extend(site::site().err());
}

/// The builds of users, which the build of the workspace with all features does not contain.
const FEATURES_ALONE: [(&str, &str); 9] = [
    ("the library by default", "-p windlass"),
    (
        "the library without its default features",
        "-p windlass --no-default-features",
    ),
    (
        "the library with the SQLite of the system",
        "-p windlass --no-default-features --features sqlite-system",
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
    ("the kind exec", "-p windlass-exec"),
    ("the server", "-p windlass-server"),
    ("the command line by default", "-p windlass-cli"),
];

/// The packages of the published crates build from the files that they have, by the compiler of the stated minimum
/// (`rust-version`): one build shows both. Where that compiler is not installed, they are built by this one, and the
/// versions that the dependencies state and a lint are the check of the minimum.
fn check_packages(protoc: &Path, failed: &mut Vec<String>) {
    let stated = env!("CARGO_PKG_RUST_VERSION");
    match newer_dependencies(protoc, stated) {
        Ok(newer) if newer.is_empty() => {}
        Ok(newer) => failed.push(format!(
            "minimum Rust version {stated}: dependencies need a newer one: {}; raise rust-version in Cargo.toml, or use an \
             older version of them (cargo update --precise)",
            newer.join(", ")
        )),
        Err(why) => failed.push(why),
    }
    let is_stated = |rustc: &mut Command| {
        let out = rustc.arg("--version").output().ok();
        let text = out.filter(|out| out.status.success()).map(|out| out.stdout);
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        let version = text.split_whitespace().nth(1).unwrap_or_default();
        version == stated || version.starts_with(&format!("{stated}."))
    };
    let with = format!("+{stated}.0");
    let compiler = if is_stated(&mut Command::new("rustc")) {
        packages::Compiler::This
    } else if is_stated(Command::new("rustc").arg(&with)) {
        packages::Compiler::Other(with)
    } else {
        eprintln!(
            "==> minimum Rust version {stated}: checked by the lint incompatible_msrv of `verify lints` alone, which checks \
             uses of the standard library and not the language; its compiler is not installed (rustup toolchain install \
             {stated}.0)"
        );
        packages::Compiler::This
    };
    failed.extend(packages::check(protoc, &compiler).err());
}

/// Returns the locked packages whose stated minimum is greater.
fn newer_dependencies(protoc: &Path, stated: &str) -> Result<Vec<String>, String> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(serde::Deserialize)]
    struct Package {
        name: String,
        version: String,
        rust_version: Option<String>,
    }
    let what = "could not read the minimum Rust versions of the dependencies";
    let args = ["metadata", "--locked", "--all-features"];
    let out = cargo_with(protoc, &args)
        .args(["--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{what}: {e}"))?;
    let metadata: Metadata =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("{what}: {e}"))?;
    let newer = metadata.packages.into_iter().filter_map(|package| {
        let needs = package.rust_version?;
        let text = format!("{} {} needs {needs}", package.name, package.version);
        (numbers(&needs) > numbers(stated)).then_some(text)
    });
    Ok(newer.collect())
}

/// Returns the numbers of a version such as `1.89` or `1.89.0`.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Resolves the programs that use windlass beside another crate that links SQLite, and runs one.
fn check_neighbours(_: &Path, failed: &mut Vec<String>) {
    failed.extend(neighbours::check());
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
                && error.contains(
                    "formatting, circles, lengths, api, versions, locks, lints, features"
                ),
            "{error}"
        );
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.100") > numbers("1.89.0"));
        assert_eq!(numbers("1.89"), numbers("1.89.0"));
        assert!(numbers("1.89.1") > numbers("1.89"));
    }

    /// Licences have their own job there, with the advisories.
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
