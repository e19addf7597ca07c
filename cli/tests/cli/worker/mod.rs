//! `windlass worker`: every way to end, and the effect on its commands.

mod environment;
mod wait_signal;
mod wait_signal_shown;

use std::{
    fs::File,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::live::{Place, is_alive, until, until_gone};

fn submit(place: &Place, id: &str, props: &serde_json::Value) {
    let props = props.to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", id, "--props", &props]);
    assert_eq!(code, 0, "{err}");
}

/// Writes the numbers of its shell and of a child, then waits for ever; ignores SIGTERM.
fn stubborn(file: &str) -> String {
    format!("trap '' TERM; sleep 600 & echo $$ $! > {file}.new; mv {file}.new {file}; wait; wait")
}

#[test]
fn until_idle_works_through_what_there_is() {
    let place = Place::new();
    for n in 0..5 {
        submit(
            &place,
            &format!("t{n}"),
            &json!({"shell": format!("echo {n}; [ {n} != 3 ]")}),
        );
    }
    let (code, _, err) = place.run(&["worker", "--until-idle", "--retry", "never"]);
    assert_eq!(code, 0, "{err}");
    for n in 0..5 {
        let state = if n == 3 { "failed" } else { "completed" };
        assert_eq!(place.get(&format!("t{n}"))["state"], state);
        assert_eq!(place.run(&["logs", &format!("t{n}")]).1, format!("{n}\n"));
    }
    assert!(err.contains("exit code 1"), "the failure is logged: {err}");
    for line in err.lines() {
        let time = line.split(' ').next().unwrap();
        assert!(
            time.parse::<jiff::Timestamp>().is_ok(),
            "a time begins each line: {line}"
        );
    }
}

#[test]
fn it_takes_only_what_it_selects() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"kind\":\"exec\",\"props\":{\"command\":\"true\"},\"labels\":{\"site\":\"x\"}}\n\
                 {\"id\":\"b\",\"kind\":\"exec\",\"props\":{\"command\":\"true\"},\"labels\":{\"site\":\"y\"}}\n";
    assert_eq!(
        place
            .run_with(&["submit", "--lines", "-"], lines.as_bytes())
            .0,
        0
    );
    let (code, _, err) = place.run(&["worker", "--until-idle", "--select", "site=x"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("a")["state"], "completed");
    assert_eq!(place.get("b")["state"], "runnable");
}

#[test]
fn sigterm_gives_every_task_back() {
    let place = Place::new();
    let props = json!({"shell": stubborn("pids"), "cwd": place.path(""), "grace": "100ms"});
    submit(&place, "t", &props);
    let worker = place.start(&["worker"]);
    let pids = place.pids("pids");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    until_gone(&pids);
    place.assert_released("t");
}

/// A stop is not a failure: no policy counts it.
#[test]
fn a_command_with_the_policy_never_starts_again_after_a_graceful_stop_of_its_worker() {
    let place = Place::new();
    let script = "echo run >> runs; [ $(wc -l < runs) = 2 ] || sleep 600";
    let props = json!({"shell": script, "cwd": place.path(""), "grace": "10s"}).to_string();
    let submit = [
        "submit", "exec", "--id", "t", "--retry", "never", "--props", &props,
    ];
    let (code, _, err) = place.run(&submit);
    assert_eq!(code, 0, "{err}");
    let worker = place.start(&["worker"]);
    place.until_lines("runs", 1);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    place.assert_released("t");
    assert_eq!(place.run(&["worker", "--until-idle"]).0, 0);
    assert_eq!(place.get("t")["state"], "completed");
    assert_eq!(place.read("runs"), "run\nrun\n");
    let help = place.run(&["submit", "--help"]).1;
    let help: Vec<&str> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("has not failed: it starts again"));
}

#[test]
fn a_second_signal_kills_the_commands() {
    let place = Place::new();
    let told =
        "trap 'touch told' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done";
    submit(
        &place,
        "t",
        &json!({"shell": told, "cwd": place.path(""), "grace": "10m"}),
    );
    let worker = place.start(&["worker", "--grace", "10m"]);
    let pids = place.pids("pid");
    worker.signal(Signal::SIGTERM);
    until("it was told", || place.path("told").exists());
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    until_gone(&pids);
    assert_eq!(place.get("t")["state"], "runnable");
}

#[test]
fn the_grace_of_the_worker_bounds_a_timeout_and_what_is_left_after_an_exit() {
    let place = Place::new();
    let leaves = format!(
        "({}) & until [ -e left ]; do sleep 0.01; done",
        stubborn("left")
    );
    let (cwd, grace) = (place.path(""), "10m");
    let slow = json!({"shell": stubborn("slow"), "cwd": cwd, "grace": grace, "timeout": "500ms"});
    submit(&place, "slow", &slow);
    submit(
        &place,
        "leaves",
        &json!({"shell": leaves, "cwd": cwd, "grace": grace}),
    );
    let worker = place.start(&[
        "worker",
        "--slots",
        "2",
        "--until-idle",
        "--retry",
        "never",
        "--grace",
        "200ms",
    ]);
    let pids = [place.pids("slow"), place.pids("left")].concat();
    assert_eq!(worker.wait(), Some(0));
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(place.get("slow")["state"], "failed");
    assert_eq!(place.get("leaves")["state"], "completed");
}

/// The first attempt of the command waits for ever; the second reports whether the first still ran.
fn twice(place: &Place) -> serde_json::Value {
    let script = format!(
        "if [ -e pids ]; then for p in $(cat pids); do kill -0 $p 2>/dev/null && \
         grep -qv ') Z' /proc/$p/stat && echo $p lives; done; echo attempt $WINDLASS_ATTEMPT; exit; fi; {}",
        stubborn("pids")
    );
    json!({"shell": script, "cwd": place.path(""), "grace": "100ms"})
}

#[test]
fn what_a_killed_worker_leaves_running_ends_before_the_next_attempt() {
    let place = Place::new();
    submit(&place, "t", &twice(&place));
    let worker = place.start(&["worker", "--lease-ttl", "1s"]);
    let pids = place.pids("pids");
    worker.kill();
    assert!(pids.iter().all(|p| is_alive(*p)), "nothing else ends them");
    let (code, _, err) = place.run(&["worker", "--lease-ttl", "1s", "--until-idle"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        // The check at the start and that of the attempt race.
        err.contains("still runs: ending it"),
        "{err}"
    );
    assert_eq!(place.run(&["logs", "t"]).1, "attempt 2\n");
    until_gone(&pids);
}

#[test]
fn a_worker_that_sleeps_through_its_lease_changes_nothing_later() {
    let place = Place::new();
    submit(&place, "t", &twice(&place));
    let zombie = place.start(&["worker", "--name", "zombie", "--lease-ttl", "1s"]);
    let pids = place.pids("pids");
    // The machine stands still: both processes.
    zombie.signal(Signal::SIGSTOP);
    zombie.signal_worker(Signal::SIGSTOP);
    let (code, _, err) = place.run(&["worker", "--lease-ttl", "1s", "--until-idle"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.run(&["logs", "t"]).1, "attempt 2\n");
    until_gone(&pids);
    zombie.signal_worker(Signal::SIGCONT);
    zombie.signal(Signal::SIGCONT);
    zombie.signal(Signal::SIGTERM);
    assert_eq!(zombie.wait(), Some(0));
    let task = place.get("t");
    assert_eq!(task["state"], "completed", "{task}");
    assert_eq!(place.run(&["logs", "t"]).1, "attempt 2\n");
}

#[test]
fn a_name_that_is_taken_is_waited_for_and_then_refused() {
    let place = Place::new();
    let first = place.start(&["worker", "--name", "a", "--lease-ttl", "1s"]);
    until("it is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("\"a\"")
    });
    let (code, _, err) = place.run(&["worker", "--name", "a", "--lease-ttl", "1s"]);
    assert_eq!(code, 1);
    assert!(err.contains("a node named 'a' is alive"), "{err}");
    first.kill();
    let (code, _, err) = place.run(&["worker", "--name", "a", "--lease-ttl", "1s", "--until-idle"]);
    assert_eq!(code, 0, "its own earlier life is waited for: {err}");
}

#[test]
fn a_worker_that_waits_for_its_name_stops_at_a_signal() {
    let place = Place::new();
    let first = place.start(&["worker", "--name", "a"]);
    until("it is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("\"a\"")
    });
    let log = File::create(place.path("second.log")).unwrap();
    let mut second = place
        .windlass(&["worker", "--name", "a", "-v"])
        .stderr(log)
        .spawn()
        .unwrap();
    until("it waits", || {
        place.read("second.log").contains("the name is taken")
    });
    kill(
        Pid::from_raw(i32::try_from(second.id()).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0));
    let log = place.read("second.log");
    assert!(log.contains("stopped signal=\"SIGTERM\""), "{log}");
    first.kill();
}

/// Its lease would last ten minutes longer, more than this test waits for anything.
#[cfg(target_os = "linux")]
#[test]
fn the_tasks_of_a_worker_that_was_killed_are_taken_over_at_once() {
    let place = Place::new();
    let props =
        json!({"shell": "echo $WINDLASS_ATTEMPT >> runs; sleep 600", "cwd": place.path("")});
    submit(&place, "t", &props);
    let first = place.start(&["worker", "--name", "w", "--lease-ttl", "10m"]);
    place.until_lines("runs", 1);
    first.kill();
    // The name is free again, too.
    let second = place.start(&["worker", "--name", "w", "--lease-ttl", "10m"]);
    place.until_lines("runs", 2);
    assert_eq!(
        place.read("runs"),
        "1\n2\n",
        "the second attempt, since the first was abandoned"
    );
    second.kill();
}

/// Writes its number, then waits for a file.
fn waits(place: &Place) -> serde_json::Value {
    let script = "echo $$ > pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.1; done";
    json!({"shell": script, "cwd": place.path("")})
}

/// Undoes a SIGHUP that is ignored, as `nohup` leaves it: a program that is started inherits an ignored
/// signal, but not a handled one.
fn heed_sighup() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _entered = runtime.enter();
    signal(SignalKind::hangup()).map(drop)
}

#[test]
fn a_closed_terminal_and_sigquit_stop_a_worker_and_a_run() {
    heed_sighup().unwrap();
    for signal in [Signal::SIGHUP, Signal::SIGQUIT] {
        let place = Place::new();
        submit(&place, "t", &waits(&place));
        let worker = place.start(&["worker"]);
        let pids = place.pids("pid");
        worker.signal(signal);
        assert_eq!(worker.wait(), Some(0), "{signal}");
        until_gone(&pids);
        assert_eq!(place.get("t")["attempts"], 0);

        let place = Place::new();
        place.write("lines", "x\n");
        let each = ": {}; echo $$ > pid.new; mv pid.new pid; sleep 600";
        let run = place.start(&["run", "--each", each, "--shell", "lines"]);
        let pids = place.pids("pid");
        run.signal(signal);
        assert_eq!(run.wait(), Some(130), "{signal}");
        until_gone(&pids);
    }
}

#[test]
fn a_worker_under_nohup_outlives_its_terminal() {
    let place = Place::new();
    submit(&place, "t", &waits(&place));
    let windlass = place.windlass(&["worker", "--until-idle"]);
    let mut nohup = Command::new("nohup");
    nohup.arg(windlass.get_program()).args(windlass.get_args());
    for (name, value) in windlass.get_envs() {
        match value {
            Some(value) => nohup.env(name, value),
            None => nohup.env_remove(name),
        };
    }
    nohup
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(place.path("log")).unwrap());
    let mut worker = nohup.spawn().unwrap();
    let pids = place.pids("pid");
    kill(Pid::from_raw(worker.id() as i32), Signal::SIGHUP).unwrap();
    // What ends it would have ended the command.
    sleep(Duration::from_millis(300));
    assert!(is_alive(pids[0]));
    place.write("go", "");
    assert!(worker.wait().unwrap().success());
    assert_eq!(place.get("t")["state"], "completed");
}
