//! The two processes of `windlass worker` and `windlass run`: no command survives the death of
//! either.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde_json::json;

use crate::live::{Place, Running, is_alive, until, until_gone};

fn submit(place: &Place, id: &str, script: &str) {
    let props = json!({"shell": script, "cwd": place.path(""), "grace": "10m"});
    let (code, _, err) = place.run(&["submit", "exec", "--id", id, "--props", &props.to_string()]);
    assert_eq!(code, 0, "{err}");
}

/// A command that writes its process number, that of a child, and that of a process that has left
/// its group and its parent, and then waits for ever.
fn family(file: &str) -> String {
    format!(
        "sleep 600 & c=$!; (setsid sh -c 'echo $$ > {file}.far; exec sleep 600' &); \
         while ! [ -s {file}.far ]; do sleep 0.01; done; \
         echo $$ $c $(cat {file}.far) > {file}.new; mv {file}.new {file}; wait"
    )
}

/// The same, and none of them ends by SIGTERM.
fn stubborn(file: &str) -> String {
    format!(
        "trap '' TERM; {}; wait; wait; while :; do sleep 1; done",
        family(file)
    )
}

#[test]
fn a_worker_that_is_killed_leaves_no_command_whatever_becomes_of_its_task() {
    let place = Place::new();
    for id in ["runs-again", "paused", "killed", "deleted", "stubborn"] {
        let script = if id == "stubborn" {
            stubborn(id)
        } else {
            family(id)
        };
        submit(&place, id, &script);
    }
    let worker = place.start(&[
        "worker",
        "--slots",
        "5",
        "--retry",
        "never",
        "--lease-ttl",
        "5s",
        "--grace",
        "1s",
    ]);
    let mut pids = Vec::new();
    for id in ["runs-again", "paused", "killed", "deleted", "stubborn"] {
        pids.extend(place.pids(id));
    }
    assert_eq!(pids.len(), 15);
    // The worker stands still, so these wait for it; none of these tasks runs again.
    worker.signal_worker(Signal::SIGSTOP);
    for args in [
        &["pause", "paused"][..],
        &["kill", "killed"],
        &["delete", "deleted", "--yes", "--force"],
    ] {
        let (code, _, err) = place.run(args);
        assert_eq!(code, 0, "{args:?}: {err}");
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let began = Instant::now();
    worker.signal_worker(Signal::SIGKILL);
    let status = worker.wait_status();
    assert_eq!(
        status.signal(),
        Some(Signal::SIGKILL as i32),
        "as its worker"
    );
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "within the lease: {:?}",
        began.elapsed()
    );
    assert!(
        !pids.iter().any(|pid| is_alive(*pid)),
        "nothing runs when the supervisor has ended"
    );
}

#[test]
fn the_tasks_of_a_killed_worker_are_free_only_when_its_commands_have_ended() {
    let place = Place::new();
    let script = format!(
        "if [ -e pids ]; then for p in $(cat pids); do kill -0 $p 2>/dev/null && \
         grep -qv ') Z' /proc/$p/stat && echo $p lives >> both; done; exit 0; fi; {}",
        stubborn("pids")
    );
    submit(&place, "t", &script);
    let other = ["worker", "--until-idle", "--lease-ttl", "10m"];
    let first = place.start(&["worker", "--lease-ttl", "10m", "--grace", "1s"]);
    let pids = place.pids("pids");
    let second = place.start(&other);
    until("the second worker works", || {
        place
            .run(&["nodes", "-o", "json"])
            .1
            .matches("\"name\"")
            .count()
            == 2
    });
    first.signal_worker(Signal::SIGKILL);
    assert_eq!(second.wait(), Some(0));
    until_gone(&pids);
    assert_eq!(place.read("both"), "", "both attempts ran at once");
    assert_eq!(place.get("t")["state"], "completed");
}

#[test]
fn a_supervisor_that_is_killed_stops_its_worker_and_the_commands() {
    let place = Place::new();
    submit(&place, "t", &stubborn("pids"));
    let worker = place.start(&["worker", "--grace", "200ms"]);
    let pids = place.pids("pids");
    let pid = worker.worker();
    worker.signal(Signal::SIGKILL);
    until_gone(&[pid]);
    // The process that left the group then has another parent.
    until_gone(&pids[..2]);
    place.assert_released("t");
    let _ = kill(Pid::from_raw(pids[2]), Signal::SIGKILL);
}

#[test]
fn what_both_leave_when_they_are_killed_ends_before_the_next_worker_claims() {
    let place = Place::new();
    for id in ["killed", "deleted"] {
        submit(&place, id, &stubborn(id));
    }
    let first = place.start(&["worker", "--slots", "2", "--lease-ttl", "5s"]);
    let pids = [place.pids("killed"), place.pids("deleted")].concat();
    first.kill();
    assert!(
        pids.iter().all(|pid| is_alive(*pid)),
        "nothing else ends them"
    );
    // Neither runs again; one is submitted again under the same id.
    for args in [
        &["kill", "killed"][..],
        &["delete", "deleted", "--yes", "--force"],
    ] {
        assert_eq!(place.run(args).0, 0);
    }
    let list = pids
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let looks = format!(
        "for p in {list}; do kill -0 $p 2>/dev/null && grep -qv ') Z' /proc/$p/stat && \
         echo $p lives >> both; done; touch ran"
    );
    submit(&place, "deleted", &looks);
    let (code, _, err) = place.run(&["worker", "--until-idle", "--grace", "100ms"]);
    assert_eq!(code, 0, "{err}");
    assert!(place.path("ran").exists());
    assert_eq!(place.read("both"), "", "{err}");
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn the_commands_of_a_worker_that_lives_are_left_alone_by_the_next() {
    let place = Place::new();
    submit(&place, "t", &family("pids"));
    let first = place.start(&["worker", "--slots", "1"]);
    let pids = place.pids("pids");
    submit(&place, "u", "true");
    let second = place.start(&["worker", "--grace", "100ms"]);
    until("the second worker works", || {
        place.get("u")["state"] == "completed"
    });
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    for worker in [second, first] {
        worker.signal(Signal::SIGTERM);
        assert_eq!(worker.wait(), Some(0));
    }
    until_gone(&pids);
}

#[test]
fn the_commands_of_a_worker_that_stands_still_do_not_outlive_its_lease() {
    let place = Place::new();
    submit(&place, "t", &stubborn("pids"));
    let worker = place.start(&["worker", "--lease-ttl", "5s", "--grace", "10m"]);
    let pids = place.pids("pids");
    worker.signal_worker(Signal::SIGSTOP);
    let began = Instant::now();
    until_gone(&pids);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    // In this order, so that no other attempt begins before the worker ends: its command would have ten minutes.
    worker.signal(Signal::SIGTERM);
    worker.signal_worker(Signal::SIGCONT);
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn the_exit_code_is_the_workers() {
    let place = Place::new();
    assert_eq!(place.run_with(&["run", "--each", "true"], b"a\n").0, 0);
    assert_eq!(place.run_with(&["run", "--each", "false"], b"a\n").0, 1);
    assert_eq!(
        place
            .run_with(&["run", "--each", "true", "--jobs", "0"], b"a\n")
            .0,
        2
    );
    let (code, _, _) = place.run(&["--store", "sqlite:/no/such/folder/s", "worker"]);
    assert_eq!(code, 4);
    // Before it works, a signal ends it as it would end any program.
    fs::create_dir(place.path("locked")).unwrap();
    let locked = rusqlite::Connection::open(place.path("locked/s")).unwrap();
    locked
        .execute_batch("PRAGMA journal_mode = WAL; BEGIN EXCLUSIVE")
        .unwrap();
    let store = format!("sqlite:{}", place.path("locked/s").display());
    let waits = place.start(&["--store", &store, "worker"]);
    let pid = waits.worker();
    waits.signal(Signal::SIGTERM);
    assert_eq!(waits.wait_status().signal(), Some(Signal::SIGTERM as i32));
    until_gone(&[pid]);
}

/// As a terminal does it: to every process of the group at once.
#[test]
fn an_interrupt_of_the_whole_group_stops_once_and_a_second_aborts() {
    for second in [false, true] {
        let place = Place::new();
        let script = "trap 'echo told >> told' TERM; echo $$ > pid.new; mv pid.new pid; \
                      until [ -e go ]; do sleep 0.1; done";
        submit(&place, "t", script);
        let worker = place.start_in_group(&["worker", "--grace", "10m"]);
        let group = Pid::from_raw(worker.pid());
        let pids = place.pids("pid");
        killpg(group, Signal::SIGINT).unwrap();
        place.until_lines("told", 1);
        if second {
            killpg(group, Signal::SIGINT).unwrap();
        } else {
            // Enough time for the effect of a signal that is counted twice.
            std::thread::sleep(Duration::from_millis(300));
            assert!(is_alive(pids[0]), "it has ten minutes to end");
            place.write("go", "");
        }
        assert_eq!(worker.wait(), Some(0));
        until_gone(&pids);
        assert_eq!(place.get("t")["state"], "runnable");
    }
}

#[test]
fn what_has_left_its_command_ends_with_the_worker() {
    let place = Place::new();
    let each = "(setsid sh -c 'echo $$ > far.new; mv far.new far; exec sleep 600' &); \
                until [ -e far ]; do sleep 0.01; done; : {}";
    place.write("lines", "x\n");
    let (code, _, err) = place.run(&["run", "--each", each, "--shell", "lines"]);
    assert_eq!(code, 0, "{err}");
    assert!(!is_alive(place.pids("far")[0]), "{err}");
}

/// Submits a task whose command writes "told" at SIGTERM and continues, kills its worker and
/// supervisor, and returns the processes of the command and the next worker, which has sent SIGTERM.
fn while_the_next_worker_ends_what_is_left(place: &Place, grace: &str) -> (Vec<i32>, Running) {
    // A shell that says "Terminated" on a pipe that nobody reads would end by SIGPIPE.
    let script = "exec 2>/dev/null; trap 'echo told >> told' TERM; echo $$ > pids.new; mv pids.new pids; \
                  while :; do sleep 0.1; done";
    submit(place, "t", script);
    let first = place.start(&["worker", "--lease-ttl", "5s"]);
    let pids = place.pids("pids");
    submit(place, "u", "true");
    let second = place.start(&["worker", "--slots", "2", "--grace", grace]);
    until("a worker has run the other task", || {
        place.get("u")["state"] == "completed"
    });
    until("the second worker works", || {
        let nodes = place.run(&["nodes", "-o", "json"]).1;
        nodes.matches("\"name\"").count() == 2
    });
    let fence = place.get("t")["fence"].as_u64();
    first.kill();
    place.until_lines("told", 1);
    // The search for orphans of the worker may be faster than its claim.
    until("the second worker has claimed the task", || {
        let task = place.get("t");
        task["fence"].as_u64() > fence && task["node"].is_string()
    });
    assert!(is_alive(pids[0]), "it has its grace");
    (pids, second)
}

#[test]
fn a_stop_while_a_leftover_is_ended_is_done_when_the_leftover_has_ended() {
    for (args, state) in [
        (&["kill", "t"][..], "killed"),
        (&["pause", "t"], "paused"),
        // A stop of the worker.
        (&[], "runnable"),
    ] {
        let place = Place::new();
        let (pids, second) = while_the_next_worker_ends_what_is_left(&place, "3s");
        if state == "runnable" {
            second.signal(Signal::SIGTERM);
            assert_eq!(second.wait(), Some(0));
        } else {
            assert_eq!(place.run(args).0, 0);
            until(state, || place.get("t")["state"] == state);
        }
        assert!(!is_alive(pids[0]), "{state}, and its command runs");
        assert_eq!(place.get("t")["state"], state);
    }
}

#[test]
fn a_delete_or_an_abort_while_a_leftover_is_ended_kills_it_at_once() {
    for aborts in [false, true] {
        let place = Place::new();
        let (pids, second) = while_the_next_worker_ends_what_is_left(&place, "10m");
        if aborts {
            second.signal(Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(300));
            second.signal(Signal::SIGTERM);
            assert_eq!(second.wait(), Some(0));
        } else {
            assert_eq!(place.run(&["delete", "t", "--yes", "--force"]).0, 0);
        }
        until_gone(&pids);
    }
}

#[test]
fn the_grace_of_the_worker_bounds_the_end_of_what_an_earlier_attempt_left() {
    let place = Place::new();
    let (pids, second) = while_the_next_worker_ends_what_is_left(&place, "1s");
    until_gone(&pids);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.wait(), Some(0));
}

/// A command that the system stops because it reads the terminal in the background would never end.
#[test]
fn a_command_that_opens_the_terminal_fails_and_says_so() {
    let place = Place::new();
    submit(&place, "t", "cat /dev/tty");
    let pty = nix::pty::openpty(None, None).unwrap();
    let windlass = place.windlass(&["worker", "--until-idle", "--retry", "never"]);
    let mut on_terminal = Command::new("setsid");
    on_terminal.arg("--ctty").arg(windlass.get_program());
    on_terminal.args(windlass.get_args());
    for (name, value) in windlass.get_envs() {
        match value {
            Some(value) => on_terminal.env(name, value),
            None => on_terminal.env_remove(name),
        };
    }
    on_terminal
        .current_dir(place.path(""))
        .stdin(pty.slave)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let worker = Running::of(on_terminal.spawn().unwrap());
    assert_eq!(worker.wait(), Some(0));
    let task = place.get("t");
    assert_eq!(task["state"], "failed", "{task}");
    assert!(task.to_string().contains("/dev/tty"), "{task}");
}
