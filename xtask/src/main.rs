//! The chores of the workspace. `cargo xtask` lists them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod api;
mod background;
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
mod release;
mod side_by_side;
mod site;
mod slowest;
mod suite;
mod timed;
mod timings;
mod tools;
mod verify;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

const HELP: &str = "\
The chores of the windlass workspace:

  cargo xtask test [ARGS]   runs every test with one etcd and one Python, those of the dashboard in Chromium too; with ARGS, which
                            go to cargo test, neither Python nor Chromium
  cargo xtask slowest [ARGS]
                            the same, and how long each program of tests and the 20 slowest tests took
  cargo xtask test-versions runs what depends on versions: the tests of etcd on each other etcd, those of sdk/python in each
                            other Python, the wheel in a fresh environment, and the alerts of deploy in Prometheus
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
                            versions (of the Python package), locks, lints, features, docs, site, packages (built by the minimum Rust
                            version), neighbours (programs that use windlass beside sqlx, sea-orm, diesel and
                            riverqueue), licences: checks all or those that are named, writes nothing
  cargo xtask api           writes the list of the public items of the libraries (docs/reference/api.txt)
  cargo xtask fix           formats, and applies what the lints can fix by themselves
  cargo xtask bench [ARGS]  the measurements behind docs/internals/performance.md, as a table
  cargo xtask bench peers [ARGS]
                            windlass beside other systems (benches/peers/README.md), as a table
  cargo xtask bench dashboard
                            the figures of docs/internals/measurements.md, in Chromium, with a million tasks
  cargo xtask timings [--limit SECONDS]
                            builds the README's first command in an empty folder, and prints where the time goes;
                            fails above so many seconds of processor time
  cargo xtask counts        counts the instructions and allocations of the hot paths under valgrind, and
                            fails if one has risen by more than a tenth; with --record it records them
  cargo xtask soak [ARGS]   the long crash tests (each SOAK_SECONDS, 600 by default); for one of
                            them: `soak_on_etcd`, `soak_by_http` (both stores), or
                            `--exact soak` for the one on SQLite
  cargo xtask simulate [SEED] [--count N] [--for SECONDS] [--trace LINES] [--faults N,N,…]
                            runs seeds of the simulation in release, from a random one on if none is given; `--repeatable`
                            runs fifty seeds twice and compares their traces (docs/internals/simulation.md)
  cargo xtask mutants [ARGS]
                            mutation tests of the pure code (docs/internals/mutation-testing.md), which need
                            cargo-mutants; ARGS go to it, after `statemachine`, `library` or `etcd` for
                            one pass; `workers [NAME...]` plants mutants of the rules of remote workers;
                            `simulation [--expected] [NAME...]` plants old defects, which the simulation has to
                            find (docs/internals/simulation.md)
  cargo xtask side-by-side [COMMIT]
                            builds another commit (by default the last release), and runs its commands
                            and workers beside those of this version, on SQLite and on etcd
  cargo xtask release --dry-run [--only crates,program,wheel] [--target TRIPLE] [--glibc X.Y] [--program FILE]
                            builds what this machine can build of a release, into target/dist, and runs the
                            archive of the program and the wheel in an empty environment; --only for some parts,
                            --glibc for the newest glibc that the program may need, --program to pack FILE.
                            --plan prints whether a release is due, --prepare DATE writes its version and date,
                            --notes prints its changes, --sums FOLDER writes SHA256SUMS. The workflow publishes
  cargo xtask tools         fetches the tools that the other chores would fetch: protoc, etcd, Chromium, Prometheus, valgrind …
  cargo xtask site          builds the site of the documents by mdBook, in target/site, and follows its links
  cargo xtask semver        whether the version fits the changes of public items since the last release
                            (needs cargo-semver-checks)
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
        Some("test") => suite::test(&rest),
        Some("slowest") => slowest::slowest(|variables| suite::test_with(&rest, variables)),
        Some("test-versions") => suite::versions(),
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
        Some("site") => site::site(),
        Some("tools") => tools::all(),
        Some("timings") => timings::timings(&rest),
        Some("soak") => soak(&rest),
        Some("simulate") => simulate(&rest),
        Some("mutants") => mutants::mutants(&rest),
        Some("pictures") => pictures::pictures(&rest),
        Some("side-by-side") => side_by_side::side_by_side(&rest),
        Some("release") => release::release(&rest),
        Some("semver") => release::semver(),
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

/// Cargo in the folder of the workspace. In a folder in which nobody has built the tests incrementally it does not, either: a
/// first build then takes three quarters of the time. A later `cargo test` builds the crates of the workspace again, once.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    if env::var_os(INCREMENTAL).is_none() && !has_incremental_tests(&target()) {
        cargo.env(INCREMENTAL, "0");
    }
    cargo
}

const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Returns whether a crate that only tests use was built incrementally.
fn has_incremental_tests(target: &Path) -> bool {
    let built = target.join("debug/incremental").read_dir();
    let mut built = built.into_iter().flatten().flatten();
    built.any(|of| {
        of.file_name()
            .to_string_lossy()
            .starts_with("windlass_etcd_cluster-")
    })
}

fn run(what: &str, command: &mut Command) -> Result<(), String> {
    eprintln!("==> {what}");
    let started = Instant::now();
    let status = command.status();
    eprintln!("==> {what}: {} s", started.elapsed().as_secs());
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(e) => Err(format!("{what}: could not be started: {e}")),
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

fn simulate(args: &[String]) -> Result<(), String> {
    let mut seeds = cargo();
    seeds.env("PROTOC", tools::protoc(&root())?);
    let package = ["--package", "windlass-simulation", "--all-features"];
    if args == ["--repeatable"] {
        seeds.env("SIMULATION_SEEDS", "50");
        seeds.args(["test", "--release"]).args(package);
        seeds.args(["--test", "repeatable", "--", "--nocapture"]);
        return run("simulate", &mut seeds);
    }
    seeds.args(["run", "--release", "--quiet"]).args(package);
    seeds.args(["--bin", "windlass-simulate", "--"]);
    run("simulate", seeds.args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_an_incremental_build_of_the_tests_is_known() {
        let target = env::temp_dir().join(format!("windlass-xtask-{}", std::process::id()));
        let built = target.join("debug/incremental");
        std::fs::create_dir_all(built.join("windlass-0a1b")).unwrap();
        let after_run = has_incremental_tests(&target);
        std::fs::create_dir(built.join("windlass_etcd_cluster-0a1b")).unwrap();
        let after_tests = has_incremental_tests(&target);
        std::fs::remove_dir_all(&target).unwrap();
        assert_eq!(
            (after_run, after_tests),
            (false, true),
            "`cargo run` builds the library, too"
        );
        assert!(!has_incremental_tests(&target));
    }
}
