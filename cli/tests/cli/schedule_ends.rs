//! Schedules that have ended or are wrong, runs whose id another task has, and the limits and deadlines of runs.

use serde_json::json;
use windlass::{Client, jiff::Timestamp, store::Store};

use crate::{env::Env, schedules::create};

/// Leaves a schedule `wrong` with these props in the file, which no submit would accept.
fn plant(env: &Env, props: &str) {
    let good = r#"{"run":{"kind":"k"},"cron":["@daily"]}"#;
    env.run(&["submit", "schedule", "--id", "wrong", "--props", good])
        .ok();
    env.sql(&format!(
        "UPDATE windlass_tasks SET props = '{props}' WHERE id = 'wrong'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_schedule_is_updated_and_a_taken_id_is_named() {
    let env = Env::new();
    plant(&env, "null");
    let node = env.node("n1").await;
    let store = Store::open(&env.url()).await.unwrap();
    Client::new(&store).wait("wrong").await.unwrap();
    let create_again = [
        "schedule", "create", "wrong", "--cron", "@daily", "--", "true",
    ];
    for words in [&["schedule", "trigger", "wrong"][..], &create_again] {
        let says = "schedule 'wrong' has ended; update it to start it again";
        env.run(words).fails(1, &[says]);
    }
    env.run(&["schedule", "update", "wrong", "--cron", "@daily"])
        .fails(2, &["schedule: "]);
    let spec = r#"{"run":{"kind":"exec","props":{"command":"true"}},"cron":["@daily"]}"#;
    let updated = env
        .run(&["schedule", "update", "wrong", "--spec", spec])
        .ok();
    let says = "wrong: updated, and started again; next at ";
    assert!(updated.out.starts_with(says), "{updated:?}");
    node.shutdown().await;
    create(&env, &[]);
    let range = [
        "schedule",
        "backfill",
        "nightly",
        "--from",
        "2024-01-01T00:00:00Z",
    ];
    let range = [&range[..], &["--to", "2024-01-02T00:00:00Z"]].concat();
    env.run(&["submit", "k", "--id", "nightly@2024-01-01T01:30:00Z"])
        .ok();
    env.run(&range).fails(
        2,
        &["time: 'nightly@2024-01-01T01:30:00Z' is a task of kind 'k'"],
    );
}

#[test]
fn an_update_repairs_a_field_of_the_wrong_type() {
    let env = Env::new();
    let props = r#"{"run":{"kind":"k"},"cron":5,"missed":7}"#;
    plant(&env, props);
    let update = ["schedule", "update", "wrong", "--cron", "@daily"];
    env.run(&update)
        .fails(2, &["schedule: missed: is 7, not an object"]);
    let missed = [&update[..], &["--missed", "none", "--zone", "UTC"]].concat();
    env.run(&[&["schedule", "preview"][..], &missed[2..]].concat())
        .ok();
    env.run(&missed).ok();
    let spec = &env.json(&["schedule", "get", "wrong"])["spec"];
    assert_eq!(spec["cron"], json!(["@daily"]));
    assert_eq!(spec["missed"]["run"], "none");
    assert_eq!(spec["run"]["kind"], "k");
}

#[test]
fn the_runs_of_a_schedule_have_limits() {
    let env = Env::new();
    let limits = ["--at-once", "db=1", "--rate", "api=9/1m"];
    create(&env, &limits);
    let shown = env.json(&["schedule", "get", "nightly"]);
    let expected = json!([
        {"key": "db", "at_once": 1},
        {"key": "api", "starts": 9, "within": "1m"},
    ]);
    assert_eq!(shown["spec"]["run"]["limits"], expected);
    env.run(&["schedule", "trigger", "nightly"]).ok();
    let runs = env.run(&["list", "--label", "schedule=nightly", "-o", "json"]);
    let runs = runs.ok().lines();
    assert_eq!(runs[0]["limits"], expected, "{runs:?}");
}

#[test]
fn the_runs_of_a_schedule_have_deadlines() {
    let env = Env::new();
    create(&env, &["--start-within", "10m", "--end-within", "1h"]);
    let shown = env.json(&["schedule", "get", "nightly"]);
    assert_eq!(shown["spec"]["start_within"], "10m");
    assert_eq!(shown["spec"]["end_within"], "1h");
    let time = |json: &serde_json::Value| json.as_str().unwrap().parse::<Timestamp>().unwrap();
    let next = &env.json(&["schedule", "preview", "nightly", "-n", "1"])[0];
    let minutes = |field: &str| (time(&next[field]) - time(&next["nominal"])).get_seconds() / 60;
    assert_eq!((minutes("start_by"), minutes("end_by")), (10, 60));
    assert_eq!(shown["next"], *next);
    let text = env.run(&["schedule", "get", "nightly"]).ok().out;
    let line = format!("{:<12} {}", "start by", next["start_by"].as_str().unwrap());
    assert!(text.contains(&line), "{text}");
    let table = env.run(&["schedule", "preview", "nightly"]).ok().out;
    assert!(table.contains(next["end_by"].as_str().unwrap()), "{table}");
    // The durations of a triggered run count from its submit.
    let run = &env.json(&["schedule", "trigger", "nightly"])["runs"][0];
    let task = env.json(&["get", run.as_str().unwrap()]);
    let wait = time(&task["end_by"]) - time(&task["start_by"]);
    assert_eq!(wait.get_seconds(), 50 * 60);
    assert!(time(&task["start_by"]) > Timestamp::now());
    env.run(&["schedule", "update", "nightly", "--end-within", "2h"])
        .ok();
    let shown = env.json(&["schedule", "get", "nightly"]);
    let within = (&shown["spec"]["start_within"], &shown["spec"]["end_within"]);
    assert_eq!(within, (&json!("10m"), &json!("2h")));
    let file = env.write("crontab", "@hourly backup\n");
    let import = [
        "schedule",
        "import",
        &file,
        "--end-within",
        "30m",
        "-o",
        "json",
    ];
    let imported = env.run(&import).ok().lines();
    assert_eq!(imported[0]["spec"]["end_within"], "30m");
}

#[test]
fn wrong_deadlines_and_wrong_fields_of_cron_are_named() {
    let env = Env::new();
    for (options, says) in [
        (
            &["--cron", "0 0 32 * *"][..],
            "the day of the month is 32; write 1 to 31",
        ),
        (
            &["--cron", "@daily", "--start-within", "0s"],
            "--start-within: 0s fails every run",
        ),
        (
            &["--cron", "@daily", "--end-within", "soon"],
            "schedule: end_within: 'soon' is not a duration",
        ),
        (
            &["--cron", "@daily", "--offset", "1h", "--end-within", "1h"],
            "--end-within: 1h is over when a run is due, up to 1h after its time",
        ),
        (
            &[
                "--spec",
                "{\"run\":{\"kind\":\"exec\",\"end_by\":\"2030-01-01T00:00:00Z\"}}",
            ],
            "end_by: is not possible for the runs of a schedule",
        ),
    ] {
        let words = [&["schedule", "create", "s"][..], options, &["--", "true"]].concat();
        env.run(&words).fails(2, &[says]);
    }
}

/// Regression: it printed "updated", as if something had changed.
#[test]
fn an_update_without_options_is_refused() {
    let env = Env::new();
    create(&env, &[]);
    let says = "could not update schedule 'nightly': no option is given; give at least one, such as --cron or --zone";
    env.run(&["schedule", "update", "nightly"])
        .fails(2, &[says]);
    env.run(&["schedule", "update", "nightly", "--count", "3"])
        .ok();
    env.run(&["schedule", "update", "nightly", "--label", "a=b"])
        .ok();
}

#[test]
fn a_next_time_that_has_passed_without_a_worker_is_marked() {
    let env = Env::new();
    env.run(&["schedule", "create", "soon", "--every", "1s", "--", "true"])
        .ok();
    let got = env.run(&["schedule", "get", "soon"]).ok();
    assert!(!got.out.contains("passed"), "{got:?}");
    std::thread::sleep(std::time::Duration::from_secs(5));
    let got = env.run(&["schedule", "get", "soon"]).ok();
    assert!(
        got.out.contains("ago, and no worker has submitted its run"),
        "{got:?}"
    );
    // Regression: the list showed neither this nor what the schedule runs.
    let words = [
        "schedule",
        "create",
        "later",
        "--cron",
        "@yearly",
        "--shell",
        "du -s | mail",
    ];
    env.run(&words).ok();
    let listed = env.run(&["schedule", "list"]).ok().out;
    let row = |id: &str| listed.lines().find(|line| line.starts_with(id)).unwrap();
    assert!(
        row("ID").contains("NEXT") && row("ID").contains("  RUNS"),
        "{listed}"
    );
    assert!(
        row("soon").contains("s late: ") && row("soon").contains("  true  "),
        "{listed}"
    );
    assert!(row("later").contains("  du -s | mail  "), "{listed}");
    assert!(!row("later").contains("late:"), "{listed}");
    let listed = env.json(&["schedule", "list"]);
    assert!(listed[0]["late_seconds"].as_u64().unwrap() >= 3, "{listed}");
    assert!(listed[1]["late_seconds"].is_null() && listed[1].get("late_seconds").is_some());
}

/// It advised to start a worker, which would do nothing for the schedule.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_without_a_next_step_needs_no_worker() {
    let env = Env::new();
    create(&env, &[]);
    let waits = |env: &Env| env.run(&["schedule", "get", "nightly"]).ok().out;
    assert!(waits(&env).contains("start one (`windlass worker`"));
    let node = env.node("n").await;
    assert!(!waits(&env).contains("start one"));
    env.run(&["kill", "nightly", "--wait"]).ok();
    node.shutdown().await;
    let ended = waits(&env);
    assert!(ended.contains("killed"), "{ended}");
    assert!(!ended.contains("start one"), "{ended}");
}

#[test]
fn a_schedule_with_the_id_of_a_plain_task_is_not_to_be_updated() {
    let env = Env::new();
    env.run(&["submit", "report", "--id", "nightly"]).ok();
    let words = [
        "schedule", "create", "nightly", "--every", "1h", "--", "true",
    ];
    let ran = env
        .run(&words)
        .fails(1, &["a task of kind 'report', which is no schedule"]);
    assert!(!ran.err.contains("schedule update"), "{ran:?}");
}
