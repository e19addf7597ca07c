//! Servers that take each other's place, and answers that are lost.

use serde_json::json;
use windlass::{
    Command,
    workers::{
        WorkerError,
        protocol::{ResultCode, Start},
    },
};

use super::support::{Worker, complete, memory, server, submit, within};

/// The answer with a claim is lost: the claim comes again, once the worker has given that answer up, with the same name.
#[tokio::test]
async fn a_claim_whose_answer_is_lost_comes_again() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let lost = within("the claim", async {
        loop {
            let answer = worker.send_exchange(&server, 3000).await.unwrap();
            match answer.claims.first() {
                Some(start) => return start.clone(),
                None => worker.settled = worker.seq,
            }
        }
    })
    .await;
    let unsettled = worker.send_exchange(&server, 0).await.unwrap();
    assert!(
        unsettled.claims.is_empty(),
        "the first answer may still come"
    );
    worker.settled = worker.seq;
    let again = worker.exchange(&server, 0).await.claims;
    assert_eq!((again[0].fence, again[0].run), (lost.fence, lost.run));
}

/// A worker that has started a run and lost it does not start it again. Its claim ends, and the next one has another run.
#[tokio::test]
async fn a_run_that_a_worker_does_not_take_is_released() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let (mut fences, mut sent) = (Vec::new(), 0);
    within("another claim", async {
        while fences.len() < 2 {
            let answer = worker.send_exchange(&server, 1000).await.unwrap();
            worker.settled = worker.seq;
            for start in answer.claims {
                sent += 1;
                fences.push(start.fence);
                fences.dedup();
            }
        }
    })
    .await;
    assert_eq!(sent, 4, "three times the first run, and the next one");
    let state = client.get("a").await.unwrap().state.unwrap();
    assert_eq!((state.claims, state.attempts), (2, 0));
}

/// Another server takes the place of the first while a handler runs: no fence changes, no attempt counts, and nothing
/// starts twice.
#[tokio::test]
async fn another_server_takes_the_place_of_one() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 2).await;
    let (a, b) = (submit(&client, "a").await, submit(&client, "b").await);
    while worker.runs.len() < 2 {
        worker.exchange(&one, 3000).await;
    }
    let result = worker
        .report(&one, "a", json!({"checkpoint": {"page": 1}}))
        .await;
    assert_eq!(result.result, ResultCode::Applied);
    let before = worker.runs.clone();
    one.shutdown().await;

    let answer = worker.exchange(&other, 0).await;
    assert!(
        answer.claims.is_empty() && answer.lost.is_empty() && answer.stop.is_empty(),
        "{answer:?}"
    );
    client.command(&b, Command::Pause).await.unwrap();
    let stop = within("the stop", async {
        loop {
            let answer = worker.exchange(&other, 3000).await;
            if let Some(stop) = answer.stop.into_iter().next() {
                return stop;
            }
        }
    })
    .await;
    assert_eq!(
        (stop.fence, stop.run),
        (before["b"].held.fence, before["b"].held.run)
    );
    assert_eq!(
        worker.report(&other, "a", complete()).await.result,
        ResultCode::Applied
    );
    assert_eq!(
        worker.report(&other, "b", complete()).await.result,
        ResultCode::Applied
    );
    for id in [&a, &b] {
        let state = client.get(id.as_str()).await.unwrap().state.unwrap();
        assert_eq!((state.claims, state.attempts), (1, 0));
    }
    assert_eq!(worker.started.len(), 2);
}

/// A report goes to a server that has not spoken for the worker, and whose answer to the first is lost.
#[tokio::test]
async fn another_server_sends_a_claim_whose_answer_was_lost() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    submit(&client, "a").await;
    let lost = worker.send_exchange(&one, 3000).await.unwrap();
    worker.settled = worker.seq;
    let answer = worker.exchange(&other, 0).await;
    let name = |start: &Start| (start.id.clone(), start.fence, start.run);
    let (first, again) = (name(&lost.claims[0]), answer.claims.iter().map(name));
    assert_eq!(again.collect::<Vec<_>>(), [first]);
    let record = client.get("a").await.unwrap();
    assert_eq!(record.state.unwrap().claims, 1);
}

#[tokio::test]
async fn a_report_to_another_server_is_applied_once() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    let again = worker.item("a", json!({"return": {"message": "run", "data": 1}}));
    let first = worker
        .send_report(&one, vec![again.clone()], false)
        .await
        .unwrap();
    assert_eq!(first.results[0].result, ResultCode::Applied);
    // The answer is lost. The next server knows the report, and starts the next run.
    let second = worker
        .send_report(&other, vec![again], false)
        .await
        .unwrap();
    assert_eq!(second.results[0].result, ResultCode::Applied);
    worker.runs.clear();
    worker.settled = worker.seq;
    let claims = worker.exchange(&other, 0).await.claims;
    assert_eq!(
        (claims[0].n, claims[0].data.as_ref().unwrap().as_str()),
        (2, "1")
    );
    assert_eq!(
        worker.report(&other, "a", complete()).await.result,
        ResultCode::Applied
    );
    assert_eq!(
        client.get(id.as_str()).await.unwrap().state.unwrap().claims,
        1
    );
}

/// A worker that goes back to its first server, which believes that it still speaks.
#[tokio::test]
async fn a_server_notices_that_another_has_spoken() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    worker.exchange(&other, 0).await;
    let result = worker
        .report(
            &other,
            "a",
            json!({"return": {"message": "run", "data": 1}}),
        )
        .await;
    assert_eq!(result.result, ResultCode::Applied);
    let answer = worker.exchange(&one, 0).await;
    assert!(
        answer
            .claims
            .iter()
            .all(|start| start.run == worker.runs["a"].held.run),
        "{answer:?}"
    );
    assert_eq!(
        worker.report(&one, "a", complete()).await.result,
        ResultCode::Applied
    );
    assert_eq!(worker.started.len(), 2);
}

/// A report goes to the first server after another has claimed the task for the worker: it is not lost.
#[tokio::test]
async fn a_claim_of_another_server_is_not_lost() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 0).await;
    submit(&client, "a").await;
    within("the claim", async {
        while worker.exchange(&other, 1000).await.claims.is_empty() {}
    })
    .await;
    assert_eq!(
        worker.report(&one, "a", complete()).await.result,
        ResultCode::Applied
    );
}

#[tokio::test]
async fn an_older_request_is_stale() {
    let (store, _) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    for _ in 0..3 {
        worker.exchange(&one, 0).await;
    }
    worker.exchange(&other, 0).await;
    for server in [&one, &other] {
        (worker.seq, worker.settled) = (1, 0);
        let error = worker.send_exchange(server, 0).await.unwrap_err();
        assert!(
            matches!(
                error,
                WorkerError::Stale {
                    seq: 2,
                    last: 3..,
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

/// The server that speaks for a worker went on with the kinds of its first registration.
#[tokio::test]
async fn a_registration_through_another_server_counts() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 0).await;
    let offer = json!({"other": {"slots": 1}});
    worker.try_register(&other, offer).await.unwrap();
    submit(&client, "a").await;
    let task = windlass::NewTask::new("other").id("b");
    client.submit(task).await.unwrap();
    let claims = within("the claim", async {
        loop {
            let claims = worker.exchange(&one, 1000).await.claims;
            if !claims.is_empty() {
                return claims;
            }
        }
    })
    .await;
    assert_eq!((claims.len(), claims[0].kind.as_str()), (1, "other"));
}

/// A field that may be left out may be `null`.
#[test]
fn null_is_the_default_of_a_field() {
    let left_out = json!({"secret": "s", "seq": 1});
    let null = json!({"secret": "s", "seq": 1, "settled": null, "held": null, "pause_kinds": null, "wait_ms": null});
    let read =
        |form| serde_json::from_value::<windlass::workers::protocol::Exchange>(form).unwrap();
    let text = |form| serde_json::to_string(&read(form)).unwrap();
    assert_eq!(text(left_out), text(null));
    let offer = json!({"slots": 1, "reads": null, "grace_ms": null, "signals": null});
    let form = json!({"name": "w", "secret": "s", "kinds": {"k": offer}, "protocol": null, "labels": null,
        "ttl_ms": null, "sdk": null, "host": null, "pid": null});
    serde_json::from_value::<windlass::workers::protocol::Register>(form).unwrap();
    let item = json!({"id": "a", "fence": 1, "run": 1, "n": null, "took": null, "aborted": null, "return": null});
    let form =
        json!({"secret": "s", "seq": 1, "settled": null, "items": [item], "claims_wanted": null});
    serde_json::from_value::<windlass::workers::protocol::ReportItems>(form).unwrap();
}

/// Regression: a worker that comes back to a server after an outage heard of its renewal only when the exchange ended, and
/// had stopped its handlers by then, although the lease was renewed.
#[tokio::test(start_paused = true)]
async fn a_server_tells_of_a_renewal_as_soon_as_it_is_stored() {
    let (store, _) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 0).await;
    one.shutdown().await;
    let wait = 3000;
    let waited = async |worker: &mut Worker, server, wait| {
        let began = tokio::time::Instant::now();
        let answer = worker.exchange(server, wait).await;
        (answer.renewed_seq, began.elapsed().as_millis())
    };
    let (seq, _) = waited(&mut worker, &other, 0).await;
    assert_eq!(seq, 0, "nothing is stored yet");
    let (seq, took) = waited(&mut worker, &other, wait).await;
    assert!(seq > 1 && took < 500, "{seq} after {took} ms");
    // The next exchanges wait for work.
    for _ in 0..3 {
        let (seq, took) = waited(&mut worker, &other, wait).await;
        assert_eq!(seq, worker.seq, "its own");
        assert!(took >= u128::from(wait), "{took} ms");
    }
}
