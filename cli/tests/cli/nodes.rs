//! `nodes` and `node`.

use std::time::Duration;

use serde_json::json;
use windlass::{
    Runner, TaskContext,
    store::{NewWorker, NodeSpec, RemoteWorker, Store},
};

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed_and_steered() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let none = env.run(&["nodes"]).ok();
    assert!(none.err.contains("no node lives"), "{none:?}");
    let node = env.node("n1").await;
    env.run(&["watch", "a", "--after", "0", "--limit", "2"])
        .ok();
    assert!(env.run(&["nodes"]).ok().out.contains("n1"));
    let nodes = env.json(&["nodes"]);
    assert_eq!(
        (&nodes[0]["name"], &nodes[0]["claims"]),
        (&json!("n1"), &json!(1))
    );
    for (command, answer) in [
        (vec!["freeze", "n1"], "frozen"),
        (vec!["unfreeze", "n1"], "unfrozen"),
        (vec!["stop-task", "n1", "a"], "released"),
        (vec!["drain", "n1"], "drained"),
        (vec!["balance", "n1"], "balanced: 0 tasks released"),
    ] {
        let words = [&["node"], &command[..], &["--wait", "--timeout", "30s"]].concat();
        let answered = env.json(&words);
        assert_eq!(
            (&answered["action"], &answered["answer"]),
            (&json!(command[0]), &json!(answer))
        );
    }
    assert_eq!(
        env.run(&["node", "stop-task", "n1", "a"]).ok().out,
        "n1: stop-task: sent\n",
        "it was released above"
    );
    let sent = env.run(&["node", "stop-task", "n1", "zzz"]).ok();
    assert!(
        sent.err
            .contains("note: there is no task 'zzz'; node 'n1' has nothing to release"),
        "{sent:?}"
    );
    assert_eq!(sent.out, "n1: stop-task: sent\n");
    let ran = env
        .run(&["node", "stop-task", "n1", "zzz", "--wait"])
        .code(1);
    assert_eq!(ran.out, "n1: stop-task: the task is not on this node\n");
    assert_eq!(
        env.run(&["node", "unfreeze", "n1"]).ok().out,
        "n1: unfreeze: sent\n"
    );
    env.run(&["node", "freeze", "n2"])
        .fails(3, &["node 'n2' does not exist", "windlass nodes"]);
    node.shutdown().await;
    assert_eq!(env.json(&["nodes"]), json!([]));
}

/// The table says which client library a remote worker has, and on which machine it runs.
#[tokio::test(flavor = "multi_thread")]
async fn remote_workers_are_listed_with_their_library_and_machine() {
    let env = Env::new();
    let node = env.node("n1").await;
    let store = Store::open(&env.url()).await.unwrap();
    for (name, host, sdk) in [("w1", "rack-7", "windlass-python/0.1.0"), ("w2", "", "")] {
        let mut spec = NodeSpec::new(name.parse().unwrap());
        spec.worker = Some(RemoteWorker::new(host, sdk));
        let new = NewWorker::new(spec, "hash", Duration::from_secs(60));
        store.coordinator().join_worker(&new).await.unwrap();
    }
    let table = env.run(&["nodes"]).ok().out;
    let line = |name: &str| {
        let mut lines = table.lines();
        let found = lines.find(|line| line.split_whitespace().next() == Some(name));
        found
            .unwrap_or_else(|| panic!("{name}: {table}"))
            .to_owned()
    };
    assert!(
        line("NODE").contains("SDK") && line("NODE").contains("HOST"),
        "{table}"
    );
    assert!(
        line("w1").contains("windlass-python/0.1.0") && line("w1").contains("rack-7"),
        "{table}"
    );
    for name in ["w2", "n1"] {
        assert_eq!(
            line(name)
                .split_whitespace()
                .filter(|word| *word == "-")
                .count(),
            2,
            "{table}"
        );
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_ahead_is_named() {
    let env = Env::new();
    let node = env.node("n1").await;
    assert!(!env.run(&["nodes"]).ok().out.contains("future"));
    // Times are stored in microseconds.
    env.sql("UPDATE windlass_leases SET joined_at = joined_at + 90 * 1000000");
    let listed = env.run(&["nodes"]).ok().out;
    let said = listed.lines().find(|line| line.contains("future"));
    let said = said.unwrap_or_else(|| panic!("{listed}"));
    assert!(said.starts_with("n1 joined 1m"), "{said}");
    assert!(said.ends_with("start its nodes again"), "{said}");
    node.shutdown().await;
}

/// A missing node is only a warning: the results are printed even when the nodes cannot be read. Without
/// the ids a script would submit again.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_printed_though_the_nodes_cannot_be_read() {
    let env = Env::new();
    let node = env.node("n1").await;
    // One damaged record does not hide other nodes.
    env.sql("UPDATE windlass_leases SET spec = 'spoiled', status = 'spoiled'");
    assert_eq!(env.json(&["nodes"])[0]["name"], "n1");
    env.sql("ALTER TABLE windlass_leases RENAME COLUMN spec TO moved");
    env.run(&["nodes"]).code(4);
    let submitted = env.json(&["submit", "k"]);
    assert_eq!(submitted["submitted"], "new");
    let id = submitted["id"].as_str().unwrap();
    let lines = env.write("lines", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    let report = env.json(&["submit", "k", "--lines", &lines]);
    assert_eq!(report["ids"], json!(["a", "b"]));
    for words in [&["pause", id][..], &["kill", "a", "b"]] {
        let report = env.json(words);
        assert_eq!(report["done"], words.len() - 1);
        let tasks = report["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), words.len() - 1);
        for task in tasks {
            assert!(task["command_id"].is_string(), "{report}");
        }
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_names_the_full_nodes_or_the_labels_that_it_waits_for() {
    let env = Env::new();
    let store = Store::open(&env.url()).await.unwrap();
    let stay = |task: TaskContext| async move { task.stop_requested().await.message() };
    let full = Runner::builder(&store).node("full").slots(1);
    let full = full.handler("stay", stay).start().await.unwrap();
    let picky = Runner::builder(&store).node("picky").select("team", "b");
    let picky = picky.handler("other", stay).start().await.unwrap();
    env.run(&["submit", "stay", "--id", "first"]).ok();
    while env.json(&["get", "first"])["node"].is_null() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The time of the claim, not the time from which it could run.
    assert!(env.json(&["get", "first"])["claimed_at"].is_string());
    let shown = env.run(&["get", "first"]).ok().out;
    let node = shown
        .lines()
        .find(|line| line.starts_with("node "))
        .unwrap();
    assert!(node.contains(", for "), "{shown}");
    env.run(&["submit", "stay", "--id", "second"]).ok();
    // Before the node reports that its handler runs.
    let says = "the nodes of its kind have no free slot: full";
    while env.json(&["get", "second"])["waits"] != says {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let submit = ["submit", "other", "--id", "third", "--label", "team=a"];
    let wait = ["--wait", "--timeout", "200ms"];
    let submitted = env.run(&[&submit[..], &wait].concat()).code(5);
    let labels = "no live node of its kind takes tasks with its labels: start one that does (picky takes team=b)";
    assert!(submitted.err.contains(labels), "{submitted:?}");
    let listed = env.run(&["list"]).ok();
    for says in [says, labels] {
        assert!(listed.out.contains(says), "{listed:?}");
    }
    full.shutdown().await;
    picky.shutdown().await;
}

/// Regression: a task that was claimed again seconds ago was shown as running since its submit.
#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_task_runs_since_its_claim() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "first"]).ok();
    let since = || {
        let listed = env.run(&["list"]).ok().out;
        let row = listed.lines().find(|line| line.starts_with("first "));
        let words = row.and_then(|row| row.split_whitespace().nth(3));
        words.unwrap_or_else(|| panic!("{listed}")).to_owned()
    };
    let store = rusqlite::Connection::open(env.path("store.db")).unwrap();
    let old =
        "UPDATE windlass_states SET state = json_set(state, '$.since', '2020-01-01T00:00:00Z')";
    assert_eq!(store.execute(old, ()).unwrap(), 1);
    drop(store);
    assert!(since().ends_with('d'), "it waits for years");
    let node = env.node("n1").await;
    while env.json(&["get", "first"])["node"].is_null() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(since().ends_with('s'), "it has run for seconds");
    node.shutdown().await;
}
