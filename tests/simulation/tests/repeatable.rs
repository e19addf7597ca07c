//! A seed gives the same trace again: each request with its outcome, and every line of the log.
//!
//! `SIMULATION_SEED` gives the first seed, `SIMULATION_SEEDS` their number.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and names its seeds"
)]

use std::{env, path::Path};

use windlass_simulation::{isolated, run::Report};

/// How many seeds are run twice, by default. `cargo xtask simulate --repeatable` runs fifty.
const SEEDS: u64 = 2;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

fn run(seed: u64) -> Report {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass-simulate"));
    isolated::run(program, seed, None, usize::MAX)
}

#[test]
fn a_seed_gives_the_same_trace_again() {
    let first = number("SIMULATION_SEED").unwrap_or_else(|| fastrand::u64(..u64::from(u32::MAX)));
    let seeds = number("SIMULATION_SEEDS").unwrap_or(SEEDS);
    eprintln!("SIMULATION_SEED={first}");
    for seed in first..first + seeds {
        let (one, two) = (run(seed), run(seed));
        let both = one.trace.iter().zip(&two.trace);
        if let Some((at, (one, two))) = both.enumerate().find(|(_, (one, two))| one != two) {
            panic!("seed {seed} differs in line {at}:\n{one}\n{two}");
        }
        assert!(one.trace.len() > 1000, "seed {seed} did too little");
        assert_eq!(one, two, "seed {seed}");
    }
}
