//! The measurements behind `docs/internals/performance.md`, as a table: `cargo xtask bench [ARGS]`.
//!
//! Every figure that has a goal is a ratio, or is measured together with its comparison, in turns
//! and in one run: absolute figures differ from machine to machine.
//!
//! | module | what it measures |
//! |---|---|
//! | [`chart`] | nothing: it draws rows that were measured |
//! | [`attended`] | nothing: it removes what an interrupted run leaves behind |
//! | [`transitions`] | durable transitions compared with the raw rate of SQLite |
//! | [`flow`] | submits, claims and ends compared with raw inserts |
//! | [`commands`] | from a command to its outcome, and from a submit to the handler |
//! | [`half_load`] | latency at half of the highest load, and behind a flood |
//! | [`transactions`] | ten submits as one transaction, and the inbox |
//! | `cluster` | the same and more on etcd (feature `etcd`) |
//! | [`parked`] | memory, start-up, lateness and idle time with many parked tasks |
//! | [`kills`] | tasks that run twice after their node was killed |
//! | [`graph`] | tasks that wait for each other |
//! | [`limits`] | tasks behind limits |
//! | [`size`] | what a step costs with 10,000 and with a million tasks |
//! | [`counts`] | the counts, and what is available |
//! | [`http`] | the server beside the library |
//! | [`workers`] | remote workers of a server |
//! | [`lists`] | the first page of a list, and the counts |
//! | [`waiters`] | a no-op task in a process that waits for thousands of other tasks |
//! | [`schedules`] | many schedules due in the same second |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be made ends the program; the table is its output"
)]

mod attended;
mod chart;
#[cfg(feature = "etcd")]
mod cluster;
mod commands;
mod counts;
mod flow;
mod graph;
mod half_load;
mod http;
mod kills;
mod limits;
mod lists;
mod parked;
mod raw;
mod report;
mod schedules;
mod size;
mod support;
mod transactions;
mod transitions;
mod waiters;
mod workers;

use std::{path::Path, process::ExitCode};

use report::Report;
use support::Setting;

const HELP: &str = include_str!("help.txt");

type Topic = (&'static str, fn(&Setting, &mut Report));

const TOPICS: &[Topic] = &[
    ("transitions", transitions::run),
    ("few", transitions::few),
    ("flow", flow::run),
    ("commands", commands::run),
    ("half-load", half_load::run),
    ("transactions", transactions::run),
    ("lateness", parked::lateness),
    ("idle", parked::idle),
    ("memory", parked::memory),
    ("kills", kills::run),
    ("size", size::run),
    ("graph", graph::run),
    ("limits", limits::run),
    ("schedules", schedules::due_at_once),
    ("waiters", waiters::run),
    ("lists", lists::run),
    ("counts", counts::run),
    ("http", http::run),
    ("workers", workers::run),
    #[cfg(feature = "etcd")]
    ("etcd-rates", cluster::rates),
    #[cfg(feature = "etcd")]
    ("etcd-few", cluster::few),
    #[cfg(feature = "etcd")]
    ("etcd-half-load", half_load::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-watch", cluster::watch),
    #[cfg(feature = "etcd")]
    ("etcd-attempts", cluster::attempts),
    #[cfg(feature = "etcd")]
    ("etcd-idle", cluster::idle),
    #[cfg(feature = "etcd")]
    ("etcd-submits", cluster::submits),
    #[cfg(feature = "etcd")]
    ("etcd-memory", cluster::memory),
    #[cfg(feature = "etcd")]
    ("etcd-due", cluster::due),
    #[cfg(feature = "etcd")]
    ("etcd-failover", cluster::failover),
    #[cfg(feature = "etcd")]
    ("etcd-shutdown", cluster::shutdown),
    #[cfg(feature = "etcd")]
    ("etcd-size", size::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-graph", graph::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-limits", limits::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-waiters", waiters::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-lists", lists::on_etcd),
    #[cfg(feature = "etcd")]
    ("etcd-counts", counts::on_etcd),
];

/// Does the part of a process that a measurement started.
fn play(role: &str, file: &Path) {
    support::runtime().block_on(async {
        match role {
            "obeys" => commands::obeys(file).await,
            "holds" => parked::holds(file).await,
            "noops" => kills::noops(file).await,
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
            "--metrics" => {
                let recorder = metrics_exporter_prometheus::PrometheusBuilder::new();
                recorder.install_recorder().unwrap();
                windlass::telemetry::describe();
            }
            "--json" => json = true,
            "--dir" => setting.dir = args.next().map(Into::into),
            "--chart" => {
                let file = args.next().unwrap_or_default();
                let json = std::fs::read_to_string(&file).map_err(|e| e.to_string());
                return match json.and_then(|json| chart::svg(&json)) {
                    Ok(svg) => {
                        print!("{svg}");
                        ExitCode::SUCCESS
                    }
                    Err(why) => {
                        eprintln!("error: could not draw '{file}': {why}");
                        ExitCode::from(2)
                    }
                };
            }
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
    if !attended::is_attended() {
        setting.warn_of_memory_disk();
        return attended::run(&setting);
    }
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
