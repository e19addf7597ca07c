//! `windlass wait-signal` in commands of a real worker.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::json;

use super::submit;
use crate::live::{Place, Running, is_alive, until, until_gone};

pub(super) const WINDLASS: &str = env!("CARGO_BIN_EXE_windlass");
const WORKER: [&str; 3] = ["worker", "--slots", "1"];

/// Submits a shell line, in which `W` is `windlass wait-signal`.
pub(super) fn script(place: &Place, id: &str, line: &str) {
    let line = line.replace("W ", &format!("{WINDLASS} wait-signal "));
    submit(
        place,
        id,
        &json!({"shell": line, "cwd": place.path(""), "grace": "5s"}),
    );
}

/// Waits until the task waits for this signal.
pub(super) fn until_it_waits(place: &Place, id: &str, signal: &str) {
    until(&format!("{id} waits for {signal}"), || {
        let waiting = place.list(&["--waits", "signal"]);
        waiting
            .iter()
            .any(|task| task["id"] == id && task["awaits_signal"]["name"] == signal)
    });
}

/// Sends a signal, and returns what the program prints when the reply has come.
pub(super) fn signal(place: &Place, id: &str, name: &str, payload: &str) -> (i32, String) {
    let words = [
        "signal",
        id,
        name,
        "--payload",
        payload,
        "--wait",
        "--timeout",
        "60s",
    ];
    let (code, out, err) = place.run(&words);
    assert!(code == 0 || !err.is_empty() || !out.is_empty());
    (code, out)
}

pub(super) fn send(place: &Place, id: &str, name: &str, payload: &str) {
    let (code, _, err) = place.run(&["signal", id, name, "--payload", payload]);
    assert_eq!(code, 0, "{err}");
}

fn until_state(place: &Place, id: &str, state: &str) {
    until(&format!("{id} is {state}"), || {
        place.get(id)["state"] == state
    });
}

pub(super) fn stdout(place: &Place, id: &str) -> String {
    until_state(place, id, "completed");
    let result = place.get(id)["result"].clone();
    assert!(result.get("waits").is_none(), "{result}");
    result["stdout"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn worker(place: &Place) -> Running {
    place.start(&WORKER)
}

#[test]
fn an_approval_starts_the_command_again_and_gets_its_reply() {
    let place = Place::new();
    let schema = place.write("schema.json", "{\n  \"type\": \"object\"\n}\n");
    let line = format!(
        "echo run >> runs; W approve --text 'Deploy 1.4?' --schema @{} --reply '\"deployed\"' > got; cat got",
        schema.display()
    );
    script(&place, "a", &line);
    let _worker = worker(&place);
    until_it_waits(&place, "a", "approve");
    let got = place.get("a");
    assert_eq!(got["state"], "paused");
    let declared = json!({"name": "approve", "text": "Deploy 1.4?", "schema": {"type": "object"}});
    assert_eq!(got["awaits_signal"], declared);
    // A new time would end its wait without the signal.
    let (code, _, err) = place.run(&["reschedule", "--all", "--in", "1s", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("0 tasks selected"), "{err}");
    // It uses no slot: the only one is free.
    script(&place, "b", "echo b");
    assert_eq!(stdout(&place, "b"), "b\n");
    let sent = signal(
        &place,
        "a",
        "approve",
        "{\n\"by\": \"ann\",\n\"n\": 9007199254740993\n}",
    );
    assert_eq!(sent, (0, "\"deployed\"\n".to_owned()));
    assert_eq!(
        stdout(&place, "a"),
        "{ \"by\": \"ann\", \"n\": 9007199254740993 }\n"
    );
    assert_eq!(place.read("runs").lines().count(), 2);
    assert_eq!(place.get("a")["attempts"], 0);
}

#[test]
fn a_signal_that_is_there_is_no_wait_and_the_default_reply_is_null() {
    let place = Place::new();
    script(&place, "a", "echo run >> runs; W name --raw; W name --raw");
    send(&place, "a", "name", "\"ann \\\"x\\\"\"");
    send(&place, "a", "name", "[1, 2]");
    send(&place, "a", "name", "3");
    let _worker = worker(&place);
    assert_eq!(stdout(&place, "a"), "ann \"x\"\n[1, 2]\n");
    assert_eq!(place.read("runs"), "run\n");
    let commands = place.get("a")["commands"].clone();
    let outcomes: Vec<_> = (commands.as_array().unwrap().iter())
        .map(|command| command["outcome"].clone())
        .collect();
    let answered = json!({"outcome": "answered", "reply": null});
    assert_eq!(outcomes[..2], [answered.clone(), answered]);
    // The third was not taken.
    assert_ne!(outcomes[2]["outcome"], "answered", "{outcomes:?}");
}

#[test]
fn a_killed_worker_and_a_failed_attempt_lose_no_signal() {
    let place = Place::new();
    let line = "p=$(W a --reply 7); echo \"$p\" >> got; n=$(wc -l < got); \
                [ $n != 1 ] || exit 1; [ $n != 2 ] || { touch ready; sleep 600; }";
    script(&place, "a", line);
    let retry = r#"{"policy":"exponential","base":"10ms","cap":"10ms","attempts":9}"#;
    let args = ["worker", "--slots", "1", "--retry", retry];
    let killed = place.start(&args);
    until_it_waits(&place, "a", "a");
    let (code, _, err) = place.run(&["signal", "a", "a", "--payload", "{\"n\":1}", "--id", "s"]);
    assert_eq!(code, 0, "{err}");
    until("the second attempt has the payload", || {
        place.path("ready").exists()
    });
    killed.kill();
    let _worker = place.start(&args);
    let words = [
        "signal",
        "a",
        "a",
        "--payload",
        "{\"n\":1}",
        "--id",
        "s",
        "--wait",
        "--timeout",
        "60s",
    ];
    let (code, out, err) = place.run(&words);
    assert_eq!((code, out.as_str()), (0, "7\n"), "{err}");
    assert_eq!(place.read("got"), "{\"n\":1}\n".repeat(3));
}

#[test]
fn two_signals_come_in_their_order() {
    let place = Place::new();
    script(
        &place,
        "a",
        "a=$(W s); b=$(W s); c=$(W t); d=$(W s); echo $a $b $c $d",
    );
    let _worker = worker(&place);
    until_it_waits(&place, "a", "s");
    send(&place, "a", "s", "1");
    // The signal that it does not wait for starts it too, and it waits again.
    send(&place, "a", "t", "3");
    send(&place, "a", "s", "2");
    until_it_waits(&place, "a", "s");
    assert_eq!(signal(&place, "a", "s", "4"), (0, "null\n".to_owned()));
    assert_eq!(stdout(&place, "a"), "1 2 3 4\n");
}

#[test]
fn a_wait_that_has_expired_stays_expired() {
    let place = Place::new();
    script(
        &place,
        "a",
        "echo run >> runs; W a --until 200ms; echo $?; W b; W a --until 1h; echo end",
    );
    let _worker = worker(&place);
    until_it_waits(&place, "a", "b");
    send(&place, "a", "b", "1");
    until_it_waits(&place, "a", "a");
    let ends = place.get("a")["awaits_signal"]["until"].clone();
    assert!(ends.is_string(), "{ends}");
    send(&place, "a", "other", "0");
    // Another signal does not begin the hour again.
    // The first run, the expiry, `b`, and this one.
    place.until_lines("runs", 4);
    until_it_waits(&place, "a", "a");
    assert_eq!(place.get("a")["awaits_signal"]["until"], ends);
    send(&place, "a", "a", "2");
    assert_eq!(stdout(&place, "a"), "5\n1\n2\nend\n");
}

#[test]
fn a_kill_ends_a_task_that_waits() {
    let place = Place::new();
    script(
        &place,
        "a",
        "echo $$ > pids.new; mv pids.new pids; W a; touch continued",
    );
    let _worker = worker(&place);
    until_it_waits(&place, "a", "a");
    until_gone(&place.pids("pids"));
    let (code, _, err) = place.run(&["kill", "a", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("a")["state"], "killed");
    assert_eq!(signal(&place, "a", "a", "1").0, 1);
    assert!(!place.path("continued").exists());
}

/// The command must not take SIGTERM of a wait for an answer, even if it handles it.
#[test]
fn a_command_that_ignores_sigterm_gets_no_answer_before_its_end() {
    let place = Place::new();
    let line =
        "trap '' TERM; echo $$ >> pids.new; cp pids.new pids; W a || touch continued; echo got";
    let line = line.replace("W ", &format!("{WINDLASS} wait-signal "));
    let props = json!({"shell": line, "cwd": place.path(""), "grace": "300ms"});
    submit(&place, "a", &props);
    let _worker = worker(&place);
    until_it_waits(&place, "a", "a");
    until_gone(&place.pids("pids"));
    assert!(!place.path("continued").exists());
    assert_eq!(signal(&place, "a", "a", "1"), (0, "null\n".to_owned()));
    assert_eq!(stdout(&place, "a"), "1\ngot\n");
}

#[test]
fn a_pause_keeps_the_signals_that_were_taken() {
    let place = Place::new();
    script(
        &place,
        "a",
        "W a >> got; [ $(wc -l < got) = 2 ] || { touch ready; sleep 600; }",
    );
    send(&place, "a", "a", "1");
    let _worker = worker(&place);
    until("it has the signal", || place.path("ready").exists());
    for command in ["pause", "resume"] {
        let (code, _, err) = place.run(&[command, "a", "--wait", "--timeout", "60s"]);
        assert_eq!(code, 0, "{err}");
    }
    until_state(&place, "a", "completed");
    assert_eq!(place.read("got"), "1\n1\n");
}

#[test]
fn what_is_wrong_is_named_and_a_hostile_key_is_refused() {
    let place = Place::new();
    let line = "(W a --until soon; echo $?; W '' ; echo $?; WINDLASS_TASK_KEY=0 W a; echo $?; \
                WINDLASS_TASK_SOCKET=/no/such W a; echo $?; unset WINDLASS_TASK_SOCKET; W a; echo $?) 2>&1";
    script(&place, "a", line);
    let _worker = worker(&place);
    let said = stdout(&place, "a");
    let codes: Vec<&str> = said.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(codes, ["2", "2", "1", "4", "2"], "{said}");
    for text in [
        "error: --until: 'soon' is not a time",
        "error: name: ",
        "error: the worker refuses the request: the key is that of no run",
        "error: could not use the socket of the worker, '/no/such': ",
        "error: wait-signal is for commands of tasks: WINDLASS_TASK_SOCKET is not set",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn several_tasks_wait_at_once_on_one_slot() {
    let place = Place::new();
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        script(&place, id, "W go");
    }
    let _worker = worker(&place);
    for id in ids {
        until_it_waits(&place, id, "go");
    }
    for id in ids.iter().rev() {
        send(&place, id, "go", &format!("\"{id}\""));
    }
    for id in ids {
        assert_eq!(stdout(&place, id), format!("\"{id}\"\n"));
    }
}

#[test]
fn run_waits_for_signals_too() {
    let place = Place::new();
    let line = json!({"id": "a", "shell": format!("{WINDLASS} wait-signal go --reply 1")});
    place.write(
        "lines",
        &format!("{line}\n{{\"id\":\"b\",\"shell\":\"echo b\"}}\n"),
    );
    let run = place.start(&["run", "lines"]);
    until("the store is there", || {
        place.path("s.db").exists() && place.run(&["list"]).0 == 0
    });
    until("b has ended", || {
        !place.list(&["--state", "completed"]).is_empty()
    });
    until_it_waits(&place, "a", "go");
    // Longer than it takes `run` to notice that only paused tasks are left.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(is_alive(run.pid()), "run has ended");
    assert_eq!(signal(&place, "a", "go", "[2]"), (0, "1\n".to_owned()));
    assert_eq!(run.wait(), Some(0));
    assert_eq!(stdout(&place, "a"), "[2]\n");
}

#[test]
fn an_ended_worker_removes_its_socket_and_the_next_one_that_of_a_killed_one() {
    let place = Place::new();
    fs::create_dir(place.path("tmp")).unwrap();
    let sockets = || {
        let entries = fs::read_dir(place.path("tmp")).unwrap().flatten();
        entries.filter(|e| e.path().join("s").exists()).count()
    };
    let start = || {
        let mut command = place.windlass(&WORKER);
        command.env("TMPDIR", place.path("tmp"));
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        Running::of(command.spawn().unwrap())
    };
    let killed = start();
    script(&place, "a", "W a");
    until_it_waits(&place, "a", "a");
    assert_eq!(sockets(), 1);
    killed.kill();
    assert_eq!(sockets(), 1, "nothing has removed it");
    // A worker that starts leaves the folders of the last minute alone.
    for entry in fs::read_dir(place.path("tmp")).unwrap().flatten() {
        let folder = fs::File::open(entry.path()).unwrap();
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
        folder.set_modified(past).unwrap();
    }
    let worker = start();
    script(&place, "b", "W b");
    until_it_waits(&place, "b", "b");
    assert_eq!(sockets(), 1, "that of the killed worker is removed");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
}
