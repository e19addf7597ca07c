//! Runs one path of windlass a given number of times, for tools that count what a program does:
//! `cargo xtask counts` runs it under valgrind, and compares two runs of different length, so that
//! start and end of the program cancel out.
//!
//! `counts PATH COUNT DIR` runs a path of [`PATHS`]; its store, if it needs a file, is made in DIR.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be made ends the program"
)]

mod machine;
mod raw;
mod runner;
mod store;

use std::{path::Path, process::ExitCode};

/// Runs a path this many times, with files in this folder.
type Run = fn(u64, &Path);

const PATHS: [(&str, Run); 10] = [
    ("raw-update-sqlite", raw::updates),
    ("raw-transition-sqlite", raw::transitions),
    ("machine-checkpoint", machine::checkpoints),
    ("runner-transition-memory", runner::transitions_in_memory),
    ("runner-task-memory", runner::tasks_in_memory),
    ("runner-transition-sqlite", runner::transitions_on_sqlite),
    ("runner-task-sqlite", runner::tasks_on_sqlite),
    (
        "runner-task-memory-metrics",
        runner::recorded_tasks_in_memory,
    ),
    ("commit-sqlite", store::commits),
    ("submit-sqlite", store::submits),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (path, count, dir) = match words[..] {
        ["--paths"] => {
            PATHS.iter().for_each(|(path, _)| println!("{path}"));
            return ExitCode::SUCCESS;
        }
        [path, count, dir] => (path, count, dir),
        // `cargo bench` and `cargo test` start it without a path.
        _ => {
            println!("not counted: run it with `cargo xtask counts`");
            return ExitCode::SUCCESS;
        }
    };
    let run = PATHS.iter().find(|(name, _)| *name == path);
    match (run, count.parse()) {
        (Some((_, run)), Ok(count)) => {
            run(count, Path::new(dir));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("error: '{path}' is no path, or '{count}' no number");
            ExitCode::from(2)
        }
    }
}

/// Everything on one thread, but for the threads of a store: the order of steps is the same each time.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Data of 300 bytes as JSON, different for each number.
fn data(n: u64) -> String {
    let (mut data, n) = ("x".repeat(298), n.to_string());
    data.replace_range(..n.len(), &n);
    data
}
