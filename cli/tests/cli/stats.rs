//! `windlass stats`: the numbers of tasks, and the limits in use.

use serde_json::json;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn stats_show_the_limits_in_use() {
    let env = Env::new();
    let node = env.node("n1").await;
    assert_eq!(env.json(&["stats"])["limits"], json!([]));
    let limits = ["--at-once", "customer=acme=1", "--rate", "api=9/1h"];
    for id in ["a", "b"] {
        let submit = ["submit", "stay", "--id", id];
        env.run(&[&submit[..], &limits].concat()).ok();
    }
    let expected = json!([
        {
            "key": "api",
            "form": "starts",
            "limit": {"key": "api", "starts": 9, "within": "1h"},
            "within": "1h",
            "taken": 1,
            "waiting": 0,
        },
        {
            "key": "customer=acme",
            "form": "at_once",
            "limit": {"key": "customer=acme", "at_once": 1},
            "taken": 1,
            "waiting": 1,
        },
    ]);
    let began = std::time::Instant::now();
    loop {
        let shown = env.json(&["stats"])["limits"].take();
        if shown == expected {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{shown}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let kind = env.json(&["stats"])["kinds"][0].take();
    let counts = ["available", "claimed", "future", "ended"].map(|name| kind[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(0), Some(0)], "{kind}");
    let held_back = &kind["held_back"][0];
    assert_eq!(
        (&held_back["reason"], &held_back["tasks"]),
        (&json!("limit"), &json!(1)),
        "{kind}"
    );
    let table = env.run(&["stats"]).ok().out;
    for line in [
        "LIMIT          ALLOWS     TAKEN  WAITING",
        "customer=acme  1 at once  1      1",
        "stay not run:",
        "  1: it waits for the limit 'customer=acme' (1 at once)",
    ] {
        assert!(table.contains(line), "{line} is not in {table}");
    }
    assert!(table.contains("9 in 1h"), "{table}");
    node.shutdown().await;
}

#[test]
fn stats_show_what_can_run_and_what_holds_the_rest_back() {
    let env = Env::new();
    for args in [
        &["report", "--id", "a"][..],
        &["report", "--id", "b"],
        &["report", "--in", "1h"],
        &["report", "--after", "a"],
        &["--shell", "true"],
    ] {
        env.run(&[&["submit"][..], args].concat()).ok();
    }
    let stats = env.json(&["stats", "--kind", "rep*"]);
    assert_eq!(
        (&stats["tasks"], &stats["counts"][0]["kind"]),
        (&json!(4), &json!("report"))
    );
    let [kind] = stats["kinds"].as_array().unwrap().as_slice() else {
        panic!("{stats}");
    };
    for (name, expected) in [
        ("available", 2),
        ("future", 1),
        ("waiting", 1),
        ("paused", 0),
        ("claimed", 0),
        ("ended", 0),
        ("quarantined", 0),
    ] {
        assert_eq!(kind[name], expected, "{name}: {kind}");
    }
    assert!(
        kind["oldest_due"].is_string() && kind["oldest_due_age_seconds"].is_u64(),
        "{kind}"
    );
    let held_back = kind["held_back"].as_array().unwrap();
    let reasons: Vec<_> = held_back
        .iter()
        .map(|h| (h["reason"].as_str(), h["tasks"].as_u64()))
        .collect();
    assert_eq!(
        reasons,
        [(Some("no_node"), Some(2)), (Some("tasks"), Some(1))]
    );
    assert!(
        held_back
            .iter()
            .all(|h| h["remedy"].as_str().unwrap().starts_with("windlass "))
    );
    let table = env.run(&["stats"]).ok().out;
    for line in [
        "KIND    AVAILABLE  FUTURE  WAITING  PAUSED  CLAIMED  DUE FOR",
        "report  2          1       1        0       0",
        "exec not run:",
        "  1: no live node handles its kind",
        "     try: windlass worker",
        "report not run:",
        "  1: it waits for other tasks",
    ] {
        assert!(table.contains(line), "{line} is not in {table}");
    }
    let none = env.run(&["stats", "--kind", "nothing"]).ok();
    assert!(
        none.err.contains("no tasks of the kind 'nothing'"),
        "{}",
        none.err
    );
}
