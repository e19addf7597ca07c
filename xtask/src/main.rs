//! The chores of the workspace. `cargo xtask` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod api;
mod bounded;
mod browser;
mod circles;
mod counts;
mod failures;
mod interop;
mod lengths;
mod mutants;
mod neighbours;
mod packages;
mod peers;
mod pictures;
mod planted;
mod python;
mod side_by_side;
mod timed;
mod tools;
mod verify;

use std::{
    env,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use failures::Failures;

const HELP: &str = "\
The chores of the windlass workspace:

  cargo xtask test [ARGS]   every test there is, those of sdk/python and of the dashboard in Chromium too; with ARGS, which go to
                            cargo test, neither
  cargo xtask python [ARGS] the checks of sdk/python: ruff, mypy, pyright, pytest in every Python from 3.10 on that this
                            machine has, and the wheel in a fresh environment; with ARGS, which go to pytest, only the
                            tests in the newest Python. WINDLASS_BIN names another program windlass for them
  cargo xtask browser [ARGS]
                            the dashboard in a real Chromium, with the rules of axe-core (from npm); ARGS go to the
                            tests. At most 8 minutes, without the build
  cargo xtask wheel [ARGS]  the source distribution and a release wheel, in target/wheels; ARGS go to maturin build
  cargo xtask interop       nodes of ours beside Metafora itself, which needs Go and a module proxy that
                            serves Metafora; with --if-available it is skipped without them, and says so
  cargo xtask verify [CHECKS]
                            formatting, circles (of imports), lengths (of files), api (the list of public items),
                            versions (of the Python package), locks, lints, features, docs, packages (built by the minimum Rust
                            version), neighbours (programs that use windlass beside sqlx, sea-orm, diesel and
                            riverqueue), licences: checks all or those that are named, writes nothing
  cargo xtask api           writes the list of the public items of the libraries (docs/api.txt)
  cargo xtask fix           formats, and applies what the lints can fix by themselves
  cargo xtask bench [ARGS]  the measurements behind docs/performance.md, as a table
  cargo xtask bench peers [ARGS]
                            windlass beside other systems (benches/peers/README.md), as a table
  cargo xtask bench dashboard
                            the figures of docs/dashboard.md, in Chromium, with a million tasks
  cargo xtask counts        counts the instructions and allocations of the hot paths under valgrind, and
                            fails if one has risen by more than a tenth; with --record it records them
  cargo xtask soak [ARGS]   the long crash tests (each SOAK_SECONDS, 600 by default); for one of
                            them: `soak_on_etcd`, `soak_by_http` (both stores), or
                            `--exact soak` for the one on SQLite
  cargo xtask mutants [ARGS]
                            mutation tests of the pure code (docs/mutation-testing.md), which need
                            cargo-mutants; ARGS go to it, after `statemachine`, `library` or `etcd` for
                            one pass; `workers [NAME...]` plants mutants of the rules of remote workers
  cargo xtask side-by-side COMMIT
                            builds another commit, and runs its commands and workers beside those of
                            this version, on SQLite and on etcd
  cargo xtask pictures      draws the pictures of docs/pictures/ again; with --record, the terminal
                            shows commands that are run for it; with --dashboard, Chromium
                            takes those of the dashboard
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let chore = args.next();
    let rest: Vec<String> = args.collect();
    if chore.as_deref() == Some(timed::CHORE) {
        return match timed::timed(&rest) {
            Ok(code) => ExitCode::from(code),
            Err(why) => failed(&why),
        };
    }
    let done = match chore.as_deref() {
        Some("test") => test(&rest),
        Some("python") => python::python(&rest),
        Some("browser") => browser::browser(&rest),
        Some("wheel") => python::wheel(&rest),
        Some("interop") => interop::interop(&rest),
        Some("verify") => verify::verify(&rest),
        Some("api") => api::write(&root()),
        Some("fix") => fix(),
        Some("bench") if rest.first().is_some_and(|arg| arg == "peers") => peers::bench(&rest[1..]),
        Some("bench") if rest.first().is_some_and(|arg| arg == "dashboard") => dashboard(),
        Some("bench") => bench(&rest),
        Some("counts") => counts::counts(&rest),
        Some(peers::CHORE) => peers::tidy(&rest),
        Some("soak") => soak(&rest),
        Some("mutants") => mutants::mutants(&rest),
        Some("pictures") => pictures::pictures(&rest),
        Some("side-by-side") => side_by_side::side_by_side(&rest),
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
        Err(why) => failed(&why),
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The folder in which cargo builds.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
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
    tools::python()?;
    tools::of_scripts()?;
    let protoc = tools::protoc(&root())?;
    let servers = tools::etcds(&root())?;
    let (first, others) = servers.split_first().ok_or("no etcd was found")?;
    // Before the tests of cargo, so that their results stay the last lines.
    let of_python = if args.is_empty() {
        let mut build = cargo_test(&protoc, first)?;
        run("build of all tests", build.arg("--no-run"))?;
        python::check(&python::program())
    } else {
        eprintln!("==> sdk/python: NOT TESTED, because the arguments choose tests of cargo");
        Ok(())
    };
    let of_browser = match args.is_empty() {
        true => browser::browser(&[]),
        false => Ok(()),
    };
    let of_cargo = test_crates(&protoc, first, others, args);
    let failed: Vec<String> = [of_python, of_browser, of_cargo]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

fn test_crates(
    protoc: &Path,
    first: &Path,
    others: &[PathBuf],
    args: &[String],
) -> Result<(), String> {
    run_tests(
        &format!("cargo test (etcd: {})", first.display()),
        cargo_test(protoc, first)?.args(args),
    )?;
    for server in others {
        run_tests(
            &format!(
                "cargo test of the tests that depend on the version of etcd (etcd: {})",
                server.display()
            ),
            // The packages and features are those of the first run: cargo builds nothing again.
            cargo_test(protoc, server)?
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

/// How many tests of one program run at the same time, at least. Those on etcd mostly wait: with one
/// for each of two cores they take 1.3 times as long.
const TEST_THREADS: usize = 4;

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
    run("formatting", cargo().args(["fmt", "--all"]))?;
    run("formatting of the peers", &mut verify::rustfmt_of_peers())
}

/// Topics of etcd are built and run only when one of them is named.
fn bench(args: &[String]) -> Result<(), String> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{}", include_str!("../../benches/table/help.txt"));
        return Ok(());
    }
    let mut bench = cargo();
    bench.args(["bench", "--package", "windlass", "--bench", "table"]);
    if args.iter().any(|arg| arg.starts_with("etcd")) {
        let servers = tools::etcds(&root())?;
        let server = servers.first().ok_or("no etcd was found")?;
        bench.args(["--features", "etcd"]);
        bench.env("PROTOC", tools::protoc(&root())?);
        bench.env("ETCD_BIN", server);
    }
    // The topics `http` and `workers` measure the program itself.
    let mut topics = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
    if topics.peek().is_none()
        || topics.any(|topic| {
            ["http", "workers"]
                .iter()
                .any(|of| of.contains(topic.as_str()))
        })
    {
        bench.env("WINDLASS_CLI", program()?);
    }
    run("cargo bench", bench.arg("--").args(args))
}

/// Builds the release program, and returns its path.
fn program() -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "--release", "--package", "windlass-cli"]);
    run("cargo build", &mut build)?;
    Ok(target().join("release/windlass"))
}

fn dashboard() -> Result<(), String> {
    browser::figures(&program()?)
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
