//! Stops: commands, graces, and commands of operators to workers.

use std::{collections::HashSet, time::Duration};

use serde_json::json;
use windlass::{
    Client, Command, Limit, NewTask, StateKind,
    store::{NodeCommand, NodeCommandId},
    workers::{
        Workers,
        protocol::{Exchanged, ResultCode, RunPhase},
    },
};

use super::support::{Worker, complete, memory, server, submit, within};

/// Exchanges until the answer has a stop.
async fn stopped(worker: &mut Worker, server: &Workers) -> Exchanged {
    within("a stop", async {
        loop {
            let answer = worker.exchange(server, 3000).await;
            if !answer.stop.is_empty() {
                return answer;
            }
        }
    })
    .await
}

/// Exchanges until a command of an operator is answered, and returns the answer.
async fn answered(
    client: &Client,
    server: &Workers,
    worker: &mut Worker,
    command: NodeCommandId,
) -> String {
    within("the answer to an operator", async {
        loop {
            if let Some(outcome) = client.node_outcome(command).await.unwrap() {
                return outcome;
            }
            worker.exchange(server, 100).await;
        }
    })
    .await
}

/// The answer to a report starts a run while an exchange is open that does not hold it.
#[tokio::test]
async fn an_open_exchange_stops_a_run_that_a_later_answer_has_started() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let next = submit(&client, "b").await;
    worker.exchange(&server, 3000).await;
    let item = worker.item("a", complete());
    let mut waiting = Worker::new("w");
    (waiting.seq, waiting.settled) = (worker.seq, worker.settled);
    waiting.runs = worker.runs.clone();
    worker.seq += 1;
    let report = async {
        // The exchange waits by then: a report that is handled before it would make it stale.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let report = worker.send_report(&server, vec![item], true).await.unwrap();
        assert_eq!(report.claims[0].id, next);
        client.command(&next, Command::Pause).await.unwrap();
    };
    let (answer, ()) = tokio::join!(waiting.send_exchange(&server, 3500), report);
    let stops = answer.unwrap().stop;
    assert_eq!(stops.len(), 1, "the exchange has waited for its whole time");
    assert_eq!(stops[0].id, next);
    assert_eq!(stops[0].command, Some(Command::Pause));
}

#[tokio::test]
async fn a_command_stops_a_run() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    client.command(&id, Command::Pause).await.unwrap();
    let stop = stopped(&mut worker, &server).await.stop.remove(0);
    assert_eq!((stop.reason.as_str(), stop.grace_ms), ("command", 2000));
    assert_eq!(stop.command, Some(Command::Pause));
    worker.runs.get_mut("a").unwrap().held.took = stop.order.unwrap();
    worker.phase("a", RunPhase::Stopping);
    let answer = worker.exchange(&server, 0).await;
    assert!(answer.stop.is_empty(), "it knows: {answer:?}");
    let paused = json!({"return": {"message": "pause", "data": 7}});
    let result = worker.report(&server, "a", paused).await;
    assert_eq!(
        (result.result, result.state),
        (ResultCode::Applied, Some(StateKind::Paused))
    );
    client.command(&id, Command::Run).await.unwrap();
    let claims = worker.exchange(&server, 3000).await.claims;
    assert_eq!(claims[0].data.as_ref().unwrap().as_str(), "7");
}

#[tokio::test]
async fn an_aborted_run_is_settled() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    client.command(&id, Command::Kill).await.unwrap();
    stopped(&mut worker, &server).await;
    worker.phase("a", RunPhase::Stopping);
    let result = worker.report(&server, "a", json!({"aborted": true})).await;
    assert_eq!(
        (result.result, result.state),
        (ResultCode::Applied, Some(StateKind::Killed))
    );
}

/// A worker that does not report the end of a run for longer than the grace and 5 s: the server settles it, and says that
/// the claim is lost.
#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_settled_by_the_server() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    client.command(&id, Command::Pause).await.unwrap();
    stopped(&mut worker, &server).await;
    worker.phase("a", RunPhase::Stopping);
    let begun = tokio::time::Instant::now();
    let mut lost = Vec::new();
    while lost.is_empty() {
        lost = worker.exchange(&server, 3000).await.lost;
        assert!(
            begun.elapsed().as_secs() < 20,
            "not settled after {:?}",
            begun.elapsed()
        );
    }
    assert!(
        begun.elapsed().as_secs_f64() >= 6.5,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        client.get(id.as_str()).await.unwrap().state.unwrap().code(),
        StateKind::Paused
    );
    worker.take(&[]);
}

/// A command for a run that no answer has carried yet takes effect at once.
#[tokio::test]
async fn a_run_that_was_not_sent_needs_no_grace() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    client.command(&id, Command::Kill).await.unwrap();
    let answer = worker.exchange(&server, 1000).await;
    assert!(answer.claims.is_empty(), "{answer:?}");
    let record = within("the kill", client.wait(&id)).await.unwrap();
    assert_eq!(record.code(), StateKind::Killed);
}

#[tokio::test]
async fn a_deleted_task_is_lost() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    let run = worker.exchange(&server, 3000).await.claims[0].clone();
    client.force_delete(&id).await.unwrap();
    let lost = within("the loss", async {
        loop {
            let lost = worker.exchange(&server, 3000).await.lost;
            if !lost.is_empty() {
                return lost;
            }
        }
    })
    .await;
    assert_eq!((&lost[0].id, lost[0].fence), (&run.id, run.fence));
    assert!(worker.runs.is_empty());
}

#[tokio::test]
async fn a_worker_is_drained_frozen_and_unfrozen() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 2).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let node = "w";
    let drain = client.command_node(node, NodeCommand::Drain).await.unwrap();
    let answer = stopped(&mut worker, &server).await;
    assert!(
        answer.drain && answer.stop[0].reason == "drain",
        "{answer:?}"
    );
    let releases = json!({"return": {"message": "release"}});
    assert_eq!(
        worker.report(&server, "a", releases).await.result,
        ResultCode::Applied
    );
    let outcome = answered(&client, &server, &mut worker, drain).await;
    assert_eq!(outcome, "drained");
    assert!(
        worker.exchange(&server, 1500).await.claims.is_empty(),
        "a drained worker gets nothing"
    );
    client
        .command_node(node, NodeCommand::Unfreeze)
        .await
        .unwrap();
    within("the next claim", async {
        while worker.exchange(&server, 1000).await.claims.is_empty() {}
    })
    .await;
    assert_eq!(
        worker.report(&server, "a", complete()).await.result,
        ResultCode::Applied
    );
    within("the end", client.wait(&id)).await.unwrap();
}

#[tokio::test]
async fn a_task_is_stopped_on_a_worker() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let stop = NodeCommand::StopTask { task: id.clone() };
    let order = client.command_node("w", stop).await.unwrap();
    let answer = stopped(&mut worker, &server).await;
    assert_eq!(answer.stop[0].reason, "stop-task");
    let releases = json!({"return": {"message": "release"}});
    worker.report(&server, "a", releases).await;
    let outcome = answered(&client, &server, &mut worker, order).await;
    assert_eq!(outcome, "released");
}

#[tokio::test]
async fn a_task_that_is_released_while_signals_wait_runs_again() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    let mut sent = Vec::new();
    for n in 0..2 {
        let signal = Command::signal("add", &n).unwrap();
        sent.push(client.command(&id, signal).await.unwrap());
    }
    for (n, signal) in sent.iter().enumerate() {
        within("a run", async {
            while worker.runs.is_empty() {
                worker.exchange(&server, 3000).await;
            }
        })
        .await;
        let order = worker.runs["a"].start.signals[0].order;
        let reply = json!({"answer": {"signal": order, "reply": n}});
        let answered = worker.report(&server, "a", reply).await;
        assert_eq!(answered.result, ResultCode::Applied);
        let released = json!({"return": {"message": "release"}});
        let released = worker.report(&server, "a", released).await;
        assert_eq!(released.state, Some(StateKind::Runnable));
        client.wait_outcome(signal).await.unwrap();
    }
}

#[tokio::test]
async fn each_attempt_of_a_task_with_a_limit_on_starts_has_a_claim_of_its_own() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let limit = Limit::starts("api", 100, Duration::from_secs(1)).unwrap();
    let task = NewTask::new("k").id("a").limit(limit);
    client.submit(task).await.unwrap();
    let mut fences = HashSet::new();
    for message in [
        json!({"message": "sleep", "until": "in 10ms"}),
        json!({"message": "error", "error": "no"}),
        json!({"message": "complete"}),
    ] {
        within("a run", async {
            while worker.runs.is_empty() {
                worker.exchange(&server, 3000).await;
            }
        })
        .await;
        fences.insert(worker.runs["a"].held.fence);
        let result = worker
            .report(&server, "a", json!({ "return": message }))
            .await;
        assert_eq!(result.result, ResultCode::Applied, "{result:?}");
    }
    assert_eq!(fences.len(), 3, "as many claims as attempts");
}

/// Regression: the server settled a run whose worker had not heard of the stop, and the next worker started the task while
/// the first one ran it.
#[tokio::test(start_paused = true)]
async fn a_run_whose_worker_has_not_heard_of_its_stop_is_not_settled_by_the_server() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    client.command(&id, Command::Pause).await.unwrap();
    // Reports reach the server, and no exchange does: only their answers have stops.
    for step in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let checkpoint = json!({"checkpoint": step});
        let stored = worker.report(&server, "a", checkpoint).await;
        assert_eq!(stored.result, ResultCode::Applied, "after {step} s");
    }
    stopped(&mut worker, &server).await;
    worker.phase("a", RunPhase::Stopping);
    // The grace counts from here.
    for _ in 0..6 {
        let answer = worker.exchange(&server, 0).await;
        assert!(answer.lost.is_empty(), "{answer:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let paused = json!({"return": {"message": "pause"}});
    let result = worker.report(&server, "a", paused).await;
    assert_eq!(result.state, Some(StateKind::Paused), "{result:?}");
}
