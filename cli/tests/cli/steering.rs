//! Commands to tasks, with a node that has them and without.

use serde_json::json;

use crate::env::Env;

#[test]
fn a_command_waits_without_a_node_and_a_warning_says_so() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let ran = env.run(&["pause", "a"]).ok();
    assert_eq!(ran.out, "a: pause sent\n");
    assert!(
        ran.err
            .contains("waits: no live node handles kind 'stay'; it takes effect when one starts"),
        "{ran:?}"
    );
    env.run(&["kill", "a", "--wait", "--timeout", "100ms"])
        .code(5);
    let got = env.json(&["get", "a"]);
    assert_eq!(got["commands_waiting"], 2);
    assert_eq!(got["commands"][1]["command"], json!({"message": "kill"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_its_outcome() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let node = env.node("n1").await;
    for (words, outcome) in [
        (
            vec!["pause", "a"],
            json!({"outcome": "applied", "from": "runnable", "to": "paused"}),
        ),
        (
            vec!["checkpoint", "a"],
            json!({"outcome": "applied", "from": "paused", "to": "paused"}),
        ),
        (
            vec!["resume", "a"],
            json!({"outcome": "applied", "from": "paused", "to": "runnable"}),
        ),
        (
            vec!["sleep", "a", "--for", "1h"],
            json!({"outcome": "applied", "from": "runnable", "to": "sleeping"}),
        ),
        (
            vec!["sleep", "a", "--until", "2100-01-01T00:00:00Z"],
            json!({"outcome": "applied", "from": "sleeping", "to": "sleeping"}),
        ),
        (
            vec!["release", "a"],
            json!({"outcome": "applied", "from": "sleeping", "to": "sleeping"}),
        ),
        (
            vec!["complete", "a", "--result", "{\"n\":1}"],
            json!({"outcome": "applied", "from": "sleeping", "to": "completed"}),
        ),
    ] {
        let report = env.json(&[&words[..], &["--wait", "--timeout", "30s"]].concat());
        let task = &report["tasks"][0];
        for (name, value) in outcome.as_object().unwrap() {
            assert_eq!(&task[name], value, "{words:?}: {report}");
        }
        assert_eq!(
            (&report["action"], &report["done"]),
            (
                &json!(if words[0] == "resume" {
                    "run"
                } else {
                    words[0]
                }),
                &json!(1)
            )
        );
    }
    assert_eq!(env.json(&["get", "a"])["result"], json!({"n": 1}));
    env.run(&["kill", "a"])
        .fails(1, &["task 'a' has ended already"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_and_overridden_commands_are_a_no() {
    let env = Env::new();
    env.run(&["submit", "stubborn", "--id", "o"]).ok();
    let node = env.node("n1").await;
    env.run(&["watch", "o", "--after", "0", "--limit", "2"])
        .ok();
    let ran = env.run(&["pause", "o", "--wait"]).code(1);
    assert_eq!(
        ran.out,
        "o: pause: overridden (the handler returned complete)\n"
    );
    node.shutdown().await;

    // A second command after one that ends the task is rejected by that end.
    env.run(&["submit", "stay", "--id", "r"]).ok();
    env.run(&["kill", "r"]).ok();
    let waiter = std::thread::spawn({
        let mut command = env.command();
        command.args(["pause", "r", "--wait", "--timeout", "30s"]);
        move || command.output().unwrap()
    });
    env.run(&["watch", "r", "--after", "0", "--limit", "3"])
        .ok();
    let node = env.node("n2").await;
    let output = tokio::task::spawn_blocking(move || waiter.join().unwrap())
        .await
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.starts_with("r: pause: rejected: "), "{out}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ids_are_answered_one_by_one() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    env.run(&["submit", "stay", "--id", "b"]).ok();
    let node = env.node("n1").await;
    let ran = env
        .run(&["kill", "a", "nope", "b", "a", "--wait", "-o", "json"])
        .code(1);
    let report = &ran.lines()[0];
    assert_eq!((&report["done"], &report["failed"]), (&json!(2), &json!(1)));
    assert_eq!(report["tasks"].as_array().unwrap().len(), 3);
    assert!(
        report["tasks"][1]["error"]
            .as_str()
            .unwrap()
            .contains("'nope' does not exist")
    );
    env.run(&["kill", "nope"])
        .fails(3, &["task 'nope' does not exist"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_starts_again_and_delete_ends_everything() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "fail", "--id", "f", "--wait"]).code(1);
    assert_eq!(env.run(&["retry", "f"]).ok().out, "f: started again\n");
    env.run(&["watch", "f", "--until-ended", "--timeout", "30s"])
        .code(1);
    let got = env.json(&["get", "f"]);
    assert_eq!(
        (&got["incarnation"], &got["errors_total"]),
        (&json!(1), &json!(2))
    );
    env.run(&["submit", "stay", "--id", "s"]).ok();
    env.run(&["retry", "s"]).fails(1, &["state"]);
    assert_eq!(
        env.run(&["delete", "f", "s", "--force"]).ok().out,
        "2 tasks: deleted\n"
    );
    env.run(&["get", "s"]).fails(3, &["'s' does not exist"]);
    env.run(&["delete", "s"]).fails(3, &[]);
    node.shutdown().await;
}
