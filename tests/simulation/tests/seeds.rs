//! Fresh seeds for a while, and those that have found something before.
//!
//! `SIMULATION_SEED` gives the first seed, `SIMULATION_SECONDS` the time: `cargo xtask simulate` runs them faster.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and names its seeds"
)]

use std::{
    env,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use windlass_simulation::{isolated, run::Plan, shrink::shrink};

/// How long fresh seeds are run, by default.
const SECONDS: u64 = 45;
/// How long a seed that fails is shrunk.
const SHRINK: Duration = Duration::from_secs(60);
/// Seeds that have found a defect, with what they have found.
const FOUND: [(u64, &str); 1] = [(
    2_025_424_700,
    "a server that takes a worker over gives a run away that the server before has sent in a late answer",
)];

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

/// The program that runs a seed in a process of its own.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-simulate");

/// Runs a seed; a failure is shrunk and reported with the last lines of its trace.
fn hold(seed: u64) {
    let (plan, program) = (Plan::of(seed), Path::new(PROGRAM));
    let report = isolated::run(program, seed, None, 0);
    if report.failure.is_none() {
        // A run in which nothing happens shows nothing.
        assert!(report.tasks >= plan.tasks, "seed {seed}: {report:?}");
        return;
    }
    let least = shrink(program, seed, plan.faults.len(), SHRINK);
    let report = isolated::run(program, seed, Some(&least), 200);
    panic!(
        "seed {seed} fails:\n{}\n\nthe end of its trace:\n{}\n\nrun `cargo xtask simulate {seed} --faults {}`",
        report.failure.unwrap_or_default(),
        report.trace.join("\n"),
        least
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(",")
    );
}

#[test]
fn fresh_seeds_keep_every_guarantee() {
    let first = number("SIMULATION_SEED").unwrap_or_else(|| fastrand::u64(..u64::from(u32::MAX)));
    let over = Duration::from_secs(number("SIMULATION_SECONDS").unwrap_or(SECONDS));
    eprintln!("SIMULATION_SEED={first}");
    let (next, began) = (AtomicU64::new(first), Instant::now());
    let cores = thread::available_parallelism().unwrap().get();
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while began.elapsed() < over {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    hold(seed);
                }
            });
        }
    });
    let held = next.load(Ordering::Relaxed) - first;
    eprintln!("{held} seeds");
}

#[test]
fn seeds_that_have_found_a_defect_pass() {
    for (seed, _) in FOUND {
        hold(seed);
    }
}
