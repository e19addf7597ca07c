//! The invariants: one per file, each with tests that it catches violations.

mod after;
mod attempts;
mod carried;
mod checkpoints;
mod commands;
mod counted;
mod deadlines;
mod deleted;
mod effects;
mod ends;
mod exec_ends;
mod exec_overlaps;
mod feed;
mod fences;
mod limits;
mod missed;
mod node_commands;
mod nothing_lost;
mod once;
mod one_claim;
mod one_run;
mod one_submit;
mod outcomes;
mod passes;
mod path;
mod placement;
pub mod priorities;
mod readings;
pub mod retention;
mod retried;
mod reuse;
#[cfg(test)]
mod sample;
mod settled;
mod signals;
mod sown;
mod starts;
pub mod takeover;
mod terminal;
pub mod times;

use std::{collections::BTreeSet, fmt::Write as _};

use windlass::TaskId;

use crate::world::World;

/// What an invariant found: which task breaks it, and how.
pub type Found = Vec<(TaskId, String)>;

/// A checker.
type Check = fn(&World) -> Found;

/// The invariant that needs every step in the history.
const COUNTERS: &str = "the counters agree with the history";

/// The invariant that needs a list and counts of one store.
const COUNTED: &str = "the counts are those of the tasks";

/// Those that hold at every moment, also when everything was just killed.
const ALWAYS: [(&str, Check); 30] = [
    ("no task and no command is lost", nothing_lost::check),
    ("fences grow, and only the live claim writes", fences::check),
    ("a task has one live claim at a time", one_claim::check),
    ("commands have one outcome, in order", commands::check),
    ("outcomes agree with the history", outcomes::check),
    (
        "a signal has one answer, which is stored with the data",
        signals::check,
    ),
    ("what was deleted is gone", deleted::check),
    ("a command that completed has run", exec_ends::check),
    ("checkpoints never go back", checkpoints::check),
    (
        "data are stored with the step that brings them",
        carried::check,
    ),
    ("every history is a path in the table", path::check),
    ("an end is final", terminal::check),
    (COUNTERS, attempts::check),
    (
        "effects happen with their transition or not at all",
        effects::check,
    ),
    ("the feed tells everything, once, in order", feed::check),
    ("an id that is used again is another task", reuse::check),
    (
        "of two submits at once one makes the task",
        one_submit::check,
    ),
    (
        "a transaction is all or nothing, and at most once",
        passes::check,
    ),
    ("effects follow the data of their write", sown::check),
    ("tasks run only where they may", placement::check),
    ("a task runs after those that it waits for", after::check),
    ("no more tasks run at once than limits allow", limits::check),
    ("deadlines are kept", deadlines::check),
    ("a kill and a deadline come before other ends", ends::check),
    ("a task that runs once fails with its node", once::check),
    (
        "a retry that was asked for once happens once",
        retried::check,
    ),
    ("each start has a claim that counts it", starts::check),
    (
        "nothing that may run is deleted without force",
        deleted::check_unforced,
    ),
    ("a reader that begins in the past reads it", readings::check),
    (COUNTED, counted::check),
];

/// Those that hold once everything has settled and all handlers have had the time to end.
const SETTLED: [(&str, Check); 9] = [
    ("every task has ended or is parked", settled::check),
    ("no task waits for ended tasks", after::check_none_waits),
    (
        "no limit that has room holds a task back",
        limits::check_none_held,
    ),
    (
        "no live task has missed a deadline",
        deadlines::check_none_late,
    ),
    ("no command waits", commands::check_none_waits),
    ("a task's handlers do not overlap", one_run::check),
    ("a task's commands do not overlap", exec_overlaps::check),
    (
        "the handlers of a deleted task end",
        deleted::check_handlers,
    ),
    ("every node answers its commands", node_commands::check),
];

pub use limits::filled;
pub use missed::{Timed, timed};
pub use one_run::{Overlaps, overlaps};

/// A violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The task that shows it.
    pub task: TaskId,
    /// How.
    pub how: String,
}

fn run(world: &World, checks: &[(&'static str, Check)]) -> Vec<Violation> {
    let found = checks.iter().flat_map(|(invariant, check)| {
        let found = check(world).into_iter();
        found.map(|(task, how)| Violation {
            invariant,
            task,
            how,
        })
    });
    found.collect()
}

/// Checks everything, when everything has settled.
pub fn check_all(world: &World) -> Vec<Violation> {
    let mut violations = run(world, &ALWAYS);
    violations.extend(run(world, &SETTLED));
    violations
}

/// Checks everything that holds of a split store, when everything has settled. Where a state store was
/// ahead of its coordinator, the history has a path of the table instead of the steps that were taken:
/// it does not show every attempt, and the counts are those of the coordinator.
pub fn check_split(world: &World) -> Vec<Violation> {
    let mut violations = check_all(world);
    violations
        .retain(|violation| violation.invariant != COUNTERS && violation.invariant != COUNTED);
    violations
}

/// Checks what has to hold also at the moment of a crash.
pub fn check_crashed(world: &World) -> Vec<Violation> {
    run(world, &ALWAYS)
}

/// Returns the violations, with a description of the first tasks that show them.
pub fn report(world: &World, violations: &[Violation]) -> String {
    let mut text = format!("{} violations:\n", violations.len());
    for violation in violations.iter().take(100) {
        let Violation {
            invariant,
            task,
            how,
        } = violation;
        let _ = writeln!(text, "  {invariant}: {task}: {how}");
    }
    let mut told = BTreeSet::new();
    for Violation { task, .. } in violations {
        if told.len() < 5 && told.insert(task) {
            if let Some(subject) = world.subjects.get(task) {
                let _ = writeln!(text, "{}", subject.describe());
            }
            for line in &world.witness {
                let line = serde_json::to_string(line).unwrap_or_default();
                if line.contains(&format!("\"{task}\"")) || line.contains("\"shaken\"") {
                    let _ = writeln!(text, "  {line}");
                }
            }
        }
    }
    text
}
