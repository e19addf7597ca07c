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
