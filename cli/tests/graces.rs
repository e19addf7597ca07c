//! How long commands have to end after SIGTERM, with both bounds. A grace that is too short loses the work of a
//! command, one that is too long delays its task.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

#[path = "cli/live/mod.rs"]
mod live;

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use live::{Place, Running, is_alive, until, until_gone};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The grace under test, unless the test needs another one.
const GRACE: Duration = Duration::from_secs(3);
/// A grace that no test waits for.
const NEVER: &str = "10m";

/// The range of a measured grace: slightly less than the setting, and less than twice as long.
fn about(grace: Duration) -> Range<Duration> {
    grace.mul_f64(0.9)..grace.mul_f64(1.9)
}

/// A command that notes SIGTERM and continues. Its children ignore the signal. A shell that says "Terminated" on a
/// pipe that nobody reads would end by SIGPIPE.
const STUBBORN: &str = "exec >/dev/null 2>&1; trap 'echo told >> told; trap \"\" TERM' TERM; echo $$ > pid.new; mv pid.new pid; \
                        while :; do sleep 0.05; done";

fn submit(place: &Place, props: Value) {
    let mut all = json!({"cwd": place.path(""), "grace": NEVER});
    let fields = all.as_object_mut().unwrap();
    fields.extend(props.as_object().unwrap().clone());
    let (code, _, err) = place.run(&["submit", "exec", "--id", "t", "--props", &all.to_string()]);
    assert_eq!(code, 0, "{err}");
}

/// Asserts that the command in `pid` ends within this time of its SIGTERM.
fn assert_lives_for(place: &Place, expected: Range<Duration>) {
    let pids = place.pids("pid");
    place.until_lines("told", 1);
    let told = Instant::now();
    until_gone(&pids);
    let lived = told.elapsed();
    assert!(expected.contains(&lived), "{lived:?}, not {expected:?}");
}

#[test]
fn the_commands_of_a_dead_worker_have_its_grace() {
    let place = Place::new();
    submit(&place, json!({"shell": STUBBORN}));
    let worker = place.start(&["worker", "--grace", "3s", "--lease-ttl", "1m"]);
    place.pids("pid");
    worker.signal_worker(Signal::SIGKILL);
    assert_lives_for(&place, about(GRACE));
}

#[test]
fn the_commands_of_a_dead_worker_have_the_rest_of_its_lease_if_that_is_shorter() {
    let place = Place::new();
    submit(&place, json!({"shell": STUBBORN}));
    let worker = place.start(&["worker", "--grace", NEVER, "--lease-ttl", "10s"]);
    place.pids("pid");
    worker.signal_worker(Signal::SIGKILL);
    // It was renewed at most a third of it ago, and is trusted for four fifths of it.
    assert_lives_for(&place, Duration::from_secs(3)..Duration::from_secs(10));
}

#[test]
fn what_has_left_its_command_has_a_second_after_the_exit_of_the_worker() {
    let place = Place::new();
    place.write("stubborn", STUBBORN);
    let leaves = "(setsid sh stubborn &); until [ -e pid ]; do sleep 0.01; done";
    submit(&place, json!({"shell": leaves}));
    let worker = place.start(&["worker", "--until-idle", "--grace", NEVER]);
    assert_lives_for(&place, Duration::from_millis(900)..Duration::from_secs(3));
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn a_signal_to_the_supervisor_of_a_dead_worker_ends_the_grace_and_a_hangup_does_not() {
    let place = Place::new();
    submit(&place, json!({"shell": STUBBORN}));
    let worker = place.start(&["worker", "--grace", NEVER, "--lease-ttl", NEVER]);
    let pids = place.pids("pid");
    worker.signal_worker(Signal::SIGKILL);
    place.until_lines("told", 1);
    worker.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        is_alive(pids[0]),
        "the terminal went away, nobody asked to hurry"
    );
    let began = Instant::now();
    worker.signal(Signal::SIGTERM);
    until_gone(&pids);
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
}

#[test]
fn a_worker_that_stands_still_for_less_than_its_lease_keeps_its_commands() {
    let place = Place::new();
    submit(&place, json!({"shell": STUBBORN}));
    let worker = place.start(&["worker", "--lease-ttl", "10s"]);
    let pids = place.pids("pid");
    worker.signal_worker(Signal::SIGSTOP);
    std::thread::sleep(GRACE);
    assert!(is_alive(pids[0]) && place.read("told").is_empty());
    worker.signal_worker(Signal::SIGCONT);
}

#[test]
fn a_command_has_its_grace_after_its_timeout_and_not_before() {
    let place = Place::new();
    submit(
        &place,
        json!({"shell": STUBBORN, "grace": "3s", "timeout": "2s"}),
    );
    let _worker = place.start(&["worker", "--retry", "never", "--grace", NEVER]);
    place.pids("pid");
    let began = Instant::now();
    place.until_lines("told", 1);
    let timeout = began.elapsed();
    assert!(
        about(Duration::from_secs(2)).contains(&timeout),
        "{timeout:?}"
    );
    assert_lives_for(&place, about(GRACE));
}

fn stopped_by(stop: &[&str], own: &str, workers: &str) {
    let place = Place::new();
    submit(&place, json!({"shell": STUBBORN, "grace": own}));
    let worker = place.start(&["worker", "--grace", workers]);
    place.pids("pid");
    match stop {
        [] => worker.signal(Signal::SIGTERM),
        stop => assert_eq!(place.run(stop).0, 0),
    }
    assert_lives_for(&place, about(GRACE));
}

#[test]
fn a_command_that_is_paused_has_its_grace() {
    stopped_by(&["pause", "t"], "3s", NEVER);
}

#[test]
fn a_command_that_is_killed_has_the_grace_of_the_worker_if_that_is_shorter() {
    stopped_by(&["kill", "t"], NEVER, "3s");
}

#[test]
fn a_command_whose_worker_stops_has_its_grace() {
    stopped_by(&[], "3s", NEVER);
}

#[test]
fn what_a_command_leaves_in_its_group_has_the_grace_of_the_command() {
    let place = Place::new();
    place.write("stubborn", STUBBORN);
    let leaves = "sh stubborn & until [ -e pid ]; do sleep 0.01; done";
    submit(&place, json!({"shell": leaves, "grace": "3s"}));
    let _worker = place.start(&["worker"]);
    assert_lives_for(&place, about(GRACE));
}

/// Starts a worker with the command, and kills it together with its supervisor.
fn left_by_both(place: &Place, grace: &str) {
    submit(place, json!({"shell": STUBBORN, "grace": grace}));
    let first = place.start(&["worker", "--lease-ttl", "5s"]);
    place.pids("pid");
    first.kill();
}

#[test]
fn what_both_left_has_its_grace_when_a_worker_starts() {
    let place = Place::new();
    left_by_both(&place, "3s");
    let _second = place.start(&["worker", "--grace", NEVER]);
    assert_lives_for(&place, about(GRACE));
}

#[test]
fn what_both_left_has_the_grace_of_the_worker_that_starts_if_that_is_shorter() {
    let place = Place::new();
    left_by_both(&place, NEVER);
    let _second = place.start(&["worker", "--grace", "3s"]);
    assert_lives_for(&place, about(GRACE));
}

/// A worker that runs already when both are killed; its next attempt ends what they left.
fn beside_a_worker(place: &Place, grace: &str) -> Running {
    submit(place, json!({"shell": STUBBORN, "grace": grace}));
    let first = place.start(&["worker", "--lease-ttl", "5s"]);
    place.pids("pid");
    let second = place.start(&["worker", "--grace", NEVER]);
    until("the second worker works", || {
        let nodes = place.run(&["nodes", "-o", "json"]).1;
        nodes.matches("\"name\"").count() == 2
    });
    first.kill();
    second
}

#[test]
fn what_both_left_has_its_grace_before_the_next_attempt() {
    let place = Place::new();
    let _second = beside_a_worker(&place, "3s");
    assert_lives_for(&place, about(GRACE));
}

#[test]
fn a_stop_leaves_half_of_the_grace_to_what_both_left() {
    let place = Place::new();
    let _second = beside_a_worker(&place, "8s");
    place.until_lines("told", 1);
    assert_eq!(place.run(&["pause", "t"]).0, 0);
    assert_lives_for(
        &place,
        Duration::from_millis(3_500)..Duration::from_millis(7_500),
    );
}
