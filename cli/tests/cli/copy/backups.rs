//! `windlass backup`, and what its file may do.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_backup_is_made_while_a_worker_runs_and_runs_nothing_until_it_is_told_to() {
    let place = filled();
    ok(
        &place,
        &[
            "submit",
            "exec",
            "--id",
            "long",
            "--props",
            r#"{"command":"sleep","args":["60"]}"#,
        ],
        0,
    );
    let worker = place.start(&["worker"]);
    until("the worker runs it", || {
        place.get("long")["node"].is_string()
    });
    let said = ok(&place, &["backup", "backup.db", "-o", "json"], 0);
    let made: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let file = place.path("backup.db").metadata().unwrap();
    assert_eq!(made["bytes"], file.len());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let said = ok(&place, &["backup", "backup.db"], 2);
    assert!(
        said.contains("'") && said.contains("it exists; name another file"),
        "{said}"
    );

    let at = ["--store", "sqlite:backup.db"];
    let on = |words: &[&str], code| ok(&place, &[&at[..], words].concat(), code);
    assert_eq!(
        listed(&place, "sqlite:backup.db").len(),
        place.list(&[]).len()
    );
    for words in [
        &["worker", "--until-idle"][..],
        &["submit", "k"],
        &["kill", "a"],
    ] {
        let said = on(words, 4);
        assert!(
            said.contains("as a backup of 'sqlite:"),
            "{words:?}: {said}"
        );
        assert!(said.contains("--use-copied"), "{words:?}: {said}");
    }
    let said = on(&["doctor", "--strict"], 1);
    assert!(said.contains("as a backup of"), "{said}");
    // A backup of the backup is one as well.
    on(&["backup", "second.db"], 0);
    let fence = place.get("long")["fence"].as_u64().unwrap();
    on(&["kill", "a", "--use-copied"], 0);
    // The claim of the first store goes on there, and was lost here.
    let restored = place.list(&[&at[..], &["--prefix", "long"]].concat());
    assert!(restored[0]["node"].is_null(), "{restored:?}");
    assert_eq!(place.get("long")["fence"].as_u64(), Some(fence));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn a_store_without_backups_says_what_to_do_instead() {
    let place = Place::new();
    let said = ok(&place, &["backup", "b.db", "--store", "memory:"], 2);
    assert!(
        said.contains("could not back up the store: the memory store"),
        "{said}"
    );
    let said = ok(&place, &["backup", "b.db", "--store", "sqlite:none.db"], 4);
    assert!(said.contains("none.db"), "{said}");
    assert!(!place.path("b.db").exists() && !place.path("none.db").exists());
}
