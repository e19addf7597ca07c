//! The checks of the Python SDK (`sdk/python`), and its wheel.

mod environment;
mod found;
mod versions;
mod wheel;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{bounded, cargo, root, run, target, tools};
use environment::Environment;
use found::Python;

pub(crate) use versions::{check as check_versions, write as write_versions};
pub(crate) use wheel::{build as build_wheel, release as wheel, try_installed as try_wheel};

/// The folders and files whose types are checked.
const TYPED: [&str; 6] = [
    "src",
    "tests",
    "examples",
    "check_wheel.py",
    "make_sync.py",
    "../../deploy/test_deploy.py",
];
/// How the lines of pytest begin that say what has failed.
const FAILURES: &[&str] = &["FAILED ", "ERROR "];

/// Compares the generated client with what would be generated now, as ruff formats it.
const GENERATED: &str = "\
import subprocess, sys, make_sync
for path, text in make_sync.all_made().items():
    ruff = [sys.prefix + '/bin/ruff', 'format', '--stdin-filename', str(path), '-']
    made = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    if not path.exists() or made != path.read_text():
        sys.exit(path.name + ' is not what make_sync.py makes: run it, then ruff format')";

const SHORT: Duration = Duration::from_secs(60);
/// The longest that the checks of types may take. They take 20 seconds.
const TYPES: Duration = Duration::from_secs(180);
/// The longest that the tests may take in one Python.
const TESTS: Duration = Duration::from_secs(300);

/// `cargo xtask python`: every check of the SDK, or with arguments for pytest only the tests, in the newest Python.
///
/// # Errors
///
/// When a check fails, and when something that it needs could not be fetched.
pub(crate) fn python(args: &[String]) -> Result<(), String> {
    let program = match tools::named("WINDLASS_BIN")? {
        // Its tests run in another folder.
        Some(program) => program.canonicalize().unwrap_or(program),
        None => build()?,
    };
    if args.is_empty() {
        return check(&program);
    }
    let pythons = found::all()?;
    let newest = pythons.last().ok_or("no Python was found")?;
    let mut pytest = pytest(newest, &for_tests(newest)?, &program);
    run(&format!("{}: pytest", newest.name()), pytest.args(args))
}

/// Every check of the SDK, with this program of windlass for its tests.
///
/// # Errors
///
/// When a check fails, and when something that it needs could not be fetched.
fn check(program: &Path) -> Result<(), String> {
    both(newest(program), others(program))
}

/// The checks of the sources, and the tests in the newest Python but for the slow ones.
///
/// # Errors
///
/// When a check fails, and when something that it needs could not be fetched.
pub(crate) fn newest(program: &Path) -> Result<(), String> {
    let pythons = found::all()?;
    let newest = pythons.last().ok_or("no Python was found")?;
    timed(&format!("sdk/python, with {}", newest.name()), || {
        both(
            check_sources(newest),
            test(newest, program, &["-m", "not slow"]),
        )
    })
}

/// What [`newest`] leaves out: the slow tests, the tests in each other Python, the wheel, and `deploy` with a real Prometheus.
///
/// # Errors
///
/// When a check fails, and when something that it needs could not be fetched.
pub(crate) fn others(program: &Path) -> Result<(), String> {
    let pythons = found::all()?;
    let (newest, others) = pythons.split_last().ok_or("no Python was found")?;
    let names: Vec<String> = others.iter().map(Python::name).collect();
    let what = format!(
        "sdk/python: the slow tests, {}, and the wheel",
        names.join(", ")
    );
    timed(&what, || {
        let mut done = both(
            deploy(newest, program),
            test(newest, program, &["-m", "slow"]),
        );
        for python in others {
            done = both(done, test(python, program, &["-m", "not slow"]));
        }
        both(done, wheel::check(newest, others.first().unwrap_or(newest)))
    })
}

/// Prints how long a step took.
fn timed(what: &str, step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    eprintln!("==> {what}");
    let started = Instant::now();
    let done = step();
    eprintln!("==> {what}: {} s", started.elapsed().as_secs());
    done
}

/// Joins the errors of two steps.
fn both(first: Result<(), String>, second: Result<(), String>) -> Result<(), String> {
    match (first, second) {
        (Err(first), Err(second)) => Err(format!("{first}; {second}")),
        (first, second) => first.and(second),
    }
}

/// The folder of the SDK.
fn sdk() -> PathBuf {
    root().join("sdk/python")
}

/// The folder of the environments, of the caches and of the wheel under test.
fn folder() -> PathBuf {
    target().join("python")
}

/// The program that `cargo test` builds for the tests of the command line.
pub(crate) fn program() -> PathBuf {
    target().join("debug/windlass")
}

/// Builds the program as `cargo test` does, so that neither builds again what the other has built.
fn build() -> Result<PathBuf, String> {
    let mut build = cargo();
    build.env("PROTOC", tools::protoc(&root())?);
    build.args(["test", "--workspace", "--all-features", "--no-run"]);
    run("the program windlass", build.args(["--test", "graces"]))?;
    Ok(program())
}

fn for_tests(python: &Python) -> Result<Environment, String> {
    Environment::make(python, "tests", &["tests.txt"])
}

/// The tests in one Python: all of them without `chosen`.
fn test(python: &Python, program: &Path, chosen: &[&str]) -> Result<(), String> {
    let environment = for_tests(python)?;
    let mut pytest = pytest(python, &environment, program);
    // The tests wait more than they compute.
    pytest.args(["-n", "4", "--dist", "worksteal"]);
    pytest.args(["--durations", "5"]).args(chosen);
    let name = format!("{}: pytest", python.name());
    let what = [&[name.as_str()], chosen].concat().join(" ");
    bounded::run_repeating(&what, TESTS, &mut pytest, FAILURES)
}

/// The dashboard and the alerts of `deploy`, with a real Prometheus.
fn deploy(python: &Python, program: &Path) -> Result<(), String> {
    tools::prometheus()?;
    let mut pytest = pytest(python, &for_tests(python)?, program);
    pytest.arg(root().join("deploy/test_deploy.py"));
    bounded::run_repeating("deploy: pytest", TESTS, &mut pytest, FAILURES)
}

fn pytest(python: &Python, environment: &Environment, program: &Path) -> Command {
    let mut pytest = environment.command("pytest");
    let cache = folder().join("pytest").join(python.number());
    pytest
        .arg("-o")
        .arg(format!("cache_dir={}", cache.display()));
    pytest.env("WINDLASS_BIN", program);
    pytest.env("PYTHONPATH", sdk().join("src"));
    pytest
}

/// The checks that run no test, in the newest Python.
fn check_sources(newest: &Python) -> Result<(), String> {
    let environment = Environment::make(newest, "checks", &["tests.txt", "checks.txt"])?;
    tools::node()?;
    let typed: Vec<&str> = TYPED
        .into_iter()
        .filter(|path| sdk().join(path).exists())
        .collect();
    let mut failed = Vec::new();
    let mut note = |what: &str, limit, command: &mut Command| {
        let done = bounded::run(&format!("sdk/python: {what}"), limit, command);
        failed.extend(done.err());
    };
    let mut ruff = environment.command("ruff");
    note(
        "ruff check",
        SHORT,
        ruff.args(["check", "--quiet", "--output-format", "concise"]),
    );
    let mut ruff = environment.command("ruff");
    note(
        "ruff format",
        SHORT,
        ruff.args(["format", "--check", "--quiet"]),
    );
    let mut generated = environment.command("python");
    let what = "each _sync*.py is what make_sync.py makes of its _aio*.py";
    note(what, SHORT, generated.args(["-c", GENERATED]));
    note("mypy", TYPES, environment.command("mypy").args(&typed));
    let mut pyright = environment.command("pyright");
    pyright
        .arg("--pythonpath")
        .arg(environment.program("python"));
    note("pyright", TYPES, pyright.args(&typed));
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}
