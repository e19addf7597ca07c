//! Runs seeds of the simulation, each in a process of its own.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

use std::{
    env,
    error::Error,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use windlass_simulation::{
    isolated,
    run::{Plan, Report},
    shrink::shrink,
};

const HELP: &str = "\
Usage: windlass-simulate [SEED] [OPTIONS]

Runs seeds from SEED on, or from a random one.

  --count N        how many seeds; 1 by default, without --for
  --for SECONDS    how long
  --jobs N         how many at once; as many as there are cores by default
  --trace LINES    prints the last lines of the trace of each seed
  --faults N,N,…   runs a seed with these of its faults alone
  --shrink         leaves out of the first seed that fails the faults that it fails without
";

/// What the program was asked for.
#[derive(Debug, Default)]
struct Asked {
    seed: Option<u64>,
    count: Option<u64>,
    over: Option<Duration>,
    jobs: Option<usize>,
    trace: usize,
    faults: Option<Vec<usize>>,
    shrinks: bool,
    /// Runs one seed in this process, and prints its report.
    is_one: bool,
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Asked, Box<dyn Error>> {
    let mut asked = Asked::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--count" => asked.count = Some(value()?.parse()?),
            "--for" => asked.over = Some(Duration::from_secs(value()?.parse()?)),
            "--jobs" => asked.jobs = Some(value()?.parse()?),
            "--trace" => asked.trace = value()?.parse()?,
            "--faults" => {
                let text = value()?;
                let numbers = text.split(',').filter(|number| !number.is_empty());
                asked.faults = Some(numbers.map(str::parse).collect::<Result<_, _>>()?);
            }
            "--shrink" => asked.shrinks = true,
            "--one" => asked.is_one = true,
            "--help" => return Err(HELP.into()),
            seed => asked.seed = Some(seed.parse().map_err(|_| format!("'{seed}' is no seed"))?),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    match start() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the program was asked for, and returns how many seeds have failed.
fn start() -> Result<u64, Box<dyn Error>> {
    let asked = read(env::args().skip(1))?;
    let any = || fastrand::u64(..u64::from(u32::MAX));
    let first = asked.seed.unwrap_or_else(any);
    if !asked.is_one {
        return Ok(run(&asked, first)?);
    }
    let report = plan(&asked, first).run();
    println!("{}", serde_json::to_string(&report)?);
    Ok(0)
}

/// Returns the plan of a seed, with the faults that were asked for.
fn plan(asked: &Asked, seed: u64) -> Plan {
    let mut plan = Plan::of(seed);
    plan.trace = asked.trace;
    if let Some(kept) = &asked.faults {
        plan.keep_faults(kept);
    }
    plan
}

/// Runs the seeds, and returns how many have failed.
fn run(asked: &Asked, first: u64) -> std::io::Result<u64> {
    let program = env::current_exe()?;
    let count = asked
        .count
        .unwrap_or(if asked.over.is_some() { u64::MAX } else { 1 });
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = asked.jobs.unwrap_or_else(cores);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = asked.over.is_some_and(|over| began.elapsed() > over);
                    if at >= count || is_over {
                        next.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                    let seed = first.wrapping_add(at);
                    let (of_seed, faults) = (Instant::now(), asked.faults.as_deref());
                    let report = isolated::run(&program, seed, faults, asked.trace);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    *failed += u64::from(report.failure.is_some());
                    print(seed, &report, of_seed.elapsed());
                    if report.failure.is_some() && asked.shrinks && *failed == 1 {
                        let faults = plan(asked, seed).faults.len();
                        let least = shrink(&program, seed, faults, Duration::from_secs(120));
                        println!("it fails with these faults alone: --faults {least:?}");
                    }
                }
            });
        }
    });
    let (ran, failed) = (next.into_inner(), failed.into_inner());
    let failed = failed.unwrap_or_else(PoisonError::into_inner);
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!(
        "{ran} seeds, {failed} failed, {:.0} a minute",
        ran as f64 / minutes
    );
    Ok(failed)
}

fn print(seed: u64, report: &Report, took: Duration) {
    for line in &report.trace {
        println!("{line}");
    }
    println!(
        "seed {seed}: {} tasks, {} changes, {} requests, {} remote runs, {:?} virtual, {took:.1?}",
        report.tasks, report.changes, report.requests, report.remote_runs, report.took
    );
    if let Some(failure) = &report.failure {
        println!("seed {seed} FAILED: {failure}");
        for (number, fault) in Plan::of(seed).faults.iter().enumerate() {
            println!("  {number}: {fault:?}");
        }
    }
}
