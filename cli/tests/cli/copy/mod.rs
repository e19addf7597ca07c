//! `windlass copy` from file to file.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

mod backups;
mod doctor;
mod marks;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::live::{Place, until};

fn ok(place: &Place, args: &[&str], expected: i32) -> String {
    let (code, out, err) = place.run(args);
    assert_eq!(code, expected, "{args:?}: {out}{err}");
    format!("{out}{err}")
}

fn listed(place: &Place, store: &str) -> Vec<Value> {
    let mut tasks = place.list(&["--store", store]);
    for task in &mut tasks {
        let task = task.as_object_mut().unwrap();
        task.remove("order");
        // It grows from list to list.
        task.remove("late_seconds");
    }
    tasks
}

/// A store with a few tasks in several states.
fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["run", "--each", "echo {}"], b"1\n2\n3\n");
    let props = r#"{"command":"true"}"#;
    let submit = ["submit", "exec", "--props", props, "--id"];
    ok(&place, &[&submit[..], &["b"]].concat(), 0);
    ok(&place, &[&submit[..], &["a", "--in", "2h"]].concat(), 0);
    ok(&place, &["pause", "b"], 0);
    place
}

#[test]
fn a_copy_is_the_same_and_can_be_made_again() {
    let place = filled();
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &[&copy[..], &["--dry-run"]].concat(), 0);
    assert!(said.contains("5 tasks: 5 to copy"), "{said}");
    assert!(!place.path("t.db").exists(), "a dry run makes no file");
    let said = ok(&place, &copy, 0);
    assert!(
        said.contains("5 tasks: 5 copied; 5 compared and the same"),
        "{said}"
    );
    assert_eq!(listed(&place, "sqlite:s.db"), listed(&place, "sqlite:t.db"));
    let said = ok(&place, &copy, 0);
    assert!(said.contains("0 copied, 5 there already"), "{said}");
}

/// Regression: a copy was repeated after a task had been deleted in the source, did not report it, and the task ran in
/// the target.
#[test]
fn tasks_that_only_the_target_has_are_named() {
    let place = filled();
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &copy, 0);
    assert!(!said.contains("that the source does not have"), "{said}");
    ok(&place, &["--store", "sqlite:s.db", "delete", "b"], 0);
    let said = ok(&place, &copy, 0);
    let note = "the target has 1 task that the source does not have: b;";
    assert!(said.contains(note), "{said}");
}

#[test]
fn another_task_is_reported_and_replaced_only_when_asked() {
    let place = filled();
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let other = ["--store", "sqlite:t.db", "submit", "other", "--id", "b"];
    ok(&place, &other, 0);
    let said = ok(&place, &copy, 1);
    assert!(
        said.contains("b: another task has its id in the target (see its kind)"),
        "{said}"
    );
    assert!(said.contains("4 copied, 1 left out"), "{said}");
    let said = ok(&place, &[&copy[..], &["--replace"]].concat(), 0);
    assert!(
        said.contains("1 copied, 1 in the place of another, 4 there already"),
        "{said}"
    );
    assert_eq!(listed(&place, "sqlite:t.db").len(), 5);
    // Run again, it finds nothing to do: what was replaced comes last, and that is not a fault.
    for again in [&copy[..], &[&copy[..], &["--replace"]].concat()] {
        let said = ok(&place, again, 0);
        assert!(said.contains("0 copied, 5 there already"), "{said}");
    }
}

#[test]
fn a_copy_into_memory_is_refused() {
    let place = filled();
    let said = ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "memory:"],
        2,
    );
    assert!(
        said.contains("to: 'memory:' ends with this command"),
        "{said}"
    );
}

#[test]
fn no_node_may_work_meanwhile() {
    let place = filled();
    let copy = [
        "copy",
        "--backup",
        "--from",
        "sqlite:s.db",
        "--to",
        "sqlite:t.db",
    ];
    let worker = place.start(&["worker", "--name", "busy"]);
    until("the worker works", || {
        ok(&place, &["nodes", "-o", "json"], 0).contains("busy")
    });
    let said = ok(&place, &copy, 1);
    assert!(said.contains("from: has nodes that work: busy"), "{said}");
    ok(&place, &[&copy[..], &["--wait", "300ms"]].concat(), 5);
    // In the other direction even a frozen node is an obstacle.
    ok(&place, &["node", "freeze", "busy", "--wait"], 0);
    let other = ["--store", "sqlite:t.db", "submit", "other", "--id", "z"];
    ok(&place, &other, 0);
    let back = [
        "copy",
        "--backup",
        "--to",
        "sqlite:s.db",
        "--from",
        "sqlite:t.db",
    ];
    let said = ok(&place, &back, 1);
    assert!(said.contains("to: has nodes that live: busy"), "{said}");
    until("a frozen node is no hindrance", || place.run(&copy).0 == 0);
    // A killed node has released nothing; its tasks are free anyway.
    let sleep = r#"{"command":"sleep","args":["600"]}"#;
    ok(&place, &["node", "unfreeze", "busy", "--wait"], 0);
    ok(
        &place,
        &["submit", "exec", "--id", "long", "--props", sleep],
        0,
    );
    until("it runs", || place.get("long")["node"] == "busy");
    worker.signal(Signal::SIGKILL);
    worker.wait();
    let said = ok(&place, &[&copy[..], &["--wait", "30s"]].concat(), 0);
    assert!(said.contains("6 tasks: 1 copied"), "{said}");
}

#[test]
fn a_copy_that_has_changed_since_is_not_called_another_task() {
    let place = filled();
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    ok(&place, &copy, 0);
    ok(&place, &["--store", "sqlite:t.db", "kill", "a"], 0);
    let said = ok(&place, &copy, 1);
    let changed = "a: it was copied before, and has changed since";
    assert!(said.contains(changed), "{said}");
    assert!(said.contains("repeats what"), "{said}");
}

/// Pauses a task with a command of this id, which the command line cannot choose.
fn pause(place: &Place, file: &str, task: &str, id: &str) {
    let path = place.path(file);
    let send = windlass::store::SendCommand::new(
        task.parse().unwrap(),
        id.parse().unwrap(),
        windlass::Command::Pause,
    );
    let sent = async {
        let url = format!("sqlite:{}", path.display());
        let store = windlass::store::Store::open(&url).await.unwrap();
        store.registry().send(vec![send]).await.remove(0).unwrap();
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(sent);
}

/// A task of the target stays when the one in its place cannot be imported.
#[test]
fn what_cannot_be_replaced_stays() {
    let place = filled();
    pause(&place, "s.db", "a", "taken");
    let target = ["--store", "sqlite:t.db"];
    let props = r#"{"command":"false"}"#;
    for id in ["a", "other"] {
        let submit = ["submit", "exec", "--props", props, "--id", id];
        ok(&place, &[&target[..], &submit].concat(), 0);
    }
    pause(&place, "t.db", "other", "taken");
    let before = listed(&place, "sqlite:t.db");
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &[&copy[..], &["--replace"]].concat(), 1);
    assert!(said.contains("a: command id: 'taken'"), "{said}");
    let mut after = listed(&place, "sqlite:t.db");
    after.retain(|task| before.iter().any(|b| b["id"] == task["id"]));
    assert_eq!(before, after);
}

#[test]
fn an_empty_source_is_a_mistake_and_makes_no_file() {
    let place = Place::new();
    ok(&place, &["worker", "--until-idle"], 0);
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &copy, 1);
    assert!(
        said.contains("from: there are no tasks in 'sqlite:s.db'"),
        "{said}"
    );
    assert!(!place.path("t.db").exists());
}

#[test]
fn what_is_typed_wrong_makes_no_file() {
    let place = Place::new();
    for (args, code, says) in [
        (
            ["copy", "--from", "sqlite:no.db", "--to", "sqlite:t.db"],
            // The store cannot be used, as for every other command.
            4,
            "from: there is no file 'no.db'",
        ),
        (
            ["copy", "--from", "sqlite:t.db", "--to", "sqlite:t.db"],
            2,
            "to: 'sqlite:t.db' is the store",
        ),
    ] {
        let said = ok(&place, &args, code);
        assert!(said.contains(says), "{said}");
    }
    assert!(!place.path("no.db").exists() && !place.path("t.db").exists());
}

#[test]
fn what_cannot_be_read_is_left_out_by_name() {
    let place = filled();
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let spoil = "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'b')";
    assert_eq!(file.execute(spoil, ()).unwrap(), 1);
    drop(file);
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &copy, 1);
    assert!(
        said.contains("b: the record of task 'b' cannot be read"),
        "{said}"
    );
    assert!(
        said.contains("5 tasks: 4 copied, 1 left out; 4 compared"),
        "{said}"
    );
}

/// Regression: they stayed behind silently, with exit code 0.
#[test]
fn committed_rows_of_the_inbox_are_copied_or_named() {
    let place = filled();
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let insert = "INSERT INTO windlass_inbox (operation) VALUES (?1)";
    for row in [r#"{"op":"submit","id":"waits","kind":"k"}"#, "{}"] {
        file.execute(insert, [row]).unwrap();
    }
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    for args in [&[&copy[..], &["--dry-run"]].concat()[..], &copy] {
        let said = ok(&place, args, 1);
        assert!(
            said.contains("row 2 of windlass_inbox: op: is missing"),
            "{said}"
        );
        assert!(said.contains("1 operation of the source"), "{said}");
    }
    assert!(
        place
            .list(&["--store", "sqlite:t.db"])
            .iter()
            .any(|task| task["id"] == "waits")
    );
    ok(&place, &["submit", "k", "--id", "later"], 0);
    let correct = r#"UPDATE windlass_inbox SET operation = '{"op":"delete","task":"later"}'"#;
    file.execute(correct, ()).unwrap();
    ok(&place, &copy, 0);
    let rows = "SELECT count(*) FROM windlass_inbox";
    assert_eq!(file.query_row(rows, (), |row| row.get(0)), Ok(0));
}

/// A copy left the unreadable task out, and the task that waits for it ran at once in the target.
#[test]
fn a_copy_lets_no_task_run_before_one_that_cannot_be_read() {
    let place = filled();
    ok(
        &place,
        &["submit", "--id", "w", "--after", "b", "--", "true"],
        0,
    );
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let spoil = "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'b')";
    assert_eq!(file.execute(spoil, ()).unwrap(), 1);
    drop(file);
    let said = ok(&place, &["list", "--waits", "tasks"], 0);
    assert!(said.contains("it waits for 1 task: b"), "{said}");
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    for dry_run in [&[][..], &["--dry-run"]] {
        let said = ok(&place, &[&copy[..], dry_run].concat(), 1);
        assert!(
            said.contains("task 'w' waits for 'b', which cannot be read"),
            "{said}"
        );
        assert!(said.contains("--accept-missing"), "{said}");
    }
    if place.path("t.db").exists() {
        assert!(place.list(&["--store", "sqlite:t.db"]).is_empty());
    }
    let said = ok(&place, &[&copy[..], &["--accept-missing"]].concat(), 1);
    assert!(said.contains("6 tasks: 5 copied, 1 left out"), "{said}");
}
