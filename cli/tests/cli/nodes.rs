//! `nodes` and `node`.

use serde_json::json;

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
        (vec!["balance", "n1"], "balanced: 0 tasks given back"),
    ] {
        let words = [&["node"], &command[..], &["--wait", "--timeout", "30s"]].concat();
        let told = env.json(&words);
        assert_eq!(
            (&told["action"], &told["answer"]),
            (&json!(command[0]), &json!(answer))
        );
    }
    let told = env
        .run(&["node", "stop-task", "n1", "zzz", "--wait"])
        .code(1);
    assert_eq!(told.out, "n1: stop-task: the task is not on this node\n");
    assert_eq!(
        env.run(&["node", "unfreeze", "n1"]).ok().out,
        "n1: unfreeze: sent\n"
    );
    env.run(&["node", "freeze", "n2"])
        .fails(3, &["node 'n2' does not exist", "windlass nodes"]);
    node.shutdown().await;
    assert_eq!(env.json(&["nodes"]), json!([]));
}
