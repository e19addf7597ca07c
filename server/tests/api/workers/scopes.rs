//! Which tasks a worker may get, and what its handlers may change: the scope of its token.

use serde_json::json;
use windlass::{NewTask, StateKind};
use windlass_server::{NewToken, Role, Scope};

use super::{Worker, registered, returned};
use crate::kit::Kit;

#[tokio::test]
async fn only_workers_and_admins_send_the_requests_of_workers() {
    let kit = Kit::new().await;
    let body = json!({"name": "w1", "secret": super::SECRET, "kinds": {"k": {"slots": 1}}, "seq": 1, "items": []});
    for role in [Role::Read, Role::Operate] {
        let token = kit.token(role.as_str(), role, &[]).await;
        for path in ["", "/w1/exchange", "/w1/report", "/w1/waited", "/w1/leave"] {
            let line = format!("POST /v1/workers{path}");
            let refused = kit.call_as(&token, &line, body.to_string()).await;
            assert_eq!(refused.problem(403), "forbidden", "{role} {line}");
            assert!(
                refused.text.contains("needs the role work"),
                "{}",
                refused.text
            );
        }
    }
    let work = kit.token("work", Role::Work, &[]).await;
    for token in [&work, &kit.admin] {
        let line = "POST /v1/workers";
        let answer = kit.call_as(token, line, body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    for line in [
        "GET /v1",
        "GET /v1/tasks",
        "GET /v1/changes",
        "GET /v1/time",
        "GET /v1/servers",
        "GET /metrics",
        "POST /v1/tasks",
        "GET /v1/tokens",
    ] {
        let refused = kit.call_as(&work, line, "").await;
        assert_eq!(refused.problem(403), "forbidden", "{line}");
    }
}

#[tokio::test]
async fn a_work_token_has_no_quota_and_opens_no_session() {
    let kit = Kit::new().await;
    let scope = Scope::new(["k".to_owned()], []).unwrap();
    let new = NewToken::new("q", Role::Work).scope(scope).max_tasks(1);
    let refused = kit.tokens.make(new, None).await.unwrap_err();
    assert!(refused.to_string().contains("max_tasks"), "{refused}");
    let sessions = windlass_server::Sessions::new(&kit.store);
    let link = sessions.link("ann".parse().unwrap(), Role::Work).await;
    assert!(link.unwrap_err().to_string().contains("role"));
}

#[tokio::test]
async fn a_worker_registers_for_kinds_and_labels_of_its_token_only() {
    let kit = Kit::new().await;
    let token = kit.token("w", Role::Work, &["mail", "box/*"]).await;
    let worker = Worker::new(&token, "w1");
    let refused = worker.register(&kit, &["mail", "pay"], json!({})).await;
    assert_eq!(refused.problem(403), "forbidden");
    assert!(refused.text.contains("'pay'"), "{}", refused.text);
    let fits = worker.register(&kit, &["mail", "box/in"], json!({})).await;
    assert_eq!(fits.status, 200, "{}", fits.text);

    let scope = Scope::new([], [("team".to_owned(), "x".to_owned())]).unwrap();
    let new = NewToken::new("x", Role::Work).scope(scope);
    let token = kit.tokens.make(new, None).await.unwrap().1;
    let mut worker = Worker::new(&token, "w2");
    for labels in [json!({}), json!({"team": "y"}), json!({"other": "x"})] {
        let refused = worker.register(&kit, &["k"], labels).await;
        assert_eq!(refused.problem(403), "forbidden");
        assert!(refused.text.contains("team=x"), "{}", refused.text);
    }
    let labels = json!({"team": "x", "size": "big"});
    let fits = worker.register(&kit, &["k"], labels).await;
    assert_eq!(fits.status, 200, "{}", fits.text);
    for (id, team, size) in [
        ("y", "y", "big"),
        ("small", "x", "small"),
        ("fits", "x", "big"),
    ] {
        let task = NewTask::new("k").id(id).label("team", team);
        kit.client.submit(task.label("size", size)).await.unwrap();
    }
    let run = worker.claim(&kit).await;
    assert_eq!(run["id"], "fits");
    let none = worker.exchange(&kit, 0).await.json();
    assert!(none["claims"].is_null(), "{none}");
}

/// A worker that registered with one token shows another one: it gets no task outside of the scope of that.
#[tokio::test]
async fn no_answer_shows_a_worker_a_task_outside_of_the_scope_of_its_token() {
    let kit = Kit::new().await;
    let all = kit.token("all", Role::Work, &[]).await;
    let mail = kit.token("mail", Role::Work, &["mail"]).await;
    let mut worker = Worker::new(&all, "w1");
    let answer = worker.register(&kit, &["mail", "pay"], json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    kit.client
        .submit(NewTask::new("pay").id("p").props(&json!("S3CRET")))
        .await
        .unwrap();
    worker.token = mail;
    let refused = async {
        loop {
            let answer = worker.exchange(&kit, 5_000).await;
            assert!(!answer.text.contains("S3CRET"), "{}", answer.text);
            if answer.status == 403 {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(crate::kit::BOUND, refused).await;
    let refused = refused.expect("a refusal in time");
    assert_eq!(refused.problem(403), "forbidden");
}

/// A token without the kinds of a worker that has its name and its secret reported for it, and ended its lease.
#[tokio::test]
async fn another_token_sends_no_request_of_a_worker_outside_of_its_scope() {
    let (kit, mut worker) = registered().await;
    kit.submit("a", "k").await;
    let run = worker.claim(&kit).await;
    let own = worker.token.clone();
    worker.token = kit.token("pay", Role::Work, &["pay"]).await;
    let done = json!([returned(&run, &json!({"message": "complete"}))]);
    let refused = [
        worker.exchange(&kit, 0).await,
        worker.report(&kit, done.clone()).await,
        worker.leave(&kit).await,
    ];
    for refused in refused {
        assert_eq!(refused.problem(403), "forbidden");
        assert!(refused.text.contains("'k'"), "{}", refused.text);
    }
    // Nothing was carried out. A wider token of the same holder still reports.
    worker.token = own;
    worker.seq = 10;
    let answer = worker.report(&kit, done).await.json();
    assert_eq!(answer["results"][0]["result"], "applied", "{answer}");
}

#[tokio::test]
async fn what_a_handler_changes_and_waits_for_is_within_the_scope_of_its_token() {
    let (kit, mut worker) = registered().await;
    kit.submit("theirs", "pay").await;
    kit.submit("ours", "k").await;
    let paused = kit.client.command("ours", windlass::Command::Pause).await;
    paused.unwrap();
    let effect = |effect: serde_json::Value| json!({"message": "complete", "effects": [effect]});
    for (n, (message, state)) in [
        (effect(json!({"op": "delete", "task": "theirs"})), "failed"),
        (
            effect(json!({"op": "send", "task": "theirs", "command": "kill"})),
            "failed",
        ),
        (
            effect(json!({"op": "reschedule", "task": "ours", "kind": "pay"})),
            "failed",
        ),
        (
            effect(json!({"op": "submit", "id": "s1", "kind": "pay"})),
            "failed",
        ),
        (
            effect(json!({"op": "submit", "id": "s2", "kind": "k", "after": ["theirs"]})),
            "failed",
        ),
        (
            effect(json!({"op": "require", "task": "theirs", "exists": true})),
            "failed",
        ),
        (json!({"message": "sleep", "after": ["theirs"]}), "failed"),
        (
            effect(json!({"op": "submit", "id": "s3", "kind": "k", "after": ["ours"]})),
            "completed",
        ),
        (effect(json!({"op": "delete", "task": "ours"})), "completed"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("t{n}");
        kit.submit(&id, "k").await;
        let run = worker.claim(&kit).await;
        assert_eq!(run["id"], id);
        let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
        assert_eq!(answer.status, 200, "{message}: {}", answer.text);
        assert_eq!(
            answer.json()["results"][0]["state"],
            state,
            "{message}: {}",
            answer.text
        );
        worker.held.clear();
    }
    let theirs = kit.client.get("theirs").await.unwrap();
    assert_eq!(
        (theirs.commands, theirs.state.unwrap().code()),
        (0, StateKind::Runnable)
    );
    for id in ["s1", "s2", "ours"] {
        assert!(kit.client.get(id).await.is_err(), "{id}");
    }
    assert!(kit.client.get("s3").await.is_ok());
}

/// Regression: an effect of a handler replaced it.
#[tokio::test]
async fn a_worker_of_a_scope_replaces_no_task_of_others_whose_id_is_free() {
    let (kit, mut worker) = registered().await;
    crate::free_ids::complete(&kit, &["pay"]).await;
    let theirs = kit.client.get("pay-free").await.unwrap().order;
    for (n, more) in ["refuse", "same", "skip", "replace-finished"]
        .iter()
        .enumerate()
    {
        let id = format!("t{n}");
        kit.submit(&id, "k").await;
        let run = worker.claim(&kit).await;
        assert_eq!(run["id"], id);
        let submit = json!({"op": "submit", "id": "pay-free", "kind": "k", "if_exists": more});
        let message = json!({"message": "complete", "effects": [submit]});
        let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let state = &answer.json()["results"][0]["state"];
        assert_ne!(*state, "completed", "{more}: {}", answer.text);
        worker.held.clear();
        let there = kit.client.get("pay-free").await.unwrap();
        assert_eq!(
            (there.order, there.task.kind.as_str()),
            (theirs, "pay"),
            "{more}"
        );
        // A message that is refused leaves its task to another attempt.
        kit.client.delete_many(vec![id.parse().unwrap()]).await;
    }
}

/// Regression: with a token for every task, a worker started a bulk operation without a dry run, in the name of anybody.
#[tokio::test]
async fn no_worker_makes_a_bulk_operation() {
    let kit = Kit::new().await;
    let token = kit.token("all", Role::Work, &[]).await;
    let mut worker = Worker::new(&token, "w1");
    let answer = worker.register(&kit, &["k"], json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    kit.submit("other", "mail").await;
    let bulk = json!({"filter": {"kind": "mail"}, "action": "kill", "tasks": 1, "by": "alice"});
    let effect = |effect: serde_json::Value| json!({"message": "complete", "effects": [effect]});
    let message = [
        effect(json!({"op": "submit", "id": "bulk-1", "kind": "bulk", "props": bulk})),
        effect(json!({"op": "reschedule", "task": "other", "kind": "bulk", "props": bulk})),
        effect(json!({"op": "submit", "id": "s", "kind": "schedule",
            "props": {"every": [{"interval": "2s"}], "run": {"kind": "bulk", "props": bulk}}})),
    ];
    for (n, message) in message.iter().enumerate() {
        let id = format!("t{n}");
        kit.submit(&id, "k").await;
        let run = worker.claim(&kit).await;
        let answer = worker.report(&kit, json!([returned(&run, message)])).await;
        let state = &answer.json()["results"][0]["state"];
        assert_eq!(*state, "failed", "{}", answer.text);
        let errors = kit.client.get(&*id).await.unwrap();
        let state = errors.state.unwrap();
        let error = &state.errors.last().unwrap().error;
        assert!(error.contains("POST /v1/bulk"), "{error}");
        worker.held.clear();
    }
    assert!(kit.client.get("bulk-1").await.is_err());
    assert!(kit.client.get("s").await.is_err());
    let other = kit.client.get("other").await.unwrap();
    assert_eq!(other.task.kind.as_str(), "mail");
    // Nor does it write what stands for a masked value.
    kit.submit("t8", "k").await;
    let run = worker.claim(&kit).await;
    let masked = json!({"x": {"$windlass": "masked"}});
    let message = effect(json!({"op": "submit", "id": "m", "kind": "mail", "props": masked}));
    let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
    let state = &answer.json()["results"][0]["state"];
    assert_eq!(*state, "failed", "{}", answer.text);
    assert!(kit.client.get("m").await.is_err());
    worker.held.clear();
    // Other tasks it makes and changes as before.
    kit.submit("t9", "k").await;
    let run = worker.claim(&kit).await;
    let message = effect(json!({"op": "reschedule", "task": "other", "kind": "pay"}));
    let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
    let state = &answer.json()["results"][0]["state"];
    assert_eq!(*state, "completed", "{}", answer.text);
}
