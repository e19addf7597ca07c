//! `reschedule`, a retry with other props, and the deletion of a claimed task.

use serde_json::json;

use crate::env::Env;

#[test]
fn a_task_moves_to_another_kind_and_a_prefix_lists_it() {
    let env = Env::new();
    for (id, kind) in [("a", "inbox"), ("b", "inbox"), ("c", "inbox/err")] {
        env.run(&["submit", kind, "--id", id]).ok();
    }
    let ran = env.run(&[
        "reschedule",
        "a",
        "--to-kind",
        "inbox/err",
        "--priority",
        "3",
    ]);
    assert_eq!(ran.ok().out, "a: rescheduled\n");
    let got = env.json(&["get", "a"]);
    assert_eq!(
        (&got["kind"], &got["priority"], &got["version"]),
        (&json!("inbox/err"), &json!(3), &json!(1))
    );
    let history = env.run(&["get", "a", "--history"]).ok();
    assert!(
        history
            .out
            .contains("runnable → runnable by a reschedule, now of kind inbox/err"),
        "{history:?}"
    );
    let ids = |kind: &str| {
        let listed = env.run(&["list", "--kind", kind, "-o", "json"]).ok();
        let ids = listed.lines().into_iter().map(|one| one["id"].clone());
        let mut ids: Vec<String> = ids
            .map(|id| id.as_str().unwrap_or_default().to_owned())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids("inbox/*"), ["a", "c"]);
    assert_eq!(ids("inbox*"), ["a", "b", "c"]);
    assert_eq!(ids("inbox"), ["b"]);
    let words = [
        "reschedule",
        "--kind",
        "inbox/*",
        "--to-kind",
        "inbox",
        "--yes",
    ];
    assert_eq!(env.run(&words).ok().out, "2 tasks: rescheduled\n");
    assert_eq!(ids("inbox"), ["a", "b", "c"]);
}

#[test]
fn a_reschedule_that_is_refused_says_why() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.run(&["reschedule", "a"]).code(2);
    env.run(&["reschedule", "a", "--to-kind", "x//y"])
        .fails(2, &["'x//y' has an empty part"]);
    env.run(&["reschedule", "nil", "--priority", "1"])
        .fails(3, &["task 'nil' does not exist"]);
    env.run(&["reschedule", "a", "--to-kind", "schedule"])
        .fails(2, &["kind: is that of schedules"]);
    let words = [
        "reschedule",
        "a",
        "--props",
        "[1]",
        "--data",
        "7",
        "--in",
        "1h",
    ];
    env.run(&words).ok();
    let got = env.json(&["get", "a"]);
    assert_eq!((&got["props"], &got["data"]), (&json!([1]), &json!(7)));
    assert_eq!(got["state"], "sleeping");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_task_is_deleted_by_force_and_an_ended_one_gets_other_props() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "fail", "--id", "f", "--wait"]).code(1);
    let words = ["retry", "f", "--props", "{\"month\":5}"];
    assert_eq!(env.run(&words).ok().out, "f: started again\n");
    assert_eq!(env.json(&["get", "f"])["props"], json!({"month": 5}));
    env.run(&["submit", "stay", "--id", "s"]).ok();
    while env.run(&["list", "--claimed"]).ok().out.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    env.run(&["delete", "s"])
        .fails(1, &["task 's' is claimed by a node", "--force"]);
    env.run(&["reschedule", "s", "--priority", "1"])
        .fails(1, &["task 's' is claimed by a node"]);
    assert_eq!(
        env.run(&["delete", "s", "--force"]).ok().out,
        "s: deleted\n"
    );
    node.shutdown().await;
}

#[test]
fn guards_alone_are_a_transaction() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let guard =
        |state: &str| format!("{{\"op\":\"require\",\"task\":\"a\",\"state\":\"{state}\"}}");
    let holds = env.write("holds.jsonl", &guard("runnable"));
    assert_eq!(env.run(&["apply", &holds]).ok().out, "every guard holds\n");
    let fails = env.write("fails.jsonl", &guard("paused"));
    env.run(&["apply", &fails])
        .fails(1, &["line 1: task 'a' is runnable; it must be paused"]);
    let swap = env.write(
        "swap.jsonl",
        "{\"op\":\"require\",\"task\":\"a\",\"no_data\":true}\n{\"op\":\"reschedule\",\"task\":\"a\",\"data\":7.0}\n",
    );
    env.run(&["apply", &swap]).ok();
    env.run(&["apply", &swap])
        .fails(1, &["line 1: task 'a' has other data than required"]);
}

/// Regression: a schedule got another time or spec, and fired nothing more.
#[test]
fn a_schedule_is_not_rescheduled() {
    let env = Env::new();
    env.run(&["schedule", "create", "s", "--every", "1h", "--", "true"])
        .ok();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let before = env.json(&["get", "s"]);
    for change in [&["--in", "1h"][..], &["--props", "{}"], &["--data", "{}"]] {
        env.run(&[&["reschedule", "s"], change].concat())
            .fails(2, &["'s' is a schedule", "windlass schedule update s"]);
    }
    env.run(&["reschedule", "--all", "--priority", "3", "--yes"])
        .ok();
    assert_eq!(env.json(&["get", "s"]), before);
    assert_eq!(env.json(&["get", "a"])["priority"], 3);
}

/// Regression: the new time ended the waits of tasks that a filter selected, and failed them.
#[test]
fn filters_give_no_time_to_tasks_that_wait_for_others() {
    let env = Env::new();
    for words in [
        &["submit", "k", "--id", "a"][..],
        &[
            "submit",
            "k",
            "--id",
            "waits",
            "--after-ok",
            "a",
            "--label",
            "x=1",
        ],
        &[
            "submit", "k", "--id", "sleeps", "--in", "1h", "--label", "x=1",
        ],
    ] {
        env.run(words).ok();
    }
    env.run(&["reschedule", "--label", "x=1", "--in", "0s", "--yes"])
        .ok();
    assert_eq!(
        env.json(&["get", "waits"])["until"],
        serde_json::Value::Null
    );
    assert_eq!(env.json(&["get", "sleeps"])["state"], "runnable");
    let named = env.run(&["reschedule", "waits", "--in", "1h"]).ok();
    assert!(
        named.err.contains("its wait ends at the new time"),
        "{named:?}"
    );
}

/// Regression: props that a submit refuses were taken, and the run failed.
#[test]
fn the_props_of_a_command_are_checked() {
    let env = Env::new();
    env.run(&["submit", "--id", "a", "--in", "1h", "--", "true"])
        .ok();
    env.run(&["submit", "k", "--id", "b"]).ok();
    for words in [
        &["reschedule", "a", "--props", r#"{"comand":"x"}"#][..],
        &["reschedule", "b", "--to-kind", "exec"],
    ] {
        env.run(words).fails(2, &["props: "]);
    }
    env.run(&["kill", "a"]).ok();
    env.run(&["worker", "--until-idle"]).ok();
    env.run(&["retry", "a", "--props", r#"{"comand":"x"}"#])
        .fails(2, &["'comand' is not a field"]);
}

/// Regression: a kind that ends with a star could not be named alone.
#[test]
fn a_kind_does_not_end_with_a_star() {
    let env = Env::new();
    env.run(&["submit", "a*"]).fails(2, &["'a*' ends with '*'"]);
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.run(&["reschedule", "a", "--to-kind", "inbox/*"])
        .fails(2, &["'inbox/*' ends with '*'"]);
}

/// `apply` took a time, data and props for a schedule, and props that no command can have.
#[test]
fn a_transaction_follows_the_rules_of_a_reschedule() {
    let env = Env::new();
    env.run(&["schedule", "create", "s", "--every", "1h", "--kind", "k"])
        .ok();
    env.run(&["submit", "--id", "c", "--", "true"]).ok();
    let apply = |line: &str| env.run(&["apply", &env.write("lines.jsonl", line)]);
    for (field, value) in [("due", "\"in 1h\""), ("data", "7"), ("props", "7")] {
        let line = format!("{{\"op\":\"reschedule\",\"task\":\"s\",\"{field}\":{value}}}");
        apply(&line).fails(1, &[field, "windlass schedule update s", "line 1"]);
    }
    apply("{\"op\":\"reschedule\",\"task\":\"c\",\"props\":{\"command\":7}}").fails(
        2,
        &["line 1: props", "1 line is wrong; nothing was changed"],
    );
    apply("{\"op\":\"reschedule\",\"task\":\"c\",\"props\":{\"command\":\"ls\"}}").ok();
    env.run(&["submit", "k", "--id", "k"]).ok();
    apply("{\"op\":\"reschedule\",\"task\":\"k\",\"kind\":\"exec\"}").fails(2, &["line 1: props"]);
    // Its own operations still change a schedule.
    env.run(&["schedule", "update", "s", "--every", "2h"]).ok();
}

/// A generator that writes null for each absent field erased the data and the props.
#[test]
fn a_null_of_a_line_changes_nothing() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--props", "1"]).ok();
    env.run(&["reschedule", "a", "--data", "2"]).ok();
    let apply = |line: &str| env.run(&["apply", &env.write("lines.jsonl", line)]);
    apply("{\"op\":\"reschedule\",\"task\":\"a\",\"priority\":3,\"data\":null,\"props\":null}")
        .ok();
    let got = env.json(&["get", "a"]);
    assert_eq!((&got["props"], &got["data"]), (&json!(1), &json!(2)));
    apply("{\"op\":\"reschedule\",\"task\":\"a\",\"no_data\":true,\"no_props\":true}").ok();
    let got = env.json(&["get", "a"]);
    assert!(got["props"].is_null() && got["data"].is_null(), "{got}");
    apply("{\"op\":\"require\",\"task\":\"a\",\"no_data\":true}").ok();
    env.run(&["reschedule", "a", "--data", "2"]).ok();
    env.run(&["reschedule", "a", "--data", "null"]).ok();
    apply("{\"op\":\"require\",\"task\":\"a\",\"no_data\":true}").ok();
}

#[test]
fn errors_of_changes_say_what_to_do() {
    let env = Env::new();
    env.run(&[
        "submit",
        "k",
        "--id",
        "a",
        "--start-by",
        "2030-01-01T00:00:00Z",
    ])
    .ok();
    env.run(&["reschedule", "a", "--at", "2030-01-02T00:00:00Z"])
        .fails(2, &["is after start_by 2030-01-01T00:00:00Z"]);
    env.run(&["reschedule", "a", "--in", "-5m"])
        .fails(2, &["'-5m' is negative"]);
    env.run(&["submit", "k", "--id", "a", "--replace"])
        .fails(1, &["--replace takes only the id of a task that has ended"]);
    let apply = |line: &str| env.run(&["apply", &env.write("lines.jsonl", line)]);
    apply("{\"op\":\"submit\",\"id\":\"b\",\"kind\":\"k\",\"in\":\"5m\"}")
        .fails(2, &["'in' is not a field; write \"start_at\":\"in 5m\""]);
    apply("{\"op\":\"reschedule\",\"task\":\"a\",\"in\":\"5m\"}")
        .fails(2, &["write \"due\":\"in 5m\""]);
    let twice =
        apply("{\"op\":\"require\",\"task\":\"x\",\"state\":\"paused\",\"kind\":\"z\"}").code(1);
    assert_eq!(twice.err.matches("line 1:").count(), 1, "{}", twice.err);
    env.run(&["submit", "k", "--retry", "3,cap=0s"])
        .fails(2, &["leaves no wait between attempts"]);
    env.run(&["submit", "k", "--label", "team=a\u{202e}b"])
        .fails(2, &["is not printable text"]);
    // Regression: exit code 2, of wrong usage. The output cannot be written.
    for command in ["export", "backup"] {
        env.run(&[command, &env.path("nowhere/x")])
            .fails(4, &["there is no folder"]);
    }
}
