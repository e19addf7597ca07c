//! Bulk operations: a dry run, a task that changes what was counted, and what it leaves alone.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{
    Client, Message, NewTask, Runner, StateKind, TaskContext, TaskId, store::Store,
    testing::ManualClock,
};
use windlass_server::{NewToken, Role, Scope, bulk};

use crate::kit::{BOUND, Kit};

pub(crate) async fn node(store: &Store) -> Runner {
    let node = Runner::builder(store)
        .handler_with(
            bulk::KIND,
            bulk::Handler::config(),
            bulk::Handler::new(store),
        )
        .handler("work", |_: TaskContext| async { Message::complete() });
    node.start().await.unwrap()
}

pub(crate) fn body(action: &str, filter: &Value) -> Value {
    json!({"filter": filter, "action": action})
}

/// Returns the count and the key of a dry run.
pub(crate) async fn counted(kit: &Kit, token: &str, body: &Value) -> Value {
    let counted = kit.call_as(token, "POST /v1/bulk", body.to_string()).await;
    assert_eq!(counted.status, 200, "{}", counted.text);
    counted.json()
}

pub(crate) fn with_key(body: &Value, counted: &Value) -> String {
    let mut body = body.clone();
    body["tasks"] = counted["tasks"].clone();
    body["key"] = counted["key"].clone();
    body.to_string()
}

/// Makes the dry run and starts the operation; returns its task.
async fn started(kit: &Kit, token: &str, body: &Value) -> TaskId {
    let counted = counted(kit, token, body).await;
    let started = kit
        .call_as(token, "POST /v1/bulk", with_key(body, &counted))
        .await;
    assert_eq!(started.status, 201, "{}", started.text);
    started.json()["id"].as_str().unwrap().parse().unwrap()
}

/// Waits for the end, and returns the state with its result or its error.
pub(crate) async fn ended(client: &Client, id: &TaskId) -> (StateKind, Value) {
    let done = tokio::time::timeout(BOUND, client.wait(id));
    let done = done.await.expect("the operation ends").unwrap();
    let found = match done.error() {
        Some(error) => json!(error),
        None => done.result().unwrap(),
    };
    (done.code(), found)
}

async fn state(client: &Client, id: &str) -> Option<StateKind> {
    let record = client.get(id).await.ok()?;
    Some(record.state.unwrap().code())
}

#[tokio::test]
async fn an_operation_changes_what_was_counted_and_names_each_refusal() {
    let kit = Kit::new().await;
    for n in 0..450 {
        let task = NewTask::new("mail").id(format!("m{n}")).paused();
        kit.client.submit(task).await.unwrap();
    }
    for id in ["p1", "p2"] {
        kit.submit(id, "pay").await;
    }
    let retry = body("retry", &json!({"kind": "pay", "state": ["runnable"]}));
    let of_ended = body("retry", &json!({"kind": "pay"}));
    let none = counted(&kit, &kit.admin, &of_ended).await;
    assert_eq!(none["tasks"], 0, "a retry is for tasks that have ended");
    let delete = body("delete", &json!({"kind": "mail", "state": ["paused"]}));
    let dry = counted(&kit, &kit.admin, &delete).await;
    assert_eq!(dry["tasks"], 450);
    assert_eq!(
        kit.client.get("m0").await.unwrap().task.kind.as_str(),
        "mail"
    );

    let deletion = started(&kit, &kit.admin, &delete).await;
    let of_live = started(&kit, &kit.admin, &retry).await;
    // It is submitted after the dry run.
    let late = NewTask::new("mail").id("late").paused();
    kit.client.submit(late).await.unwrap();
    let node = node(&kit.store).await;
    let (code, result) = ended(&kit.client, &deletion).await;
    assert_eq!(
        (code, &result["done"], &result["refused"]),
        (StateKind::Completed, &json!(450), &json!(0))
    );
    assert_eq!(state(&kit.client, "m7").await, None);
    assert_eq!(state(&kit.client, "late").await, Some(StateKind::Paused));
    // A live task is not retried: each refusal has its reason, in the result and in the log.
    let (_, result) = ended(&kit.client, &of_live).await;
    assert_eq!(
        (&result["done"], &result["refused"]),
        (&json!(0), &json!(2))
    );
    let refusals = result["refusals"].as_array().unwrap();
    assert_eq!((&refusals[0]["task"], refusals.len()), (&json!("p1"), 2));
    // Regression: the reason named a part of a transaction, and not the task.
    let reason = refusals[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("'p1'") && !reason.contains("operations["),
        "{reason}"
    );
    let log = kit.get(&format!("/v1/tasks/{of_live}/log")).await.json();
    let lines = log["lines"].to_string();
    assert!(lines.contains("p1: ") && lines.contains("p2: "), "{log}");
    // Its author is who started it.
    let audit = kit.get("/v1/audit?limit=1").await.text;
    assert!(audit.contains("token admin"), "{audit}");
    node.shutdown().await;
}

/// Each rule of the key: it is that of this filter, action and count, for ten minutes, and no more tasks match.
#[tokio::test]
async fn an_operation_needs_the_count_and_the_key_of_its_dry_run() {
    let clock = std::sync::Arc::new(ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
    let store = Store::open_with_clock("memory:", clock.clone())
        .await
        .unwrap();
    let kit = Kit::with(store).await;
    kit.submit("a", "mail").await;
    let kill = body("kill", &json!({"kind": "mail"}));
    let dry = counted(&kit, &kit.admin, &kill).await;
    for (change, value, field) in [
        ("action", json!("pause"), "key"),
        ("filter", json!({"kind": "pay"}), "key"),
        ("filter", json!({}), "filter"),
        ("tasks", json!(2), "key"),
        ("key", json!("nonsense"), "key"),
        ("key", json!(null), "key"),
        ("tasks", json!(null), "tasks"),
    ] {
        let mut wrong: Value = serde_json::from_str(&with_key(&kill, &dry)).unwrap();
        wrong[change] = value;
        let refused = kit.call("POST /v1/bulk", wrong.to_string()).await;
        assert_eq!(refused.field(), field, "{wrong}");
    }
    for (wrong, field) in [
        (body("kill", &json!({"label": ["=x"]})), "label"),
        (body("kill", &json!({"kinds": ["x"]})), "body"),
        (body("drop", &json!({})), "body"),
        // A program that computes a list and gets none.
        (body("delete", &json!({"id": []})), "body"),
        (
            body("delete", &json!({"state": [], "kind": "mail"})),
            "body",
        ),
    ] {
        let refused = kit.call("POST /v1/bulk", wrong.to_string()).await;
        assert_eq!(refused.field(), field, "{wrong}");
    }
    // What is submitted later does not count, and a task that changes so that it matches does.
    let paused = body("resume", &json!({"kind": "mail", "state": ["paused"]}));
    let none = counted(&kit, &kit.admin, &paused).await;
    assert_eq!(none["tasks"], 0);
    clock.advance(Duration::from_secs(1));
    kit.submit("later", "mail").await;
    let started = kit.call("POST /v1/bulk", with_key(&kill, &dry)).await;
    assert_eq!(started.status, 201, "{}", started.text);
    let again = kit.call("POST /v1/bulk", with_key(&kill, &dry)).await;
    assert_eq!(
        again.json()["id"],
        started.json()["id"],
        "it is one operation"
    );
    clock.advance(Duration::from_secs(601));
    let old = kit.call("POST /v1/bulk", with_key(&kill, &dry)).await;
    assert_eq!(old.field(), "key");
    assert!(old.text.contains("ten minutes"), "{}", old.text);
}

/// A task of before the dry run that matches only since then.
#[tokio::test]
async fn an_operation_is_refused_when_more_tasks_match_than_were_counted() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    kit.submit("b", "note").await;
    let delete = body("delete", &json!({"kind": "mail"}));
    let dry = counted(&kit, &kit.admin, &delete).await;
    let begun = started(&kit, &kit.admin, &delete).await;
    let moved = json!({"kind": "mail"}).to_string();
    let moved = kit.call("POST /v1/tasks/b/reschedule", moved).await;
    assert!(moved.status.is_success(), "{}", moved.text);
    let refused = kit.call("POST /v1/bulk", with_key(&delete, &dry)).await;
    assert_eq!(refused.field(), "tasks");
    assert!(refused.text.contains("2 match now"), "{}", refused.text);
    // One that had begun before ends, and changes neither.
    let node = node(&kit.store).await;
    let (code, error) = ended(&kit.client, &begun).await;
    assert_eq!(code, StateKind::Failed);
    assert!(
        error.to_string().contains("than the 1 of the dry run"),
        "{error}"
    );
    for id in ["a", "b"] {
        assert_eq!(state(&kit.client, id).await, Some(StateKind::Runnable));
    }
    node.shutdown().await;
}

/// A token with a scope changes only what it sees, and nothing more once it is revoked.
#[tokio::test]
async fn an_operation_stays_in_the_present_scope_of_its_token() {
    let kit = Kit::new().await;
    for (id, kind) in [("m", "mail"), ("p", "pay")] {
        kit.submit(id, kind).await;
    }
    let scope = Scope::new(["mail".to_owned(), "note".to_owned()], []).unwrap();
    let new = NewToken::new("mails", Role::Operate).scope(scope);
    let token = kit.tokens.make(new, None).await.unwrap().1;
    let mut all = body("delete", &json!({}));
    all["all"] = json!(true);
    assert_eq!(counted(&kit, &token, &all).await["tasks"], 1);
    let operation = started(&kit, &token, &all).await;
    let node = node(&kit.store).await;
    let (code, result) = ended(&kit.client, &operation).await;
    assert_eq!((code, &result["done"]), (StateKind::Completed, &json!(1)));
    assert_eq!(state(&kit.client, "p").await, Some(StateKind::Runnable));
    assert_eq!(state(&kit.client, "m").await, None);
    node.shutdown().await;

    kit.submit("m", "mail").await;
    let operation = started(&kit, &token, &all).await;
    assert!(kit.tokens.revoke("mails", None).await.unwrap());
    let node = self::node(&kit.store).await;
    let (code, error) = ended(&kit.client, &operation).await;
    assert_eq!(code, StateKind::Failed);
    assert!(error.to_string().contains("'mails'"), "{error}");
    assert_eq!(state(&kit.client, "m").await, Some(StateKind::Runnable));
    node.shutdown().await;

    let reader = kit.token("reads", Role::Read, &[]).await;
    let refused = kit.call_as(&reader, "POST /v1/bulk", all.to_string()).await;
    assert_eq!(refused.problem(403), "forbidden");
}

/// An operation with forged props would have another author, scope or count.
#[tokio::test]
async fn no_other_request_makes_a_bulk_operation() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let forged = json!({"id": "x", "kind": "bulk", "props": {}}).to_string();
    assert_eq!(kit.call("POST /v1/tasks", forged).await.field(), "kind");
    let line = json!({"lines": [{"op": "submit", "id": "x", "kind": "bulk"}]}).to_string();
    let refused = kit.call("POST /v1/transactions", line).await;
    assert!(refused.field().ends_with("kind"), "{}", refused.text);
    let moved = json!({"kind": "bulk"}).to_string();
    let refused = kit.call("POST /v1/tasks/a/reschedule", moved).await;
    assert_eq!(refused.field(), "kind");
    // One that exists keeps what was compared with its dry run.
    let operation = started(&kit, &kit.admin, &body("pause", &json!({"kind": "mail"}))).await;
    let forged = json!({"filter": {}, "action": "delete", "tasks": 9, "counted_at": "2030-01-01T00:00:00Z", "by": "ann"});
    let path = format!("/v1/tasks/{operation}");
    for (line, edit) in [
        (format!("POST {path}/retry"), json!({"props": forged})),
        (format!("POST {path}/retry"), json!({"data": {"done": 1}})),
        (format!("POST {path}/reschedule"), json!({"props": forged})),
        (
            format!("POST {path}/reschedule"),
            json!({"data": {"done": 1}}),
        ),
        (
            "POST /v1/transactions".to_owned(),
            json!({"lines": [{"op": "reschedule", "task": operation, "props": forged}]}),
        ),
    ] {
        let refused = kit.call(&line, edit.to_string()).await;
        assert!(
            refused.field().ends_with("props"),
            "{line}: {}",
            refused.text
        );
    }
    let mut patch = crate::kit::request(
        &kit.admin,
        &format!("PATCH {path}"),
        r#"[{"op":"replace","path":"/props/by","value":"ann"}]"#,
    );
    let kind = "application/json-patch+json".parse().unwrap();
    patch.headers_mut().insert("content-type", kind);
    let refused = kit.send(patch).await;
    assert!(refused.field().ends_with("props"), "{}", refused.text);
    let of_bulk = kit.token("of-bulk", Role::Operate, &["bulk"]).await;
    let kill = json!({"command": "kill"}).to_string();
    let refused = kit
        .call_as(&of_bulk, &format!("POST {path}/commands"), kill)
        .await;
    assert_eq!(refused.problem(403), "forbidden");
    let spec = json!({"every": [{"interval": "1h"}], "run": {"kind": "bulk"}});
    let schedule = json!({"id": "s", "spec": spec}).to_string();
    let refused = kit.call("POST /v1/schedules", schedule).await;
    assert_eq!(refused.problem(400), "invalid", "{}", refused.text);
    assert_eq!(kit.client.get("x").await.ok().map(|_| ()), None);
}

/// A pause keeps the place, and a resume goes on from there.
#[tokio::test]
async fn an_operation_can_be_paused_and_goes_on() {
    let kit = Kit::new().await;
    for n in 0..900 {
        let task = NewTask::new("mail").id(format!("m{n}")).paused();
        kit.client.submit(task).await.unwrap();
    }
    let delete = body("delete", &json!({"kind": "mail"}));
    let operation = started(&kit, &kit.admin, &delete).await;
    let paused = kit.client.command(&operation, windlass::Command::Pause);
    let paused = paused.await.unwrap();
    let first = node(&kit.store).await;
    let outcome = tokio::time::timeout(BOUND, kit.client.wait_outcome(&paused));
    outcome.await.expect("the pause has an outcome").unwrap();
    first.shutdown().await;
    kit.client
        .command(&operation, windlass::Command::Run)
        .await
        .unwrap();
    let second = node(&kit.store).await;
    let (code, result) = ended(&kit.client, &operation).await;
    assert_eq!((code, &result["done"]), (StateKind::Completed, &json!(900)));
    let left = kit.get("/v1/counts").await.json();
    assert!(!left.to_string().contains("mail"), "{left}");
    second.shutdown().await;
}

/// A token with a scope that has the kind of schedules changes none of them, by no request.
#[tokio::test]
async fn an_operation_of_a_scoped_token_leaves_schedules_alone() {
    let kit = Kit::new().await;
    let spec = json!({"every": [{"interval": "1h"}], "run": {"kind": "mail"}});
    let made = kit.call(
        "POST /v1/schedules",
        json!({"id": "s", "spec": spec}).to_string(),
    );
    assert_eq!(made.await.status, 201);
    let token = kit.token("schedules", Role::Operate, &["schedule"]).await;
    let delete = body("delete", &json!({"kind": "schedule"}));
    assert_eq!(counted(&kit, &token, &delete).await["tasks"], 0);
    let operation = started(&kit, &token, &delete).await;
    let node = node(&kit.store).await;
    let (_, result) = ended(&kit.client, &operation).await;
    assert_eq!(result["done"], 0);
    assert_eq!(state(&kit.client, "s").await, Some(StateKind::Sleeping));
    node.shutdown().await;
}

/// The operation followed the name of its token: to another token with the name, and its scope.
#[tokio::test]
async fn an_operation_ends_with_its_token_even_if_another_one_gets_the_name() {
    let kit = Kit::new().await;
    kit.submit("m", "mail").await;
    kit.submit("p", "pay").await;
    let token = kit.token("ci", Role::Operate, &["mail"]).await;
    let mut delete = body("delete", &json!({}));
    delete["all"] = json!(true);
    let operation = started(&kit, &token, &delete).await;
    assert!(kit.tokens.revoke("ci", None).await.unwrap());
    kit.client.delete("m").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2)).await;
    kit.token("ci", Role::Operate, &["pay"]).await;
    let node = node(&kit.store).await;
    let (code, error) = ended(&kit.client, &operation).await;
    assert_eq!(code, StateKind::Failed, "{error}");
    assert_eq!(state(&kit.client, "p").await, Some(StateKind::Runnable));
    node.shutdown().await;
}

#[tokio::test]
async fn a_quota_of_live_tasks_has_no_bulk_retry() {
    let kit = Kit::new().await;
    let scope = Scope::new(["mail".to_owned()], []).unwrap();
    let new = NewToken::new("few", Role::Operate)
        .scope(scope)
        .max_tasks(5);
    let few = kit.tokens.make(new, None).await.unwrap().1;
    let retry = body("retry", &json!({"kind": "mail"})).to_string();
    let refused = kit.call_as(&few, "POST /v1/bulk", retry).await;
    assert_eq!(refused.problem(403), "forbidden");
    let kill = body("kill", &json!({"kind": "mail"})).to_string();
    assert_eq!(kit.call_as(&few, "POST /v1/bulk", kill).await.status, 200);
}
