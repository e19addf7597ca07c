//! The mark that a copy leaves in its source.

use super::*;

/// Regression: a forgotten worker or submit silently used the old file, and the same tasks ran twice.
#[test]
fn a_copied_store_is_marked_and_takes_no_more() {
    let place = filled();
    let insert = "INSERT INTO windlass_inbox (operation) VALUES ('{}')";
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let copy = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"];
    let said = ok(&place, &copy, 0);
    assert!(said.contains("'sqlite:s.db' accepts no tasks"), "{said}");
    let target = format!("copied to 'sqlite:{}' at ", place.path("t.db").display());
    for command in [
        &["worker", "--until-idle"][..],
        &["submit", "k"],
        &["run", "--each", "echo {}"],
        &["kill", "a"],
    ] {
        let (code, out, err) = place.run_with(command, b"new\n");
        assert_eq!(code, 4, "{command:?}: {out}{err}");
        assert!(
            err.contains(&target) && err.contains("--use-copied"),
            "{command:?}: {err}"
        );
    }
    let error = file.execute(insert, ()).unwrap_err().to_string();
    assert!(
        error.contains(&target),
        "a program that inserts rows: {error}"
    );
    let said = ok(&place, &["doctor", "--strict"], 1);
    assert!(said.contains("copied") && said.contains(&target), "{said}");
    // A copy back into it needs the option.
    let back = [
        "copy",
        "--backup",
        "--from",
        "sqlite:t.db",
        "--to",
        "sqlite:s.db",
    ];
    ok(
        &place,
        &["--store", "sqlite:t.db", "submit", "k", "--id", "new"],
        0,
    );
    let said = ok(&place, &back, 4);
    assert!(said.contains(&target), "{said}");
    ok(&place, &[&back[..], &["--use-copied"]].concat(), 0);
    ok(&place, &["delete", "new"], 0);
    ok(&place, &copy, 0);
    // It is read, and copied again.
    assert_eq!(listed(&place, "sqlite:s.db").len(), 5);
    ok(&place, &copy, 0);
    // A second target would run the same tasks.
    let second = ["copy", "--from", "sqlite:s.db", "--to", "sqlite:u.db"];
    for dry_run in [&[][..], &["--dry-run"]] {
        let said = ok(&place, &[&second[..], dry_run].concat(), 1);
        assert!(
            said.contains(&target) && said.contains("--backup"),
            "{said}"
        );
    }
    assert!(!place.path("u.db").exists(), "no target is made");
    ok(&place, &[&second[..], &["--backup"]].concat(), 0);
    let said = ok(&place, &[&back[..], &["--dry-run"]].concat(), 4);
    assert!(said.contains(&target), "a dry run names the mark: {said}");
    // A command that only reads leaves the mark, and so does a file of settings.
    let said = ok(&place, &["list", "--use-copied"], 0);
    assert!(said.contains("the mark of the copy stays"), "{said}");
    std::fs::write(place.path("config.toml"), "use-copied = true\n").unwrap();
    let said = ok(&place, &["--config", "config.toml", "list"], 2);
    assert!(said.contains("use-copied"), "{said}");
    ok(&place, &["submit", "k"], 4);
    let said = ok(&place, &["submit", "k", "--use-copied"], 0);
    assert!(said.contains("the mark of the copy is removed"), "{said}");
    ok(&place, &["submit", "k"], 0);
    file.execute(insert, ()).unwrap();
    let said = ok(&place, &["doctor"], 0);
    assert!(!said.contains("copied to"), "{said}");
}

#[test]
fn a_backup_leaves_its_source_in_use() {
    let place = filled();
    let backup = [
        "copy",
        "--backup",
        "--from",
        "sqlite:s.db",
        "--to",
        "sqlite:t.db",
    ];
    let said = ok(&place, &backup, 0);
    assert!(!said.contains("accepts no tasks"), "{said}");
    ok(&place, &["submit", "k"], 0);
}

/// Opening the store removed the mark, whatever the command did.
#[test]
fn the_mark_of_a_copy_goes_with_the_first_write_that_it_refuses() {
    let place = filled();
    ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"],
        0,
    );
    for (args, code) in [
        (
            &[
                "copy",
                "--from",
                "sqlite:s.db",
                "--to",
                "sqlite:u.db",
                "--dry-run",
            ][..],
            0,
        ),
        (
            &[
                "copy",
                "--from",
                "sqlite:s.db",
                "--to",
                "sqlite:u.db",
                "--backup",
            ],
            0,
        ),
        (
            &[
                "copy",
                "--from",
                "sqlite:t.db",
                "--to",
                "sqlite:s.db",
                "--dry-run",
            ],
            0,
        ),
        (&["export", "out.jsonl"], 0),
        (&["kill", "--all"], 2),
        (&["kill", "--all", "--dry-run"], 0),
        (&["kill", "nosuch"], 3),
        (&["submit", "k", "--id", "a"], 1),
        (&["retry", "a"], 1),
        (&["delete", "b", "--yes"], 0),
        (&["doctor", "--repair"], 0),
    ] {
        let said = ok(&place, &[args, &["--use-copied"]].concat(), code);
        assert!(!said.contains("is removed"), "{args:?}: {said}");
        let said = ok(&place, &["submit", "k"], 4);
        assert!(said.contains("copied to"), "{args:?}: {said}");
    }
    let said = ok(&place, &["kill", "a", "--use-copied"], 0);
    assert!(said.contains("the mark of the copy is removed"), "{said}");
    ok(&place, &["submit", "k"], 0);
    // A worker that starts uses the store.
    ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "sqlite:v.db"],
        0,
    );
    ok(&place, &["worker", "--until-idle"], 4);
    ok(&place, &["submit", "k"], 4);
    let said = ok(&place, &["worker", "--until-idle", "--use-copied"], 0);
    assert!(said.contains("the mark of the copy is removed"), "{said}");
    ok(&place, &["submit", "k"], 0);
    // Back again: the target is used from now on, also where every task is there.
    ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "sqlite:w.db"],
        0,
    );
    ok(
        &place,
        &[
            "copy",
            "--from",
            "sqlite:w.db",
            "--to",
            "sqlite:s.db",
            "--use-copied",
        ],
        0,
    );
    ok(&place, &["submit", "k"], 0);
    ok(&place, &["--store", "sqlite:w.db", "submit", "k"], 4);
}

/// They advised to start a worker, which the store refuses.
#[test]
fn a_copied_store_is_no_reason_to_start_a_worker() {
    let place = filled();
    ok(&place, &["submit", "--id", "c", "--", "true"], 0);
    ok(
        &place,
        &["copy", "--from", "sqlite:s.db", "--to", "sqlite:t.db"],
        0,
    );
    for args in [
        &["list"][..],
        &["list", "--waits", "copied"],
        &["get", "c"],
        &["stats"],
        &["nodes"],
    ] {
        let said = ok(&place, args, 0);
        assert!(said.contains("copied to 'sqlite:"), "{args:?}: {said}");
        assert!(!said.contains("windlass worker"), "{args:?}: {said}");
        assert!(!said.contains("start one"), "{args:?}: {said}");
    }
    let said = ok(&place, &["list", "--waits", "no_node"], 0);
    assert!(said.contains("no task matches"), "{said}");
    let said = ok(&place, &["node", "unfreeze", "n"], 4);
    assert!(said.contains("copied to 'sqlite:"), "{said}");
}
