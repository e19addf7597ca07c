//! Commands to many schedules, runs for any time, and dry runs.

use serde_json::{Value, json};

use crate::{env::Env, schedules::create};

/// Creates schedules of these ids, whose runs have the label `team` of the second value.
fn some(env: &Env, schedules: &[(&str, &str)]) {
    for (id, team) in schedules {
        let label = format!("team={team}");
        let words = [
            "schedule", "create", id, "--cron", "@daily", "--label", &label,
        ];
        env.run(&[&words[..], &["--", "true"]].concat()).ok();
    }
}

fn ids(env: &Env) -> Vec<String> {
    let listed = env.json(&["schedule", "list"]);
    let ids = listed.as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn schedules_are_deleted_by_pattern_and_by_label() {
    let env = Env::new();
    let all = [
        ("backup-a", "x"),
        ("backup-b", "y"),
        ("my-backup-c", "x"),
        ("b", "y"),
    ];
    some(&env, &all);
    let dry = env
        .run(&["schedule", "delete", "backup-*", "--dry-run"])
        .ok();
    let says = "delete: 2 schedules selected; nothing was changed (dry run)\n";
    assert_eq!(dry.err, says);
    assert!(
        dry.out.contains("backup-a") && !dry.out.contains("my-backup-c"),
        "{dry:?}"
    );
    // Without a terminal a filter needs --yes, and the error has the number of schedules.
    env.run(&["schedule", "delete", "backup-*"]).fails(
        2,
        &["this would delete 2 schedules; without a terminal give --yes"],
    );
    env.run(&["schedule", "delete", "--all", "b"])
        .fails(2, &["--all and ids or --label do not go together"]);
    env.run(&["schedule", "delete"])
        .fails(2, &["no schedule is named"]);
    assert_eq!(ids(&env).len(), 4);

    let deleted = env
        .run(&[
            "schedule", "delete", "backup-*", "--label", "team=x", "--yes",
        ])
        .ok();
    assert_eq!(deleted.out, "backup-a: deleted\n");
    let none = env
        .run(&["schedule", "delete", "--label", "team=z", "--yes"])
        .ok();
    assert_eq!(none.err, "delete: no schedule matches\n");
    // Ids need no confirmation; a missing one does not stop the others.
    let some = env
        .run(&["schedule", "delete", "backup-b", "nothing"])
        .code(1);
    assert_eq!(some.out, "backup-b: deleted\n");
    assert!(some.err.contains("'nothing' does not exist"), "{some:?}");
    assert_eq!(ids(&env), ["my-backup-c", "b"]);
    env.run(&["schedule", "delete", "--all", "--yes"]).ok();
    assert_eq!(ids(&env), Vec::<String>::new());
}

/// Read as a pattern, the id would not select that schedule.
#[test]
fn an_id_that_looks_like_a_pattern_is_that_schedule() {
    let env = Env::new();
    some(&env, &[("a*", "x"), ("ab", "x")]);
    env.run(&["schedule", "delete", "a*"]).ok();
    assert_eq!(ids(&env), ["ab"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_paused_and_resumed_by_filter() {
    let env = Env::new();
    some(&env, &[("a", "x"), ("b", "x"), ("c", "y")]);
    let node = env.node("n1").await;
    let paused = env
        .run(&[
            "schedule", "pause", "--label", "team=x", "--yes", "--note", "moving",
        ])
        .ok();
    assert_eq!(paused.out, "a: paused\nb: paused\n");
    let state = |id: &str| env.json(&["schedule", "get", id]);
    assert_eq!(
        (&state("a")["note"], &state("c")["state"]),
        (&json!("moving"), &json!("sleeping"))
    );
    let dry = env.json(&["schedule", "pause", "--all", "--dry-run"]);
    let left: Vec<&Value> = dry
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(left, ["c"], "only one is not paused");
    let resumed = env
        .run(&["schedule", "resume", "--all", "--yes", "-o", "json"])
        .ok();
    let actions: Vec<Value> = resumed
        .lines()
        .iter()
        .map(|one| one["action"].clone())
        .collect();
    assert_eq!(actions, ["resumed", "resumed"]);
    let none = env.run(&["schedule", "resume", "c", "z*", "--yes"]).ok();
    assert_eq!(
        none.err,
        "resume: 1 schedule match, and there is nothing to resume\n"
    );
    node.shutdown().await;
}

#[test]
fn a_time_is_triggered_once_with_a_priority_of_its_own() {
    let env = Env::new();
    create(&env, &["--priority", "3"]);
    let trigger = |more: &[&str]| {
        env.json(&[&["schedule", "trigger", "nightly"], more].concat())["runs"][0].clone()
    };
    for (time, options, priority) in [
        ("2020-03-01T01:30:00Z", &[][..], 4),
        ("2999-01-01T00:00:00Z", &["--priority", "-7"], -7),
    ] {
        let run = trigger(&[&["--for", time], options].concat());
        assert_eq!(run, format!("nightly@{time}"));
        let task = env.json(&["get", run.as_str().unwrap()]);
        assert_eq!(task["priority"], priority, "{task}");
        assert_eq!(task["state"], "runnable", "a time to come runs now: {task}");
    }
    let again = [
        "schedule",
        "trigger",
        "nightly",
        "--for",
        "2020-03-01T02:30:00+01:00",
    ];
    env.run(&again).fails(
        1,
        &["the time has a run, 'nightly@2020-03-01T01:30:00Z', which is runnable; `windlass get "],
    );
    env.run(&["kill", "nightly@2020-03-01T01:30:00Z"]).ok();
    env.run(&["worker", "--until-idle"]).ok();
    env.run(&again).fails(
        1,
        &["which is killed; `windlass retry nightly@2020-03-01T01:30:00Z` runs it again"],
    );
    env.run(&["submit", "k", "--id", "nightly@2020-01-01T00:00:00Z"])
        .ok();
    env.run(&[
        "schedule",
        "trigger",
        "nightly",
        "--for",
        "2020-01-01T00:00:00Z",
    ])
    .fails(
        2,
        &["is a task of kind 'k' that schedule 'nightly' has not submitted"],
    );
    env.run(&[
        "schedule",
        "trigger",
        "nothing",
        "--for",
        "2020-01-01T00:00:00Z",
    ])
    .fails(3, &["'nothing' does not exist"]);
}

#[test]
fn a_dry_run_shows_the_next_times_and_changes_nothing() {
    let env = Env::new();
    let words = [
        "schedule",
        "create",
        "s",
        "--cron",
        "0 12 * * *",
        "--zone",
        "Europe/Berlin",
        "--dry-run",
    ];
    let words = [&words[..], &["--", "true"]].concat();
    let shown = env.run(&words).ok();
    assert!(
        shown.out.starts_with("s: would create (dry run)\nnext   "),
        "{shown:?}"
    );
    assert_eq!(shown.out.matches("12:00:00 +0").count(), 5, "{shown:?}");
    assert!(!std::path::Path::new(&env.path("store.db")).exists());
    create(&env, &[]);
    let update = [
        "schedule",
        "update",
        "nightly",
        "--cron",
        "0 12 * * *",
        "--dry-run",
    ];
    let planned = env.json(&update);
    assert_eq!(planned["action"], "would update");
    assert_eq!(planned["next"].as_array().unwrap().len(), 5);
    assert_eq!(planned["spec"]["cron"], json!(["0 12 * * *"]));
    let record = env.json(&["schedule", "get", "nightly"]);
    assert_eq!(record["spec"]["cron"], json!(["30 2 * * *"]));
    assert_eq!(record["upcoming"].as_array().unwrap().len(), 5);
    assert_eq!(record["upcoming"][0], record["next"]);
    let shown = env.run(&["schedule", "get", "nightly"]).ok();
    assert_eq!(shown.out.matches("\nthen         ").count(), 4, "{shown:?}");
    let create = [
        "schedule",
        "create",
        "nightly",
        "--cron",
        "@daily",
        "--dry-run",
        "--",
        "true",
    ];
    env.run(&create).fails(1, &["'nightly' exists already"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_created_paused_with_a_description() {
    let env = Env::new();
    let words = [
        "schedule", "create", "s", "--every", "1s", "--kind", "double", "--props", "1",
    ];
    let more = ["--paused", "--description", "copies the orders"];
    let created = env.run(&[&words[..], &more].concat()).ok();
    assert!(
        created.out.starts_with("s: created, paused\n"),
        "{created:?}"
    );
    let shown = env.run(&["schedule", "get", "s"]).ok();
    assert!(shown.out.contains("\nstate        paused\n"), "{shown:?}");
    assert!(
        shown.out.contains("\ndescription  copies the orders\n"),
        "{shown:?}"
    );
    assert!(
        env.run(&["schedule", "list"])
            .ok()
            .out
            .contains("copies the orders")
    );
    let node = env.node("n1").await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(env.json(&["schedule", "get", "s"])["counts"]["fired"], 0);
    env.run(&["schedule", "resume", "s"]).ok();
    let fired = async {
        while env.json(&["schedule", "get", "s"])["counts"]["fired"] == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, fired).await.unwrap();
    node.shutdown().await;
    let update = |more: &[&str]| env.run(&[&["schedule", "update", "s"], more].concat()).ok();
    update(&["--description", "copies all"]);
    assert_eq!(
        env.json(&["schedule", "get", "s"])["spec"]["description"],
        "copies all"
    );
    update(&["--clear", "description"]);
    assert!(env.json(&["schedule", "get", "s"])["spec"]["description"].is_null());
    env.run(&["schedule", "update", "s", "--description", ""])
        .fails(
            2,
            &["--description: is empty; give 1 to 1024 bytes of printable text"],
        );
}

/// Regression: a pause after a resume that waits said "paused", and the schedule ran.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_after_a_waiting_resume_is_sent() {
    let env = Env::new();
    let every = [
        "--every", "1s", "--paused", "--kind", "double", "--props", "1",
    ];
    env.run(&[&["schedule", "create", "s"], &every[..]].concat())
        .ok();
    env.run(&["schedule", "resume", "s"]).ok();
    let paused = env.run(&["schedule", "pause", "s"]).ok();
    assert!(
        paused.out.contains("pause sent; it waits for a node"),
        "{paused:?}"
    );
    env.run(&["schedule", "resume", "s"]).ok();
    let all = env.run(&["schedule", "pause", "--all", "--yes"]).ok();
    assert!(all.out.contains("pause sent"), "{all:?}");
    let node = env.node("n1").await;
    env.run(&["submit", "double", "--props", "1", "--wait"])
        .ok();
    let started = std::time::Instant::now();
    while env.json(&["get", "s"])["commands_waiting"] != 0 {
        let limit = std::time::Duration::from_secs(30);
        assert!(started.elapsed() < limit, "the commands wait");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(env.json(&["get", "s"])["state"], "paused");
    node.shutdown().await;
}

/// Such a command printed nothing, which a program cannot read as JSON.
#[test]
fn a_filter_without_a_match_prints_a_document() {
    let env = Env::new();
    some(&env, &[("a", "1h")]);
    for verb in ["pause", "resume", "delete"] {
        let words = ["schedule", verb, "b-*", "--yes", "-o", "json"];
        assert_eq!(env.run(&words).ok().out, "[]\n", "{verb}");
    }
}

#[test]
fn a_description_is_printable() {
    let env = Env::new();
    for text in ["a\u{202e}b", "a\u{1b}[31m"] {
        let words = [
            "schedule",
            "create",
            "s",
            "--every",
            "1h",
            "--kind",
            "k",
            "--description",
            text,
        ];
        env.run(&words).fails(2, &["which is not printed"]);
    }
}
