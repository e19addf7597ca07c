//! Runs seeds of the simulation: `windlass-simulate [SEED] [--count N] [--for SECONDS] [--trace LINES] [--faults N,N,…]`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use windlass_simulation::run::Plan;

fn main() -> ExitCode {
    let (mut seed, mut count, mut over, mut trace, mut faults) = (None, None, None, 0, None);
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse::<u64>().ok());
        match arg.as_str() {
            "--count" => count = number(),
            "--for" => over = number().map(Duration::from_secs),
            "--trace" => trace = number().unwrap_or(200),
            "--faults" => faults = args.next(),
            text => seed = text.parse().ok(),
        }
    }
    let first = seed.unwrap_or_else(|| fastrand::u64(..u64::from(u32::MAX)));
    let count = count.unwrap_or(if over.is_some() { u64::MAX } else { 1 });
    let (began, mut failed, mut ran) = (Instant::now(), 0, 0);
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if over.is_some_and(|over| began.elapsed() > over) {
            break;
        }
        let mut plan = Plan::of(seed);
        plan.trace = usize::try_from(trace).unwrap_or(200);
        if let Some(kept) = &faults {
            let kept: Vec<usize> = kept.split(',').filter_map(|n| n.parse().ok()).collect();
            let mut at = 0;
            plan.faults.retain(|_| {
                at += 1;
                kept.contains(&(at - 1))
            });
        }
        let of_seed = Instant::now();
        let report = plan.run();
        ran += 1;
        for line in &report.trace {
            println!("{line}");
        }
        println!(
            "seed {seed}: {} tasks, {} changes, {} requests, {:?} virtual, {:?}",
            report.tasks,
            report.changes,
            report.requests,
            report.took,
            of_seed.elapsed()
        );
        if let Some(failure) = report.failure {
            failed += 1;
            println!("seed {seed} FAILED: {failure}");
            for (number, fault) in plan.faults.iter().enumerate() {
                println!("  {number}: {fault:?}");
            }
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!(
        "{ran} seeds, {failed} failed, {:.0} a minute",
        f64::from(ran) / minutes
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
