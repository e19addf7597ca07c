//! `windlass worker-check` finds nothing wrong with a client that keeps its duties, and names the rule that each planted
//! fault breaks.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::{Command, Output};

use serde_json::Value;
use windlass_worker_client::Fault;

/// The tests run one at a time: a client that the machine holds up looks like one that breaks a rule.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Checks a client with these faults in these scenarios; all for none.
fn check(faults: &[Fault], scenarios: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-robustness-cli"));
    command.args(["worker-check", "-o", "json"]);
    for scenario in scenarios {
        command.args(["--scenario", scenario]);
    }
    let client = env!("CARGO_BIN_EXE_windlass-robustness-worker-client");
    command.args(["--", client]);
    command.args(faults.iter().map(|fault| fault.name()));
    command.output().unwrap()
}

/// The rules that the check names, with what it has found.
fn broken(output: &Output) -> Vec<(String, String)> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line["verdict"] == "broken");
    let word = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
    lines
        .map(|line| (word(&line, "rule"), line.to_string()))
        .collect()
}

/// The scenario in which a fault shows, and the rule that it breaks.
fn shows(fault: Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::StartsTwice => ("doubled-claim", "start-once"),
        Fault::StartsEarlier | Fault::KeepsReplaced => ("replaced-run", "replaced-run"),
        Fault::NewNumber => ("lost-answers", "report-again"),
        Fault::IgnoresStop => ("stops", "stop"),
        Fault::IgnoresLost => ("lost-claim", "lost"),
        Fault::OutlivesTtl => ("silence", "ttl"),
        Fault::ReusesSeq => ("lost-answers", "seq-grows"),
        Fault::ForgetsHeld => ("work", "held-whole"),
        Fault::NumbersPerRun => ("work", "report-number"),
        Fault::GivesUpAt503 => ("busy-503", "busy"),
        Fault::GoesOnAfter401 => ("refused-401", "refused"),
        Fault::GoesOnAfter410 => ("over-410", "over"),
        Fault::HotLoopAfter429 => ("limited-429", "retry-after"),
        Fault::IgnoresDrain => ("drain", "drain"),
        Fault::ReportsAfterLost => ("lost-claim", "lost-report"),
        Fault::TtlFromAnswer => ("silence", "ttl"),
        Fault::DropsUnreadable => ("unreadable-values", "unreadable"),
        other => panic!("{other:?} is in no scenario"),
    }
}

#[test]
fn a_client_that_keeps_its_duties_passes_every_scenario() {
    let _alone = alone();
    let output = check(&[], &[]);
    assert_eq!(broken(&output), [], "{output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let scenarios = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    assert!(scenarios >= 20, "{scenarios} scenarios");
}

/// All faults at once: each check waits most of its time.
#[test]
fn the_check_names_the_rule_that_each_planted_fault_breaks() {
    let _alone = alone();
    let suspended = (Fault::OutlivesTtl, ("suspended", "ttl"));
    let all = Fault::all().map(|fault| (fault, shows(fault)));
    let checks = all.chain([suspended]).map(|(fault, (scenario, rule))| {
        std::thread::spawn(move || {
            let output = check(&[fault], &[scenario]);
            let found = broken(&output);
            let names_it = found.iter().any(|(name, _)| name == rule);
            assert!(
                names_it,
                "{}: '{rule}' is not in {found:?}: {output:?}",
                fault.name()
            );
            assert_eq!(output.status.code(), Some(1), "{output:?}");
        })
    });
    let checks: Vec<_> = checks.collect();
    let failed = checks
        .into_iter()
        .filter_map(|check| check.join().err())
        .count();
    assert_eq!(failed, 0, "faults that the check does not find");
}

#[test]
fn a_command_that_does_not_register_is_reported() {
    let _alone = alone();
    let windlass = env!("CARGO_BIN_EXE_windlass-robustness-cli");
    let mut command = Command::new(windlass);
    command.args(["worker-check", "-o", "json", "--scenario", "work", "--"]);
    let ends = command.args([windlass, "--version"]).output().unwrap();
    assert_eq!(ends.status.code(), Some(1), "{ends:?}");
    assert_eq!(broken(&ends)[0].0, "works", "{ends:?}");

    let mut command = Command::new(windlass);
    command.args([
        "worker-check",
        "--scenario",
        "work",
        "--",
        "/no/such/program",
    ]);
    let absent = command.output().unwrap();
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");
}
