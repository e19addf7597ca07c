//! `schedule`: what it prints, what it changes, how it fails.

use serde_json::json;
use windlass::{Client, Json, NewTask, store::Store};

use crate::env::Env;

const CREATE: [&str; 7] = [
    "schedule",
    "create",
    "nightly",
    "--cron",
    "30 2 * * *",
    "--zone",
    "Europe/Berlin",
];

pub(crate) fn create(env: &Env, more: &[&str]) {
    env.run(&[&CREATE[..], more, &["--", "true", "--all"]].concat())
        .ok();
}

/// The clock was ahead when the schedule was created, so it submits no run until that time.
#[test]
fn a_schedule_that_waits_for_the_time_of_a_wrong_clock_says_so() {
    let env = Env::new();
    let props = json!({
        "run": {"kind": "exec", "props": {"command": "true"}},
        "cron": ["@hourly"],
        "since": "2999-01-01T00:00:00Z",
    });
    let words = ["submit", "schedule", "--id", "s", "--props"];
    let props = props.to_string();
    env.run(&[&words[..], &[props.as_str()]].concat()).ok();
    let reason = "a clock that was ahead has decided the times up to 2999-01-01T00:00:00Z";
    let shown = env.run(&["schedule", "get", "s"]).ok();
    assert!(shown.out.contains(reason), "{shown:?}");
    let listed = env.run(&["schedule", "list"]).ok();
    assert!(listed.out.contains("clock"), "{listed:?}");
    let shown = env.json(&["schedule", "get", "s"]);
    assert_eq!(shown["ahead"], "2999-01-01T00:00:00Z");
}

#[test]
fn a_schedule_is_created_shown_and_changed() {
    let env = Env::new();
    let words = [&CREATE[..], &["--jitter", "10m", "--", "true", "--all"]].concat();
    let ran = env.run(&words).ok();
    assert!(ran.out.starts_with("nightly: created; next at "), "{ran:?}");
    assert!(ran.out.contains("02:30:00 +0"), "{ran:?}");
    let shown = env.json(&["schedule", "get", "nightly"]);
    assert_eq!(shown["state"], "sleeping");
    let spec = json!({
        "run": {"kind": "exec", "props": {"command": "true", "args": ["--all"]}},
        "cron": ["30 2 * * *"],
        "zone": "Europe/Berlin",
        "jitter": "10m",
        "since": shown["spec"]["since"],
    });
    assert_eq!(shown["spec"], spec);
    let ran = env.run(&["schedule", "list"]).ok();
    assert!(ran.out.contains("30 2 * * * Europe/Berlin"), "{ran:?}");

    env.run(&[
        "schedule",
        "update",
        "nightly",
        "--cron",
        "@daily",
        "--overlap",
        "allow:3",
    ])
    .ok();
    let shown = env.json(&["schedule", "get", "nightly"]);
    assert_eq!(shown["spec"]["cron"], json!(["@daily"]));
    assert_eq!(shown["spec"]["overlap"], json!({"allow": 3}));
    assert_eq!(
        shown["spec"]["zone"], "Europe/Berlin",
        "what is not given stays"
    );
    assert_eq!(shown["spec"]["run"], spec["run"]);
    // Reading, changing and writing the whole spec is the same.
    env.run_with(
        &["schedule", "update", "nightly", "--spec", "-"],
        r#"{"zone":"UTC"}"#,
    )
    .ok();
    assert!(env.json(&["schedule", "get", "nightly"])["spec"]["zone"].is_null());
    env.run(&["schedule", "delete", "nightly"]).ok();
    env.run(&["schedule", "get", "nightly"])
        .fails(3, &["'nightly' does not exist"]);
}

#[test]
fn runs_are_triggered_skipped_and_backfilled() {
    let env = Env::new();
    create(&env, &[]);
    let run = env.json(&["schedule", "trigger", "nightly"])["runs"][0].clone();
    let task = env.json(&["get", run.as_str().unwrap()]);
    let task = task.get("task").unwrap_or(&task).clone();
    assert_eq!(
        task["labels"],
        json!({"schedule": "nightly", "schedule-by": "trigger"})
    );
    let next = env.json(&["schedule", "preview", "nightly", "-n", "2"]);
    env.run(&["schedule", "skip", "nightly"]).ok();
    let after = env.json(&["schedule", "preview", "nightly", "-n", "1"]);
    assert_eq!(after[0], next[1]);
    let range = [
        "schedule",
        "backfill",
        "nightly",
        "--from",
        "2024-03-30T00:00:00Z",
        "--to",
        "2024-04-01T00:00:00Z",
    ];
    let dry = env.json(&[&range[..], &["--dry-run"]].concat());
    let runs = json!([
        "nightly@2024-03-30T01:30:00Z",
        "nightly@2024-03-31T01:00:00Z"
    ]);
    assert_eq!(
        (&dry["action"], &dry["runs"]),
        (&json!("would backfill"), &runs)
    );
    assert_eq!(env.json(&range)["runs"], runs);
    assert_eq!(env.json(&range)["runs"], json!([]), "they are there");
    let listed = env
        .run(&["list", "--label", "schedule=nightly", "-o", "json"])
        .ok();
    assert_eq!(listed.lines().len(), 3);
    assert_eq!(
        env.json(&["schedule", "get", "nightly"])["counts"]["requested"],
        3
    );
}

#[test]
fn each_wrong_field_of_a_schedule_is_named() {
    let env = Env::new();
    for (options, says) in [
        (
            &["--cron", "0 0 30 2 *"][..],
            "cron: '0 0 30 2 *' never comes",
        ),
        (
            &["--cron", "nonsense"],
            "cron: 'nonsense' is not a cron expression",
        ),
        (
            &["--cron", "@daily", "--zone", "Mars/Base"],
            "zone: 'Mars/Base' is not a time zone",
        ),
        (
            &[
                "--cron",
                "@daily",
                "--start",
                "2031-01-01T00:00:00Z",
                "--end",
                "2030-01-01T00:00:00Z",
            ],
            "end: 2030-01-01T00:00:00Z is before the start",
        ),
        (
            &["--every", "1h", "--jitter", "2h"],
            "jitter: 2h is longer than",
        ),
        (&["--cron", "@daily", "--offset", "-5m"], "offset: "),
        (
            &["--cron", "@daily", "--overlap", "never"],
            "overlap: 'never' is not one of",
        ),
        (
            &["--cron", "@daily", "--overlap", "allow:0"],
            "overlap: 'allow' takes 1 to 1000 runs, not 0",
        ),
        (&["--cron", "@daily", "--every", "0s"], "every: "),
        (
            &["--at", "2020-01-01T00:00:00Z"],
            "schedule: fires at no time",
        ),
        (&[], "schedule: has no times"),
        (
            &["--cron", "@daily", "--count", "0"],
            "count: 0 submits no run",
        ),
        (
            &["--cron", "@daily", "--label", "schedule=x"],
            "run.labels: 'schedule'",
        ),
        (
            &["--spec", "{\"corn\":1}"],
            "schedule: 'corn' is not a field; write 'cron'",
        ),
        (
            &["--spec", "{\"cron\":5}"],
            "schedule: cron: is 5, not an array",
        ),
        (
            &["--spec", "{\"cron\":[5]}"],
            "schedule: cron[0]: is 5, not text in quotes",
        ),
        (
            &["--spec", "{\"count\":-1}"],
            "schedule: count: is -1, not a whole number, 0 or more",
        ),
        (
            &["--spec", "{\"overlap\":\"never\"}"],
            "schedule: overlap: 'never' is not one of skip",
        ),
        (
            &["--spec", "{\"every\":[\"1h\"]}"],
            "schedule: every[0]: is \"1h\", not an object",
        ),
        (&["--spec", "[]"], "spec: is an array, not "),
    ] {
        let words = [&["schedule", "create", "s"][..], options, &["--", "true"]].concat();
        env.run(&words).fails(2, &[says]);
    }
    let no_command = ["schedule", "create", "s", "--cron", "@daily"];
    env.run(&no_command).fails(2, &["run.kind: is missing"]);
    let bad_props = [
        "schedule", "create", "s", "--cron", "@daily", "--kind", "exec", "--props", "{}",
    ];
    env.run(&bad_props).fails(2, &["props"]);
    create(&env, &[]);
    env.run(&CREATE[..]).code(2);
    env.run(&[&CREATE[..], &["--", "true"]].concat())
        .fails(1, &["exists already"]);
    env.run(&["schedule", "resume", "nightly"])
        .fails(1, &["state: of 'nightly' is sleeping"]);
    env.run(&["schedule", "skip", "nightly", "2030-01-01T00:00:00Z"])
        .fails(2, &["time: 2030-01-01"]);
    env.run(&["submit", "k", "--id", "task"]).ok();
    env.run(&["schedule", "get", "task"])
        .fails(2, &["id: 'task' is a task of kind 'k'"]);
}

/// From its creation to the output of a run.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_submits_the_run_and_a_worker_runs_its_command_with_the_time() {
    let env = Env::new();
    let words = [
        "schedule",
        "create",
        "tick",
        "--every",
        "1s",
        "--count",
        "1",
        "--",
        "sh",
        "-c",
        "echo for $WINDLASS_SCHEDULED_FOR",
    ];
    env.run(&words).ok();
    let node = env.node("n1").await;
    let store = Store::open(&env.url()).await.unwrap();
    let end = Client::new(&store).wait("tick").await.unwrap();
    assert!(end.result_json().unwrap().as_str().contains(r#""fired":1"#));
    // The run so far counts.
    let left = env.json(&["schedule", "preview", "tick", "--count", "3"]);
    assert_eq!(left.as_array().unwrap().len(), 2);
    node.shutdown().await;
    env.run(&["worker", "--until-idle"]).ok();
    let listed = ["list", "--label", "schedule=tick", "-o", "json"];
    let listed = env.run(&listed).ok().lines();
    let id = listed[0]["id"].as_str().unwrap();
    let time = id.strip_prefix("tick@").unwrap();
    let output = listed[0]["result"]["stdout"].as_str().unwrap();
    assert_eq!(output, format!("for {time}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_no_node_has_taken_is_named_and_undone() {
    let env = Env::new();
    create(&env, &[]);
    let paused = env.run(&["schedule", "pause", "nightly"]).ok();
    assert_eq!(paused.out, "nightly: pause sent; it waits for a node\n");
    assert_eq!(
        env.json(&["schedule", "get", "nightly"])["state"],
        "sleeping"
    );
    env.run(&["schedule", "resume", "nightly"]).ok();
    let node = env.node("n1").await;
    let taken = async {
        while env.json(&["get", "nightly"])["commands_waiting"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, taken).await.unwrap();
    let shown = env.json(&["schedule", "get", "nightly"]);
    node.shutdown().await;
    assert_eq!(shown["state"], "sleeping");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_run_and_the_times_without_a_run_are_shown() {
    let env = Env::new();
    let words = [
        "schedule", "create", "bad", "--every", "1s", "--count", "1", "--kind", "fail",
    ];
    env.run(&words).ok();
    assert_eq!(
        env.json(&["schedule", "get", "bad"])["last_run"],
        json!(null)
    );
    let node = env.node("n1").await;
    let store = Store::open(&env.url()).await.unwrap();
    let client = Client::new(&store);
    client.wait("bad").await.unwrap();
    let run = client.schedules().get("bad").await.unwrap();
    let run = run.last_run_id().unwrap();
    client.wait(&run).await.unwrap();
    node.shutdown().await;

    let shown = env.run(&["schedule", "get", "bad"]).ok();
    let line = format!("last run     {run} failed: out of luck\n");
    assert!(shown.out.contains(&line), "{shown:?}");
    for shown in [
        env.json(&["schedule", "get", "bad"]),
        env.json(&["schedule", "list"])[0].clone(),
    ] {
        let expected = json!({
            "id": run,
            "nominal": run.as_str().strip_prefix("bad@"),
            "state": "failed",
            "shown": "failed",
            "error": "out of luck",
        });
        assert_eq!(shown["last_run"], expected);
        assert_eq!(shown["left_out"], json!([]));
    }
    let listed = env.run(&["schedule", "list"]).ok();
    assert!(listed.out.contains("failed, "), "{listed:?}");
    env.run(&["delete", run.as_str()]).ok();
    let shown = env.json(&["schedule", "get", "bad"]);
    assert_eq!(shown["last_run"], json!(null), "its task was deleted");

    // As a later version stores it.
    let entry = |why: &str, last: &str, times: u64| json!({"first": "2030-01-01T00:00:00Z", "last": last, "times": times, "why": why});
    let data = json!({"left_out": [
        entry("missed", "2030-01-01T09:00:00Z", 10),
        entry("overlapped", "2030-01-01T00:00:00Z", 1),
        entry("moon", "2030-01-01T01:00:00Z", 2),
    ]});
    let spec = json!({"run": {"kind": "k"}, "cron": ["@hourly"]});
    let task = NewTask::new("schedule").id("later").props(&spec);
    client.submit(task).await.unwrap();
    let data = Json::new("data", &data).unwrap();
    let (transfer, id) = (store.transfer().unwrap(), "later".parse().unwrap());
    let mut exported = transfer.export(&[id]).await;
    let mut later = exported.pop().unwrap().unwrap();
    later.state.data = Some(data);
    client.delete("later").await.unwrap();
    let imported = transfer.import(vec![later]).await;
    imported.into_iter().for_each(Result::unwrap);
    let shown = env.run(&["schedule", "get", "later"]).ok();
    for says in [
        "no run       2030-01-01T00:00:00Z to 2030-01-01T09:00:00Z, 10 times: missed: no worker decided it in time\n",
        "no run       2030-01-01T00:00:00Z: overlapped: an earlier run was live, or a later time replaced it\n",
        "no run       2030-01-01T00:00:00Z, 2030-01-01T01:00:00Z: for a reason that this version does not know",
    ] {
        assert!(shown.out.contains(says), "{says} is not in {shown:?}");
    }
}
