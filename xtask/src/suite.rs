//! `cargo xtask test` and `cargo xtask test-versions`.

use std::{env, num::NonZero, path::Path, process::Command, thread};

use crate::{
    background::BackgroundSteps, browser, cargo, failures::Failures, python, root, run, timed,
    tools,
};

/// The modules of `tests/etcd/` whose results do not depend on the version of the server: the code
/// under test is in the client (options, keys, texts, retries), behind a proxy, or among nodes. `breaking` would stop
/// etcd 3.5.0 to 3.5.4, by a defect of theirs that its text names.
const SAME_ON_EVERY_ETCD: [&str; 11] = [
    "bad_input::",
    "breaking::",
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

/// Runs the tests with the first etcd and the newest Python; [`versions`] runs the others. `args` go to `cargo test`, and leave out what is not run by it.
///
/// # Errors
///
/// When a test fails, and when a tool that the tests need cannot be fetched.
pub(crate) fn test(args: &[String]) -> Result<(), String> {
    test_with(args, &[])
}

/// Like [`test`](fn@test), with variables of the environment for the programs of tests.
///
/// # Errors
///
/// Those of [`test`](fn@test).
pub(crate) fn test_with(args: &[String], variables: &[(&str, &Path)]) -> Result<(), String> {
    tools::python()?;
    tools::of_scripts()?;
    let protoc = tools::protoc(&root())?;
    let server = tools::etcd(&root())?;
    let name = format!("cargo test (etcd: {})", server.display());
    if !args.is_empty() {
        eprintln!(
            "==> sdk/python and the dashboard in Chromium: NOT TESTED, because the arguments choose tests of cargo"
        );
        let mut chosen = cargo_test(&protoc, &server)?;
        chosen.args(args).envs(variables.iter().copied());
        return run_tests(&name, &mut chosen);
    }
    build(&protoc, &server)?;
    browser::build()?;
    // These wait more than they compute, so they run beside all others.
    let mut chromium = Command::new(env::current_exe().map_err(|e| format!("this program: {e}"))?);
    chromium.arg("browser");
    let mut steps = Vec::new();
    for (what, programs) in IN_BACKGROUND {
        let mut waiting = cargo_test(&protoc, &server)?;
        waiting
            .args(programs.iter().flat_map(|program| ["--test", program]))
            .envs(variables.iter().copied());
        steps.push((what, waiting));
    }
    steps.insert(1, ("the dashboard in Chromium", chromium));
    let background = BackgroundSteps::start(steps);
    let mut failed = Vec::new();
    failed.extend(python::newest(&python::program()).err());
    let elsewhere: Vec<&str> = IN_BACKGROUND
        .iter()
        .flat_map(|(_, of)| of.iter().copied())
        .collect();
    let mut others = cargo_test(&protoc, &server)?;
    others
        .env(timed::ELSEWHERE, elsewhere.join(","))
        .envs(variables.iter().copied());
    failed.extend(run_tests(&name, &mut others).err());
    // Last, so that the closing lines of cargo test are the last ones.
    failed.extend(background.finish());
    outcome(&failed)
}

/// The programs of tests that run beside the others, one step after another: they wait for servers, and for the ends of leases. Two
/// such steps at the same time, beside the others, keep two cores so busy that tests of processes miss their times.
const IN_BACKGROUND: [(&str, &[&str]); 2] = [
    ("the tests on etcd", &["etcd"]),
    (
        "the tests of processes that are killed",
        &["cluster", "crash", "http", "python", "remote", "scenes"],
    ),
];

/// Runs the tests whose results depend on a version of something, with each version that [`test`](fn@test) leaves out.
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
    let mut on_etcd = Vec::new();
    for server in others {
        // The packages and features are those of the other runs: cargo builds nothing again.
        let mut tests = cargo_test(&protoc, server)?;
        tests.args([
            "--test",
            "cluster",
            "--test",
            "differential",
            "--test",
            "etcd",
            "--",
        ]);
        let skipped = SAME_ON_EVERY_ETCD.iter();
        tests.args(skipped.flat_map(|module| ["--skip", module]));
        on_etcd.push(("the tests that depend on the version of etcd", tests));
    }
    let background = BackgroundSteps::start(on_etcd);
    let mut failed = Vec::new();
    failed.extend(python::others(&python::program()).err());
    failed.extend(background.finish());
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
