//! A token with a scope writes: between a comparison and its write, and many tasks at once.

use std::time::Duration;

use windlass::{
    Client, NewTask,
    store::Store,
    testing::{Fault, FaultyStore, Operation},
};
use windlass_server::{NewToken, Role, Scope};

use crate::{
    kit::{Kit, request},
    scopes::scoped,
};

/// Regression: a task that was deleted and submitted again with other labels, after it was compared with the scope, was
/// changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_others_submit_under_a_compared_id_is_not_changed() {
    for (n, (line, body)) in [
        ("DELETE /v1/tasks/ID", ""),
        ("POST /v1/tasks/ID/commands", r#"{"command":"kill"}"#),
        ("POST /v1/tasks/ID/reschedule", r#"{"priority":7}"#),
        (
            "POST /v1/tasks",
            r#"{"id":"ID","kind":"k","labels":{"team":"x"},"props":1,"if_exists":"replace-waiting"}"#,
        ),
        (
            "POST /v1/transactions",
            r#"{"lines":[{"op":"delete","task":"ID"}]}"#,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let inner = Store::open("memory:").await.unwrap();
        let faulty = FaultyStore::new(&inner);
        let kit = Kit::with(faulty.store()).await;
        let client = Client::new(&inner);
        let scope = Scope::new([], [("team".to_owned(), "x".to_owned())]).unwrap();
        let new = NewToken::new("x", Role::Operate).scope(scope);
        let token = kit.tokens.make(new, None).await.unwrap().1;
        let id = format!("t{n}");
        let of = |team: &str| NewTask::new("k").id(&*id).label("team", team);
        client.submit(of("x")).await.unwrap();
        let get = format!("GET /v1/tasks/{id}");
        assert_eq!(kit.call_as(&token, &get, "").await.status, 200);
        // The read that compares is answered late. The server also reads its tokens, at times of its own.
        let before = faulty.calls(Operation::Read);
        faulty.fail(Operation::Read, Fault::Late(Duration::from_secs(2)), 3);
        let (line, body) = (line.replace("ID", &id), body.replace("ID", &id));
        let request = kit.call_as(&token, &line, body);
        let swap = async {
            while faulty.calls(Operation::Read) < before + 2 {
                tokio::task::yield_now().await;
            }
            client.delete(&*id).await.unwrap();
            client.submit(of("y")).await.unwrap();
        };
        let (refused, ()) = tokio::join!(request, swap);
        faulty.heal();
        assert_eq!(refused.problem(409), "refused", "{line}");
        let theirs = client.get(&*id).await.unwrap();
        assert_eq!((theirs.task.priority, theirs.commands), (0, 0), "{line}");
        assert!(theirs.task.props.is_null(), "{line}");
        assert_eq!(theirs.task.labels["team"], "y", "{line}");
    }
}

/// Several tasks are compared and written together: with the same results as one by one.
#[tokio::test]
async fn an_array_of_a_scope_has_the_results_of_its_tasks_one_by_one() {
    let (kit, token) = scoped().await;
    let tasks = [
        r#"{"id":"a","kind":"mail"}"#,
        r#"{"id":"b","kind":"mail","after":["a"]}"#,
        r#"{"id":"a","kind":"mail","if_exists":"same"}"#,
        r#"{"id":"a","kind":"mail"}"#,
        r#"{"id":"theirs","kind":"mail","if_exists":"skip"}"#,
        r#"{"id":"c","kind":"mail","after":["theirs"]}"#,
        r#"{"id":"d","kind":"pay"}"#,
        r#"{"id":"c","kind":"mail","after":["d"]}"#,
        r#"{"id":"mine","kind":"mail","props":2,"if_exists":"replace-waiting"}"#,
        r#"{"id":"mine","kind":"mail","props":3,"if_exists":"replace-waiting"}"#,
        r#"{"id":"b","kind":"mail","after":["a"],"if_exists":"skip"}"#,
    ];
    let array = format!("[{}]", tasks.join(","));
    let answers = kit.call_as(&token, "POST /v1/tasks", array).await.json();
    let results: Vec<&str> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.get("submitted").or(one.get("code")).unwrap())
        .map(|text| text.as_str().unwrap())
        .collect();
    assert_eq!(
        results,
        [
            "new",
            "new",
            "existing",
            "taken",
            "taken",
            "not_found",
            "forbidden",
            "not_found",
            "replaced",
            "replaced",
            "existing"
        ]
    );
    let mine = kit.client.get("mine").await.unwrap();
    assert_eq!(mine.task.props.as_str(), "3");
    // With a key, a repetition has the same results for every caller.
    for secret in [&token, &kit.admin] {
        let keyed = async || {
            let array = r#"[{"kind":"mail"},{"id":"z","kind":"mail"},{"kind":7}]"#;
            let mut keyed = request(secret, "POST /v1/tasks", array);
            let key = "once".parse().unwrap();
            keyed.headers_mut().insert("idempotency-key", key);
            kit.send(keyed).await.text
        };
        let first = keyed().await;
        assert_eq!(
            first.matches(r#""submitted":"new""#).count(),
            if *secret == token { 2 } else { 1 },
            "{first}"
        );
        assert_eq!(keyed().await, first);
    }
}
