//! The measurements behind `docs/performance.md`, as a table: `cargo xtask bench [ARGS]`.
//!
//! Every figure that has a goal is a ratio, or is taken beside what it is compared with, in turns
//! and in one run: absolute figures differ from machine to machine.
//!
//! | module | what it measures |
//! |---|---|
//! | [`transitions`] | durable transitions beside the raw rate of SQLite |
//! | [`flow`] | submits, claims and ends beside raw inserts |
//! | [`commands`] | from a command to its outcome, and from a submit to the handler |
//! | `cluster` | the same and more on etcd (feature `etcd`) |
//! | [`parked`] | memory, start-up, lateness and idle time with many parked tasks |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be made ends the program; the table is its output"
)]

#[cfg(feature = "etcd")]
mod cluster;
mod commands;
mod flow;
mod parked;
mod raw;
mod report;
mod support;
mod transitions;

use std::{path::Path, process::ExitCode};

use report::Report;
use support::Setting;

const HELP: &str = "\
Measures windlass and prints a table.

  cargo xtask bench [--quick] [--json] [--dir PATH] [TOPIC...]

Topics (a part of a name is enough; all by default):
  transitions   durable transitions a second, against the raw group-commit rate of SQLite
  flow          submits, claims and ends a second, against raw inserts
  commands      round trips of commands, and wake-ups across processes
  lateness      from due to running with 100,000 parked tasks
  idle          processor time of an idle node with 100,000 parked tasks
  memory        memory and start-up with 1,000,000 parked tasks

On an etcd that is started for it (ETCD_BIN, or etcd of the PATH; feature `etcd`):
  etcd-rates    durable transitions a second, against the same etcd without windlass
  etcd-attempts claims attempted for each free task by eight idle nodes
  etcd-idle     what an idle node with 100,000 parked tasks asks
  etcd-memory   memory and start-up with 1,000,000 parked tasks
  etcd-due      from due to running with 100,000 parked tasks while a node is killed
  etcd-failover until others run the 10,000 tasks of a node that is killed
  etcd-shutdown until others run the 10,000 tasks of a node that is shut down

  --quick       less of everything: to see that it works, not for figures
  --json        the rows as JSON
  --dir PATH    where the files are made (and removed): a folder on a real disk
";

type Topic = (&'static str, fn(&Setting, &mut Report));

const TOPICS: &[Topic] = &[
    ("transitions", transitions::run),
    ("flow", flow::run),
    ("commands", commands::run),
    ("lateness", parked::lateness),
    ("idle", parked::idle),
    ("memory", parked::memory),
    #[cfg(feature = "etcd")]
    ("etcd-rates", cluster::rates),
    #[cfg(feature = "etcd")]
    ("etcd-attempts", cluster::attempts),
    #[cfg(feature = "etcd")]
    ("etcd-idle", cluster::idle),
    #[cfg(feature = "etcd")]
    ("etcd-memory", cluster::memory),
    #[cfg(feature = "etcd")]
    ("etcd-due", cluster::due),
    #[cfg(feature = "etcd")]
    ("etcd-failover", cluster::failover),
    #[cfg(feature = "etcd")]
    ("etcd-shutdown", cluster::shutdown),
];

/// Does the part of a process that a measurement started.
fn play(role: &str, file: &Path) {
    support::runtime().block_on(async {
        match role {
            "obeys" => commands::obeys(file).await,
            "holds" => parked::holds(file).await,
            #[cfg(feature = "etcd")]
            "works" => cluster::works(file).await,
            other => panic!("there is no role '{other}'"),
        }
    });
}

fn main() -> ExitCode {
    if let Some((role, file)) = support::role() {
        play(&role, &file);
        return ExitCode::SUCCESS;
    }
    let (mut setting, mut names, mut json) = (Setting::default(), Vec::new(), false);
    let mut measure = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What `cargo bench` says, and `cargo test` does not.
            "--bench" => measure = true,
            "--quick" => setting.quick = true,
            "--json" => json = true,
            "--dir" => setting.dir = args.next().map(Into::into),
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            name if TOPICS.iter().any(|(topic, _)| topic.contains(name)) => names.push(arg),
            other => {
                eprintln!("error: '{other}' is neither an option nor a topic\n\n{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    if !measure {
        println!("not measured: run it with `cargo xtask bench`");
        return ExitCode::SUCCESS;
    }
    setting.warn_of_memory_disk();
    let mut report = Report::default();
    for (topic, run) in TOPICS {
        // The name of a topic alone means that one and no other that holds it.
        let named = |name: &String| match TOPICS.iter().any(|(topic, _)| topic == name) {
            true => topic == name,
            false => topic.contains(name.as_str()),
        };
        if names.is_empty() || names.iter().any(named) {
            eprintln!("==> {topic}");
            report.begin(topic);
            run(&setting, &mut report);
        }
    }
    if json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    ExitCode::SUCCESS
}
