//! The chores of the workspace. `cargo xtask` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod interop;
mod mutants;
mod tools;

use std::{
    env,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

const HELP: &str = "\
The chores of the windlass workspace:

  cargo xtask test [ARGS]   every test there is; ARGS go to cargo test
  cargo xtask interop       nodes of ours beside Metafora itself, which needs Go and a module proxy that
                            gives Metafora; with --if-available it is left out, and says so, without
  cargo xtask verify        formatting, lints, docs, licences: checks all, writes nothing
  cargo xtask fix           formats, and applies what the lints can mend by themselves
  cargo xtask bench [ARGS]  the measurements behind docs/performance.md, as a table
  cargo xtask soak [ARGS]   the long crash tests (each SOAK_SECONDS, 600 by default); for one of
                            them: `soak_on_etcd`, or `--exact soak` for the one on SQLite
  cargo xtask mutants [ARGS]
                            mutation tests of the pure code (docs/mutation-testing.md), which need
                            cargo-mutants; ARGS go to it, after `statemachine`, `library` or `etcd` for
                            one pass
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let chore = args.next();
    let rest: Vec<String> = args.collect();
    let done = match chore.as_deref() {
        Some("test") => test(&rest),
        Some("interop") => interop::interop(&rest),
        Some("verify") => verify(),
        Some("fix") => fix(),
        Some("bench") => bench(&rest),
        Some("soak") => soak(&rest),
        Some("mutants") => mutants::mutants(&rest),
        _ => {
            print!("{HELP}");
            return if chore.is_none() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(2)
            };
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

fn run(what: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("==> {what}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(e) => Err(format!("{what}: could not be started: {e}")),
    }
}

fn test(args: &[String]) -> Result<(), String> {
    let protoc = tools::protoc(&root())?;
    let servers = tools::etcds(&root())?;
    let (first, others) = servers.split_first().ok_or("no etcd was found")?;
    run(
        &format!("cargo test (etcd: {})", first.display()),
        cargo_test(&protoc, first).args(args),
    )?;
    for server in others {
        run(
            &format!(
                "cargo test of what depends on the version of etcd (etcd: {})",
                server.display()
            ),
            // The packages and features are those of the first run: cargo builds nothing again.
            cargo_test(&protoc, server)
                .args(["--test", "etcd", "--test", "cluster", "--"])
                .args(
                    SAME_ON_EVERY_ETCD
                        .iter()
                        .flat_map(|module| ["--skip", module]),
                ),
        )?;
    }
    Ok(())
}

/// The modules of `tests/etcd/` whose results do not depend on the version of the server: what they
/// test is in the client (options, keys, texts, retries), behind a proxy, or among nodes.
const SAME_ON_EVERY_ETCD: [&str; 10] = [
    "bad_input::",
    "combining::",
    "idle::",
    "lost_answers::",
    "namespaces::",
    "retention::",
    "rolling::",
    "runner::",
    "servers::",
    "silence::",
];

fn cargo_test(protoc: &Path, server: &Path) -> Command {
    let mut test = cargo();
    test.args(["test", "--workspace", "--all-features", "--no-fail-fast"])
        .env("PROTOC", protoc)
        .env("ETCD_BIN", server);
    if env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        test.env("RUST_TEST_THREADS", cores.max(TEST_THREADS).to_string());
    }
    test
}

/// How many tests of one program run at the same time, at least. Those on etcd mostly wait: with one
/// for each of two cores they take 1.3 times as long.
const TEST_THREADS: usize = 4;

fn verify() -> Result<(), String> {
    let protoc = tools::protoc(&root())?;
    let cargo = || {
        let mut cargo = cargo();
        cargo.env("PROTOC", &protoc);
        cargo
    };
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-Dwarnings",
    ];
    let mut failed = Vec::new();
    let mut check = |what: &str, command: &mut Command| {
        if let Err(why) = run(what, command) {
            failed.push(why);
        }
    };
    check("formatting", cargo().args(["fmt", "--all", "--check"]));
    check("lints", cargo().args(clippy));
    for (what, features) in FEATURES_ALONE {
        let args = features.split(' ');
        let lints = ["clippy"].into_iter().chain(args);
        check(what, cargo().args(lints).args(["--", "-Dwarnings"]));
    }
    check(
        "docs",
        cargo()
            .args(["doc", "--workspace", "--all-features", "--no-deps"])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    check_msrv(&protoc, &mut failed);
    check_licences(&mut failed);
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

/// What users build and the workspace with all features never does.
const FEATURES_ALONE: [(&str, &str); 4] = [
    ("the library by default", "-p windlass"),
    (
        "the library without its default features",
        "-p windlass --no-default-features",
    ),
    (
        "the library with etcd and without SQLite",
        "-p windlass --no-default-features --features etcd",
    ),
    ("the command line by default", "-p windlass-cli"),
];

/// The stated minimum (`rust-version`) holds if its own compiler takes the code.
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

fn check_licences(failed: &mut Vec<String>) {
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

fn fix() -> Result<(), String> {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
    ];
    let protoc = tools::protoc(&root())?;
    run("lints", cargo().args(clippy).env("PROTOC", protoc))?;
    run("formatting", cargo().args(["fmt", "--all"]))
}

/// Topics of etcd are built and run only when one of them is named.
fn bench(args: &[String]) -> Result<(), String> {
    let mut bench = cargo();
    bench.args(["bench", "--package", "windlass", "--bench", "table"]);
    if args.iter().any(|arg| arg.starts_with("etcd")) {
        let servers = tools::etcds(&root())?;
        let server = servers.first().ok_or("no etcd was found")?;
        bench.args(["--features", "etcd"]);
        bench.env("PROTOC", tools::protoc(&root())?);
        bench.env("ETCD_BIN", server);
    }
    run("cargo bench", bench.arg("--").args(args))
}

fn soak(args: &[String]) -> Result<(), String> {
    let protoc = tools::protoc(&root())?;
    let servers = tools::etcds(&root())?;
    let server = servers.last().ok_or("no etcd was found")?;
    let mut soak = cargo();
    soak.env("PROTOC", protoc).env("ETCD_BIN", server);
    soak.args([
        "test",
        "--release",
        "--package",
        "windlass-robustness",
        "--all-features",
        "--",
        "--ignored",
        "--nocapture",
    ]);
    if args.is_empty() {
        soak.arg("soak");
    }
    run("soak", soak.args(args))
}
