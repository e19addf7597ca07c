//! Runs: their starts, their reports and their ends.

use std::time::Duration;

use serde_json::json;
use windlass::{Command, NodeName, StateKind, workers::protocol::ResultCode};

use super::support::{Worker, complete, memory, server, submit};

#[tokio::test]
async fn a_worker_completes_a_task() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 2).await;
    let id = submit(&client, "a").await;
    let answer = worker.exchange(&server, 3000).await;
    assert_eq!(answer.claims.len(), 1, "{answer:?}");
    assert_eq!((answer.claims[0].attempt, answer.claims[0].n), (1, 1));
    assert_eq!(answer.claims[0].props.as_str(), r#"{"n":1}"#);
    let result = worker.report(&server, "a", complete()).await;
    assert_eq!(
        (result.result, result.state),
        (ResultCode::Applied, Some(StateKind::Completed))
    );
    let record = client.wait(&id).await.unwrap();
    assert_eq!(record.result::<String>().unwrap(), "done");
    assert!(worker.exchange(&server, 0).await.claims.is_empty());
}

#[tokio::test]
async fn a_task_that_comes_later_ends_the_wait_of_an_exchange() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    assert!(worker.exchange(&server, 0).await.claims.is_empty());
    let submitted = async {
        tokio::task::yield_now().await;
        submit(&client, "a").await
    };
    let (answer, _) = tokio::join!(worker.exchange(&server, 3700), submitted);
    assert_eq!(answer.claims.len(), 1);
}

#[tokio::test]
async fn a_worker_gets_no_more_tasks_than_it_has_slots() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 2).await;
    for n in 0..5 {
        submit(&client, &format!("t{n}")).await;
    }
    let mut claims = 0;
    while claims < 2 {
        claims += worker.exchange(&server, 3000).await.claims.len();
    }
    assert_eq!(
        (claims, worker.exchange(&server, 300).await.claims.len()),
        (2, 0)
    );
    let first = worker.runs.keys().next().unwrap().clone();
    let item = worker.item(&first, complete());
    worker.runs.remove(&first);
    let answer = worker.send_report(&server, vec![item], true).await.unwrap();
    assert_eq!(answer.results[0].result, ResultCode::Applied);
    assert_eq!(answer.claims.len(), 1, "the answer fills the slot");
}

/// The answer to a report is lost: the same report again gets the same answer, and is not applied twice.
#[tokio::test]
async fn a_report_is_applied_once() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let version = || async { client.get("a").await.unwrap().state.unwrap().version };
    let item = worker.item("a", json!({"checkpoint": {"page": 1}}));
    for _ in 0..3 {
        let answer = worker
            .send_report(&server, vec![item.clone()], false)
            .await
            .unwrap();
        assert_eq!(answer.results[0].result, ResultCode::Applied);
    }
    let stored = version().await;
    worker.runs.get_mut("a").unwrap().n = 2;
    let end = worker.item("a", complete());
    for _ in 0..3 {
        let answer = worker
            .send_report(&server, vec![end.clone()], false)
            .await
            .unwrap();
        assert_eq!(answer.results[0].result, ResultCode::Applied);
        assert_eq!(answer.results[0].state, Some(StateKind::Completed));
    }
    assert_eq!(version().await, stored + 1);
}

#[tokio::test]
async fn reports_have_their_numbers_in_turn() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    worker.runs.get_mut("a").unwrap().n = 3;
    let result = worker.report(&server, "a", json!({"checkpoint": 1})).await;
    assert_eq!(result.result, ResultCode::Refused);
    assert!(result.error.unwrap().contains("has the number 1"));
    worker.runs.get_mut("a").unwrap().n = 1;
    let items = [
        json!({"checkpoint": 1}),
        json!({"checkpoint": 2}),
        complete(),
    ];
    let mut all = Vec::new();
    for what in items {
        all.push(worker.item("a", what));
        worker.runs.get_mut("a").unwrap().n += 1;
    }
    let answer = worker.send_report(&server, all, false).await.unwrap();
    let codes: Vec<_> = answer.results.iter().map(|result| result.result).collect();
    assert_eq!(codes, [ResultCode::Applied; 3], "{answer:?}");
    let state = client.get("a").await.unwrap().state.unwrap();
    assert_eq!(state.data.unwrap().as_str(), "2");
}

/// A handler that returns `run` runs again under the same claim; the next run is in the answer.
#[tokio::test]
async fn the_next_run_of_a_task_comes_with_the_answer() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let first = worker.exchange(&server, 3000).await.claims[0].clone();
    let again = json!({"return": {"message": "run", "data": {"page": 2}}});
    assert_eq!(
        worker.report(&server, "a", again).await.result,
        ResultCode::Applied
    );
    let next = &worker.runs["a"].start;
    assert_eq!(next.fence, first.fence);
    assert!(next.run > first.run);
    assert_eq!(
        (next.n, next.data.as_ref().unwrap().as_str()),
        (2, r#"{"page":2}"#)
    );
    assert_eq!(
        worker.report(&server, "a", complete()).await.result,
        ResultCode::Applied
    );
}

#[tokio::test]
async fn a_sleeping_task_holds_no_slot_and_comes_back() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let first = worker.exchange(&server, 3000).await.claims[0].clone();
    let sleeps = json!({"return": {"message": "sleep", "until": "in 100ms"}});
    let result = worker.report(&server, "a", sleeps).await;
    assert_eq!(result.state, Some(StateKind::Sleeping));
    let record = client.get("a").await.unwrap();
    assert!(record.node.is_none(), "{record:?}");
    let claims = worker.exchange(&server, 3500).await.claims;
    assert!(claims[0].fence > first.fence);
    assert_eq!(claims[0].n, 1, "numbers begin again with each claim");
}

#[tokio::test]
async fn a_failed_attempt_is_tried_again_by_the_policy_of_the_task() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let fails = json!({"return": {"message": "error", "error": "no route"}});
    let result = worker.report(&server, "a", fails).await;
    assert_eq!(result.state, Some(StateKind::Sleeping), "{result:?}");
    let claims = worker.exchange(&server, 3500).await.claims;
    let again = claims.first().expect("the second attempt");
    assert_eq!(again.attempt, 2);
    let last = again.last_error.as_ref().unwrap();
    let node = last.node.as_ref().map(NodeName::as_str);
    assert_eq!((last.error.as_str(), node), ("no route", Some("w")));
    let fails = json!({"return": {"message": "error", "error": "bad input", "retry": false}});
    assert_eq!(
        worker.report(&server, "a", fails).await.state,
        Some(StateKind::Failed)
    );
}

/// What a handler returns is refused by the store: a failed attempt is stored instead, and the report is answered with the
/// reason, also when it is sent again.
#[tokio::test]
async fn a_return_that_the_store_refuses_is_a_failed_attempt() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let effects = json!([{"command": {"task": "nobody", "message": "pause"}}]);
    let _ = effects;
    let submits = json!([{"submit": {"id": "a", "kind": "k"}}]);
    let what = json!({"return": {"message": "complete", "effects": submits}});
    let item = worker.item("a", what);
    for _ in 0..2 {
        let answer = worker
            .send_report(&server, vec![item.clone()], false)
            .await
            .unwrap();
        assert_eq!(answer.results[0].result, ResultCode::Refused, "{answer:?}");
        assert!(answer.results[0].error.is_some());
    }
}

/// A message that cannot be read was refused, and stored nowhere: the run went on for ever, or failed with another reason.
#[tokio::test]
async fn a_message_that_cannot_be_read_is_a_failed_attempt() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let item = worker.item("a", json!({"return": {"message": "complet"}}));
    let answer = worker.send_report(&server, vec![item.clone()], false).await;
    let answer = answer.unwrap().results.remove(0);
    assert_eq!(
        (answer.result, answer.state),
        (ResultCode::Refused, Some(StateKind::Sleeping))
    );
    assert!(
        answer.error.as_ref().unwrap().contains("'complet'"),
        "{answer:?}"
    );
    let state = client.get(id.as_str()).await.unwrap().state.unwrap();
    assert_eq!(state.attempts, 1);
    assert!(
        state.errors.last().unwrap().error.contains("'complet'"),
        "{state:?}"
    );
    let again = worker
        .send_report(&server, vec![item], false)
        .await
        .unwrap();
    assert_eq!(again.results[0], answer, "the same answer");
    worker.runs.clear();
    worker.settled = worker.seq;
    let claims = worker.exchange(&server, 3500).await.claims;
    assert_eq!(claims[0].attempt, 2);
}

#[tokio::test]
async fn signals_are_answered() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    client
        .command(&id, Command::signal("rate", &5).unwrap())
        .await
        .unwrap();
    let mut signals = Vec::new();
    while signals.is_empty() {
        signals = worker.exchange(&server, 3000).await.signals;
    }
    assert_eq!(signals[0].run, worker.runs["a"].held.run);
    let order = signals[0].order;
    worker.runs.get_mut("a").unwrap().held.took = order;
    assert!(
        worker.exchange(&server, 0).await.signals.is_empty(),
        "it was taken"
    );
    let reply = json!({"answer": {"signal": order, "reply": {"was": 4}, "data": {"rate": 5}}});
    assert_eq!(
        worker.report(&server, "a", reply).await.result,
        ResultCode::Applied
    );
    let unknown = json!({"answer": {"signal": order, "reply": 1}});
    assert_eq!(
        worker.report(&server, "a", unknown).await.result,
        ResultCode::Refused
    );
    assert_eq!(
        worker.report(&server, "a", complete()).await.result,
        ResultCode::Applied
    );
}

/// The handler has taken a signal when it returns: the next run does not get the signal again.
#[tokio::test]
async fn a_signal_that_was_taken_does_not_come_to_the_next_run() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let signal = Command::signal("rate", &5).unwrap();
    client.command(&id, signal).await.unwrap();
    let mut signals = Vec::new();
    while signals.is_empty() {
        signals = worker.exchange(&server, 3000).await.signals;
    }
    worker.runs.get_mut("a").unwrap().held.took = signals[0].order;
    let next = json!({"return": {"message": "run", "data": 1}});
    assert_eq!(
        worker.report(&server, "a", next).await.result,
        ResultCode::Applied
    );
    let next = &worker.runs["a"].start;
    assert!(next.signals.is_empty(), "{next:?}");
    let answer = worker.exchange(&server, 0).await;
    assert!(answer.signals.is_empty(), "{answer:?}");
}

#[tokio::test]
async fn progress_and_log_lines_are_stored() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let lines = json!({"n": 0, "log": [{"n": 1, "text": "first"}, {"n": 2, "text": "second"}]});
    for _ in 0..2 {
        let item = worker.item("a", lines.clone());
        worker
            .send_report(&server, vec![item], false)
            .await
            .unwrap();
    }
    let item = worker.item(
        "a",
        json!({"n": 0, "progress": {"fraction": 0.5, "text": "half"}}),
    );
    worker
        .send_report(&server, vec![item], false)
        .await
        .unwrap();
    let record = client.get(id.as_str()).await.unwrap();
    assert_eq!(record.state.unwrap().progress.unwrap().text, "half");
    let stored = store.registry().log_parts(&id, 0).await.unwrap();
    let texts = format!("{stored:?}");
    assert_eq!(texts.matches("first").count(), 1, "{texts}");
}

#[tokio::test]
async fn log_lines_in_the_report_of_a_return_are_stored() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let lines = json!({"n": 0, "log": [{"n": 1, "text": "last words"}]});
    let items = vec![worker.item("a", lines), worker.item("a", complete())];
    worker.send_report(&server, items, false).await.unwrap();
    let stored = store.registry().log_parts(&id, 0).await.unwrap();
    assert!(format!("{stored:?}").contains("last words"), "{stored:?}");
}

#[tokio::test]
async fn a_deadline_ends_a_run() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let task = windlass::NewTask::new("k")
        .id("a")
        .end_within(Duration::from_millis(400));
    client.submit(task).await.unwrap();
    let claims = worker.exchange(&server, 3000).await.claims;
    assert!(
        claims[0].ends_in_ms.is_some_and(|ms| ms <= 400),
        "{claims:?}"
    );
    let late = jiff::Timestamp::now().duration_since(claims[0].now);
    assert!(!late.is_negative() && late.as_secs() < 10, "{claims:?}");
    let mut stop = Vec::new();
    while stop.is_empty() {
        stop = worker.exchange(&server, 3000).await.stop;
    }
    assert_eq!(stop[0].reason, "deadline");
    let result = worker.report(&server, "a", complete()).await;
    assert_eq!(result.state, Some(StateKind::Failed));
}
