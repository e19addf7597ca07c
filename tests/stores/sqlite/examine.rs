//! Defects that are planted in a file, and the finding of an examination for each.

use std::time::Duration;

use windlass::store::{
    Doctor, Registry, Remedy,
    examine::{Examination, Finding, Verdict},
    sqlite::SqliteStore,
};

use super::support::*;

pub(crate) async fn examine(store: &SqliteStore, repair: bool) -> Vec<Finding> {
    let mut how = Examination::default();
    how.repair = repair;
    examine_as(store, how).await
}

pub(crate) async fn examine_as(store: &SqliteStore, how: Examination) -> Vec<Finding> {
    Doctor::examine(store, &how).await.unwrap()
}

pub(crate) fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} is not among {findings:#?}"))
}

#[tokio::test]
async fn a_file_in_order_has_nothing_wrong() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let lease = join(&store, "n").await;
    claim(&store, &lease, "a").await;
    for repair in [false, true] {
        let findings = examine(&store, repair).await;
        // The free space of the disk does not depend on the test.
        let mut wrong = findings.iter().filter(|f| f.check != "space");
        assert!(wrong.all(|f| f.verdict == Verdict::Ok), "{findings:#?}");
        assert_eq!(of(&findings, "nodes").found, "1 live");
    }
    assert!(
        store.get(&id("a")).await.unwrap().node.is_some(),
        "it is still claimed"
    );
}

/// SQLite's check of JSON rejects texts that are nested more than about 1,000 levels deep.
#[tokio::test]
async fn a_record_with_deep_json_is_readable() {
    let file = file();
    let store = file.open().await;
    submit(&store, "deep").await;
    // A submit refuses such props; another program may have written them.
    let text = format!("{}{}", "[".repeat(3000), "]".repeat(3000));
    let plant = "UPDATE windlass_tasks SET props = ?1 WHERE id = 'deep'";
    assert_eq!(file.raw().execute(plant, [text]).unwrap(), 1);
    assert!(store.get(&id("deep")).await.unwrap().state.is_ok());
    let findings = examine(&store, false).await;
    assert_eq!(of(&findings, "quarantined").verdict, Verdict::Ok);
    let damage = "UPDATE windlass_tasks SET props = props || '}' WHERE id = 'deep'";
    assert_eq!(file.raw().execute(damage, ()).unwrap(), 1);
    let findings = examine(&store, false).await;
    let finding = of(&findings, "quarantined");
    assert_eq!(finding.verdict, Verdict::Warning);
    assert!(finding.found.contains("deep"), "{finding:?}");
}

#[tokio::test]
async fn planted_rows_are_found_and_repaired() {
    let file = file();
    let store = file.open().await;
    for name in ["queue", "held", "unreadable", "nameless"] {
        submit(&store, name).await;
    }
    let lease = join(&store, "left").await;
    claim(&store, &lease, "held").await;
    let plants = [
        (
            "commands",
            "INSERT INTO windlass_commands (ord, id, n, sent_at, command) VALUES (900, 'c', 901, 0, '{}')",
            Verdict::Error,
            true,
        ),
        (
            "queues",
            "UPDATE windlass_states SET pending = 7 WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'queue')",
            Verdict::Error,
            true,
        ),
        (
            "claims",
            "UPDATE windlass_leases SET ended_at = 1 WHERE node = 'left'",
            Verdict::Error,
            true,
        ),
        (
            "quarantined",
            "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'unreadable')",
            Verdict::Warning,
            false,
        ),
        (
            "records",
            "INSERT INTO windlass_states (n, code, fence, last, size, version, state)
             VALUES (950, 0, 0, 0, 0, 0, '{}')",
            Verdict::Error,
            false,
        ),
        (
            "logs",
            "INSERT INTO windlass_log (n, part, incarnation, attempt, lines) VALUES (902, 0, 0, 1, '{}')",
            Verdict::Error,
            true,
        ),
        (
            "log-parts",
            "INSERT INTO windlass_log (n, part, incarnation, attempt, lines)
             SELECT n, 3, 0, 1, '{}' FROM windlass_tasks WHERE id = 'queue'",
            Verdict::Error,
            true,
        ),
        (
            "ids",
            "UPDATE windlass_tasks SET id = CAST(x'ff6e' AS TEXT) WHERE id = 'nameless'",
            Verdict::Error,
            false,
        ),
        (
            "clock",
            "UPDATE windlass_changes SET at = at + 3600000000",
            Verdict::Warning,
            false,
        ),
    ];
    for (check, sql, ..) in plants {
        assert!(file.raw().execute(sql, ()).unwrap() > 0, "{check}");
    }
    let findings = examine(&store, false).await;
    for (check, _, verdict, _) in plants {
        assert_eq!(
            of(&findings, check).verdict,
            verdict,
            "{:?}",
            of(&findings, check)
        );
        assert!(!of(&findings, check).advice.is_empty(), "{check}");
    }
    assert!(of(&findings, "claims").found.contains("held"));
    let repaired = examine(&store, true).await;
    let after = examine(&store, false).await;
    for (check, _, verdict, goes) in plants {
        let expected = if goes { Verdict::Ok } else { verdict };
        assert_eq!(of(&repaired, check).verdict, expected, "{check}");
        assert_eq!(of(&after, check).verdict, expected, "{check}");
        assert_eq!(of(&repaired, check).repaired, u64::from(goes), "{check}");
    }
    let record = store.get(&id("held")).await.unwrap();
    assert_eq!(record.node, None);
    // The claim was lost: the next one counts it.
    let next = join(&store, "next").await;
    assert!(claim(&store, &next, "held").await.abandoned);
}

/// Regression: the doctor itself failed when an index was missing, and did not report a missing
/// column.
#[tokio::test]
async fn a_table_or_index_that_is_not_that_of_the_program_is_named() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    file.raw()
        .execute_batch("DROP INDEX windlass_states_live; DROP INDEX windlass_states_owned")
        .unwrap();
    let findings = examine(&store, false).await;
    assert!(findings.iter().all(|finding| finding.check != "records"));
    let tables = of(&findings, "tables");
    assert_eq!(tables.verdict, Verdict::Error);
    assert!(
        tables
            .found
            .contains("index windlass_states_live is missing")
    );
    assert_eq!(tables.remedy, Some(Remedy::Repair), "{tables:?}");
    let findings = examine(&store, true).await;
    let tables = of(&findings, "tables");
    assert_eq!((tables.verdict, tables.repaired), (Verdict::Ok, 2));
    assert!(findings.len() > 5, "{findings:#?}");
    let lease = join(&store, "n").await;
    let drop = "ALTER TABLE windlass_states DROP COLUMN lost_by";
    file.raw().execute_batch(drop).unwrap();
    for repair in [false, true] {
        let findings = examine(&store, repair).await;
        let tables = of(&findings, "tables");
        assert_eq!(tables.verdict, Verdict::Error);
        assert!(tables.found.contains("table windlass_states was changed"));
        assert!(tables.advice.contains("backup"), "{tables:?}");
    }
    let refused = try_claim(&store, &lease, "a").await.unwrap_err();
    assert!(!refused.is_retryable(), "{refused}");
}

/// Regression: the file could not be opened, so the doctor could not create the index again.
#[tokio::test]
async fn a_file_without_the_index_of_its_inbox_opens_and_is_repaired() {
    let file = file();
    submit(&file.open().await, "a").await;
    file.raw()
        .execute_batch("DROP INDEX windlass_inbox_waiting")
        .unwrap();
    let store = file.open().await;
    let findings = examine(&store, true).await;
    let tables = of(&findings, "tables");
    assert_eq!((tables.verdict, tables.repaired), (Verdict::Ok, 1));
    submit(&store, "b").await;
}

/// Regression: no list showed it, and an export counted as complete.
#[tokio::test]
async fn a_task_whose_id_cannot_be_read_is_named_by_an_export() {
    let file = file();
    let store = std::sync::Arc::new(file.open().await);
    submit(&store, "a").await;
    submit(&store, "b").await;
    let damage = "UPDATE windlass_tasks SET id = CAST(x'ff' AS TEXT) WHERE id = 'b'";
    assert_eq!(file.raw().execute(damage, ()).unwrap(), 1);
    let clock = windlass::clock::SystemClock::shared();
    let whole = windlass::Store::from_parts(store.clone(), store, clock);
    let written = whole.export(Vec::new(), |_| ()).await.unwrap();
    assert_eq!((written.tasks, written.is_whole()), (1, false));
    assert_eq!(written.outside[0].what, "row 2 of windlass_tasks");
    let why = written.outside[0].refused.as_deref();
    assert_eq!(why, Some("its id cannot be read"));
}

#[tokio::test]
async fn counts_that_differ_from_the_tasks_are_counted_again() {
    let file = file();
    let store = file.open().await;
    for name in ["a", "b", "c"] {
        submit(&store, name).await;
    }
    let lease = join(&store, "n").await;
    claim(&store, &lease, "a").await;
    let counts = async || {
        let counts = store.counts().await.unwrap();
        counts
            .iter()
            .map(|c| (c.tasks, c.claimed))
            .collect::<Vec<_>>()
    };
    assert_eq!(counts().await, [(3, 1)]);
    assert_eq!(
        of(&examine(&store, false).await, "counts").verdict,
        Verdict::Ok
    );
    for plant in [
        "UPDATE windlass_counts SET tasks = tasks + 7 WHERE claimed = 1",
        "DELETE FROM windlass_counts WHERE claimed = 0",
        "UPDATE windlass_states SET owner = NULL WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'a')",
    ] {
        assert_eq!(file.raw().execute(plant, ()).unwrap(), 1, "{plant}");
    }
    assert_eq!(counts().await, [(8, 8)]);
    let findings = examine(&store, false).await;
    let finding = of(&findings, "counts");
    assert_eq!((finding.verdict, finding.repaired), (Verdict::Error, 0));
    assert!(
        finding.found.contains("runnable: 8 instead of 0"),
        "{finding:?}"
    );
    assert_eq!(finding.remedy, Some(Remedy::Repair), "{finding:?}");
    let repaired = examine(&store, true).await;
    assert_eq!(of(&repaired, "counts").repaired, 2);
    assert_eq!(counts().await, [(3, 0)]);
    assert_eq!(
        of(&examine(&store, false).await, "counts").verdict,
        Verdict::Ok
    );
    submit(&store, "d").await;
    assert_eq!(counts().await, [(4, 0)]);
}

#[tokio::test]
async fn a_node_that_ended_without_leaving_is_reported() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    join(&store, "dead").await;
    let over = "UPDATE windlass_leases SET expires = 0";
    file.raw().execute(over, ()).unwrap();
    let findings = examine(&store, false).await;
    let nodes = of(&findings, "nodes");
    assert_eq!(nodes.verdict, Verdict::Warning);
    assert!(nodes.found.contains("dead"), "{nodes:?}");
}

/// Regression: on a full disk the examination ended with the error of its own write, without the
/// finding that names the disk.
#[tokio::test]
async fn a_store_that_takes_no_writes_is_examined() {
    let mut file = file();
    file.options.busy_timeout = Duration::from_millis(50);
    let store = file.open().await;
    let raw = file.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let findings = examine(&store, false).await;
    let writes = of(&findings, "writes");
    assert_eq!(writes.verdict, Verdict::Error);
    assert!(writes.found.contains("locked"), "{writes:?}");
    of(&findings, "space");
    raw.execute_batch("ROLLBACK").unwrap();
    let findings = examine(&store, false).await;
    assert!(findings.iter().all(|finding| finding.check != "writes"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_other_users_can_read_is_a_warning() {
    use std::{fs, os::unix::fs::PermissionsExt};

    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let findings = examine(&store, false).await;
    assert_eq!(of(&findings, "permissions").verdict, Verdict::Ok);

    let log = format!("{}-wal", file.path().display());
    fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
    let findings = examine(&store, false).await;
    let finding = of(&findings, "permissions");
    assert_eq!(finding.verdict, Verdict::Warning, "{finding:?}");
    assert!(finding.found.contains("0640"), "{finding:?}");
    let (_, command) = finding.found.split_once("run: ").unwrap();
    assert!(
        command.contains("go-rwx") && command.contains(&log),
        "{finding:?}"
    );

    // The command in the finding works.
    let shell = finding.found.split("run: ").nth(1).unwrap();
    let ran = std::process::Command::new("sh")
        .args(["-c", shell])
        .status();
    assert!(ran.unwrap().success());
    let findings = examine(&store, false).await;
    assert_eq!(of(&findings, "permissions").verdict, Verdict::Ok);
}

#[tokio::test]
async fn tasks_that_wait_for_each_other_are_reported() {
    let file = file();
    let store = file.open().await;
    for (id, waited) in [("a", "b"), ("before", "a"), ("b", "a")] {
        let found = examine(&store, false).await;
        let waits = found.iter().find(|finding| finding.check == "waits");
        assert_eq!(waits.unwrap().verdict, Verdict::Ok);
        let task = windlass::NewTask::new("k").id(id).after([waited]);
        let submit = task.build().unwrap();
        store.submit(vec![submit]).await.remove(0).unwrap();
    }
    let found = examine(&store, false).await;
    let waits = found
        .iter()
        .find(|finding| finding.check == "waits")
        .unwrap();
    assert_eq!(waits.verdict, Verdict::Error);
    assert!(
        waits.found.starts_with("tasks wait for each other: "),
        "{waits:?}"
    );
    assert!(!waits.found.contains("before"), "{waits:?}");
}
