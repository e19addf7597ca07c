//! A completed task whose id is free is replaced by every submit with the id: within the scope and the quota of a token.

use windlass::{Message, NewTask, Runner, TaskContext};
use windlass_server::{NewToken, Role, Scope};

use crate::kit::{BOUND, Kit, request};

/// Returns a server with a completed task of each kind, whose id is free: `mail-free`, `pay-free`.
async fn with_free_ids() -> Kit {
    let kit = Kit::new().await;
    complete(&kit, &["mail", "pay"]).await;
    kit
}

/// Completes a task `KIND-free` of each of these kinds.
pub(crate) async fn complete(kit: &Kit, kinds: &[&str]) {
    let mut node = Runner::builder(&kit.store);
    for kind in kinds {
        node = node.handler(*kind, |_: TaskContext| async { Message::complete() });
    }
    let node = node.start().await.unwrap();
    for kind in kinds {
        let id = format!("{kind}-free");
        let task = NewTask::new(*kind).id(id.as_str()).free_id();
        kit.client.submit(task).await.unwrap();
        let done = tokio::time::timeout(BOUND, kit.client.wait(&*id)).await;
        assert!(done.expect("the task ends").unwrap().is_completed());
    }
    node.shutdown().await;
}

async fn order(kit: &Kit, id: &str) -> u64 {
    kit.client.get(id).await.unwrap().order
}

/// Regression: "refuse never touches an existing task" was true before ids could be free.
#[tokio::test]
async fn a_scope_replaces_no_task_of_others_whose_id_is_free() {
    let kit = with_free_ids().await;
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let theirs = order(&kit, "pay-free").await;
    for more in [
        "",
        r#","if_exists":"refuse""#,
        r#","if_exists":"same""#,
        r#","if_exists":"skip""#,
        r#","if_exists":"replace-finished""#,
        r#","if_exists":"replace-waiting""#,
    ] {
        let task = format!(r#"{{"id":"pay-free","kind":"mail"{more}}}"#);
        let refused = kit.call_as(&token, "POST /v1/tasks", task.clone()).await;
        assert_eq!(refused.problem(409), "taken", "{task}");
        let array = format!("[{task}]");
        let refused = kit.call_as(&token, "POST /v1/tasks", array).await.json();
        assert_eq!(refused[0]["code"], "taken", "{task}");
        let mut lines = request(&token, "POST /v1/tasks", task.clone());
        let kind = "application/x-ndjson".parse().unwrap();
        lines.headers_mut().insert("content-type", kind);
        let refused = kit.send(lines).await;
        assert!(
            refused.text.contains(r#""code":"taken""#),
            "{task}: {}",
            refused.text
        );
        let line = task.replacen('{', r#"{"op":"submit","#, 1);
        let line = format!(r#"{{"lines":[{line}]}}"#);
        let refused = kit.call_as(&token, "POST /v1/transactions", line).await;
        assert_eq!(refused.status, 409, "{task}: {}", refused.text);
        if more.is_empty() {
            let mut keyed = request(&token, "POST /v1/tasks", task);
            let headers = keyed.headers_mut();
            headers.insert("idempotency-key", "k".parse().unwrap());
            assert_eq!(kit.send(keyed).await.problem(409), "taken");
        }
    }
    assert_eq!(order(&kit, "pay-free").await, theirs);
    // Its own it replaces, and with a key once.
    let own = order(&kit, "mail-free").await;
    let mut orders = Vec::new();
    for _ in 0..2 {
        let task = r#"{"id":"mail-free","kind":"mail"}"#;
        let mut keyed = request(&token, "POST /v1/tasks", task);
        let headers = keyed.headers_mut();
        headers.insert("idempotency-key", "own".parse().unwrap());
        let made = kit.send(keyed).await;
        assert_eq!(made.status, 201, "{}", made.text);
        orders.push(order(&kit, "mail-free").await);
    }
    assert!(
        orders[0] > own && orders[0] == orders[1],
        "{own} {orders:?}"
    );
}

/// A task that others submit with a free id is not replaced, whatever the scope was compared with.
#[tokio::test]
async fn a_submit_of_a_scope_has_the_results_that_it_had_before_ids_could_be_free() {
    let kit = with_free_ids().await;
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let submit = async |task: &str| kit.call_as(&token, "POST /v1/tasks", task.to_owned()).await;
    assert_eq!(submit(r#"{"id":"a","kind":"mail"}"#).await.status, 201);
    let again = submit(r#"{"id":"a","kind":"mail"}"#).await;
    assert_eq!(again.problem(409), "taken");
    // A wrong task is refused with its field, as without a scope.
    let wrong = submit(r#"{"id":"b","kind":"schedule"}"#).await;
    assert_eq!(wrong.problem(403), "forbidden");
    let wide = format!(
        r#"{{"id":"c","kind":"mail","props":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    let large = submit(&wide).await;
    assert_eq!(large.problem(413), "too_large", "{}", large.text);
    let array = r#"[{"id":"d","kind":"mail"},{"id":"d","kind":"mail"}]"#;
    let array = submit(array).await.json();
    assert_eq!(
        (&array[0]["submitted"], &array[1]["code"]),
        (&"new".into(), &"taken".into())
    );
}

/// Regression: a quota counted no submit with the id of a completed task that is free.
#[tokio::test]
async fn a_quota_counts_submits_with_free_ids() {
    let kit = with_free_ids().await;
    let scope = Scope::new(["mail".to_owned()], []).unwrap();
    let new = NewToken::new("some", Role::Operate)
        .scope(scope)
        .max_tasks(1);
    let token = kit.tokens.make(new, None).await.unwrap().1;
    let live = kit
        .call_as(&token, "POST /v1/tasks", r#"{"id":"a","kind":"mail"}"#)
        .await;
    assert_eq!(live.status, 201, "{}", live.text);
    let ended = order(&kit, "mail-free").await;
    for more in ["", r#","if_exists":"same""#, r#","if_exists":"skip""#] {
        let task = format!(r#"{{"id":"mail-free","kind":"mail"{more}}}"#);
        let refused = kit.call_as(&token, "POST /v1/tasks", task.clone()).await;
        assert_eq!(refused.problem(409), "quota", "{task}");
        let array = kit
            .call_as(&token, "POST /v1/tasks", format!("[{task}]"))
            .await;
        assert_eq!(array.json()[0]["code"], "quota", "{task}");
        let line = task.replacen('{', r#"{"op":"submit","#, 1);
        let line = format!(r#"{{"lines":[{line}]}}"#);
        let refused = kit.call_as(&token, "POST /v1/transactions", line).await;
        assert_eq!(refused.problem(409), "quota", "{task}");
    }
    assert_eq!(order(&kit, "mail-free").await, ended);
}
