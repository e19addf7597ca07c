//! `cargo xtask test` and `cargo xtask test-versions`.

use std::{env, num::NonZero, path::Path, process::Command, thread};

use crate::{browser, cargo, failures::Failures, python, root, run, timed, tools};

/// The modules of `tests/etcd/` whose results do not depend on the version of the server: the code
/// under test is in the client (options, keys, texts, retries), behind a proxy, or among nodes.
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

/// How many tests of one program run at the same time, at least. Those on etcd mostly wait: with one
/// for each of two cores they take 1.3 times as long.
const TEST_THREADS: usize = 4;

/// Runs every test with the first etcd and the newest Python. `args` go to `cargo test`, and leave out what is not run by it.
///
/// # Errors
///
/// When a test fails, and when a tool that the tests need cannot be fetched.
pub(crate) fn test(args: &[String]) -> Result<(), String> {
    tools::python()?;
    tools::of_scripts()?;
    let protoc = tools::protoc(&root())?;
    let server = tools::etcd(&root())?;
    let mut failed = Vec::new();
    // Before the tests of cargo, so that their results stay the last lines.
    if args.is_empty() {
        build(&protoc, &server)?;
        failed.extend(python::newest(&python::program()).err());
        failed.extend(browser::browser(&[]).err());
    } else {
        eprintln!(
            "==> sdk/python and the dashboard in Chromium: NOT TESTED, because the arguments choose tests of cargo"
        );
    }
    let tests = run_tests(
        &format!("cargo test (etcd: {})", server.display()),
        cargo_test(&protoc, &server)?.args(args),
    );
    failed.extend(tests.err());
    outcome(&failed)
}

/// Runs the tests whose results depend on a version of something, with each version that [`test`] leaves out.
///
/// # Errors
///
/// When a test fails, and when a tool that the tests need cannot be fetched.
pub(crate) fn versions() -> Result<(), String> {
    tools::python()?;
    let protoc = tools::protoc(&root())?;
    let servers = tools::etcds(&root())?;
    let (first, others) = servers.split_first().ok_or("no etcd was found")?;
    build(&protoc, first)?;
    let mut failed = Vec::new();
    failed.extend(python::others(&python::program()).err());
    for server in others {
        let tests = run_tests(
            &format!(
                "cargo test of the tests that depend on the version of etcd (etcd: {})",
                server.display()
            ),
            // The packages and features are those of the other runs: cargo builds nothing again.
            cargo_test(&protoc, server)?
                .args(["--test", "etcd", "--test", "cluster", "--"])
                .args(
                    SAME_ON_EVERY_ETCD
                        .iter()
                        .flat_map(|module| ["--skip", module]),
                ),
        );
        failed.extend(tests.err());
    }
    outcome(&failed)
}

fn outcome(failed: &[String]) -> Result<(), String> {
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

fn build(protoc: &Path, server: &Path) -> Result<(), String> {
    let mut build = cargo_test(protoc, server)?;
    run("build of all tests", build.arg("--no-run"))
}

/// Runs `cargo test`, and repeats the first lines of what failed.
fn run_tests(name: &str, test: &mut Command) -> Result<(), String> {
    let failures = Failures::of(test)?;
    let outcome = run(name, test);
    if outcome.is_err() {
        failures.print();
    }
    outcome
}

fn cargo_test(protoc: &Path, server: &Path) -> Result<Command, String> {
    let mut test = cargo();
    timed::limit(&mut test)?;
    test.args(["test", "--workspace", "--all-features", "--no-fail-fast"])
        .env("PROTOC", protoc)
        .env("ETCD_BIN", server);
    if env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        test.env("RUST_TEST_THREADS", cores.max(TEST_THREADS).to_string());
    }
    Ok(test)
}
