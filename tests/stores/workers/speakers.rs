//! A server that speaks for a worker in the place of another, which does not know that yet.

use std::time::Duration;

use serde_json::json;
use windlass::{Command, StateKind, store::NodeCommand, workers::protocol::ResultCode};

use super::support::{Worker, complete, memory, server, submit, within};

/// The exchange that a worker has left open at its first server gets no claim.
#[tokio::test]
async fn a_server_that_no_longer_speaks_claims_nothing() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 0).await;
    let mut left = Worker::new("w");
    left.seq = worker.seq;
    worker.seq += 1;
    worker.settled = worker.seq;
    let moved = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        worker.exchange(&other, 0).await;
        submit(&client, "a").await;
        // Only the first server has an open exchange.
        tokio::time::sleep(Duration::from_millis(500)).await;
        within("the claim", async {
            while worker.runs.is_empty() {
                worker.exchange(&other, 1000).await;
            }
        })
        .await;
    };
    let (answer, ()) = tokio::join!(left.send_exchange(&one, 3700), moved);
    let claims = answer.map_or_else(|_| Vec::new(), |answer| answer.claims);
    assert!(claims.is_empty(), "{claims:?}");
    let state = client.get("a").await.unwrap().state.unwrap();
    assert_eq!((state.claims, state.attempts), (1, 0));
}

/// The first server applies a report because it believes that it still speaks. The other one, which speaks, reads that before
/// it judges the run.
#[tokio::test]
async fn a_run_of_another_server_is_not_lost() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    worker.exchange(&other, 0).await;
    let next = json!({"return": {"message": "run", "data": 1}});
    assert_eq!(
        worker.report(&one, "a", next).await.result,
        ResultCode::Applied
    );
    assert_eq!(worker.started.len(), 2, "the answer has the next run");
    let answer = worker.exchange(&other, 0).await;
    assert!(
        answer.lost.is_empty() && answer.stop.is_empty() && answer.claims.is_empty(),
        "{answer:?}"
    );
    assert_eq!(
        worker.report(&other, "a", complete()).await.result,
        ResultCode::Applied
    );
}

/// The first server knows an earlier claim of the task, of which it has applied a report with the same number: the report of
/// the present claim, which the other server has made, is not taken for that one.
#[tokio::test]
async fn a_number_of_an_earlier_claim_says_nothing_about_the_present_one() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    let checkpoint = || json!({"checkpoint": 1});
    let first = worker.report(&one, "a", checkpoint()).await;
    assert_eq!((first.n, first.result), (1, ResultCode::Applied));
    worker.exchange(&other, 0).await;
    let sleep = json!({"return": {"message": "sleep", "until": "in 1ms"}});
    let slept = worker.report(&other, "a", sleep).await;
    assert_eq!(slept.result, ResultCode::Applied);
    within("the second claim", async {
        while worker.runs.is_empty() {
            worker.exchange(&other, 1000).await;
        }
    })
    .await;
    let second = worker.report(&one, "a", checkpoint()).await;
    assert_eq!((second.n, second.result), (1, ResultCode::Applied));
    let done = worker.report(&one, "a", complete()).await;
    assert_eq!(done.result, ResultCode::Applied);
}

/// The first server, which no longer speaks, applies a return whose answer is lost. The other one, which knows an earlier state
/// of the claim, answers the same return like the first.
#[tokio::test]
async fn a_return_that_another_server_has_applied_is_not_refused() {
    for (end, state) in [
        ("complete", StateKind::Completed),
        ("pause", StateKind::Paused),
    ] {
        let (store, client) = memory().await;
        let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
        worker.register(&one, 1).await;
        submit(&client, "a").await;
        worker.exchange(&one, 3000).await;
        let checkpoint = json!({"checkpoint": 1});
        worker.report(&one, "a", checkpoint.clone()).await;
        worker.exchange(&other, 0).await;
        worker.report(&one, "a", checkpoint).await;
        let before = worker.runs.clone();
        let ends = || json!({"return": {"message": end}});
        assert_eq!(worker.report(&one, "a", ends()).await.state, Some(state));
        worker.runs = before;
        let again = worker.report(&other, "a", ends()).await;
        assert_eq!(
            (again.result, again.state),
            (ResultCode::Applied, Some(state))
        );
    }
}

/// A server that another one replaces has seen the commands of operators which that one has answered: it carries none of
/// them out again.
#[tokio::test]
async fn an_answered_command_is_not_carried_out_by_the_next_server() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    // The other server watches from here on.
    worker.register(&other, 1).await;
    submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    for command in [NodeCommand::Drain, NodeCommand::Unfreeze] {
        let sent = client.command_node("w", command.clone()).await.unwrap();
        within("the answer to an operator", async {
            while client.node_outcome(sent).await.unwrap().is_none() {
                let stops = worker.exchange(&one, 100).await.stop;
                if !stops.is_empty() {
                    let release = json!({"return": {"message": "release"}});
                    worker.report(&one, "a", release).await;
                }
            }
        })
        .await;
    }
    within("the next claim", async {
        while worker.runs.is_empty() {
            worker.exchange(&one, 1000).await;
        }
    })
    .await;
    // A drain that is carried out again would stop the run.
    for wait_ms in [0, 1000] {
        let answer = worker.exchange(&other, wait_ms).await;
        assert!(!answer.drain && answer.stop.is_empty(), "{answer:?}");
    }
}

/// A command of an operator that the server before has not answered is carried out by the next one.
#[tokio::test]
async fn an_open_command_is_carried_out_by_the_next_server() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.register(&other, 1).await;
    submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    one.shutdown().await;
    let sent = client.command_node("w", NodeCommand::Drain).await.unwrap();
    within("the stop", async {
        while worker.exchange(&other, 1000).await.stop.is_empty() {}
    })
    .await;
    let release = json!({"return": {"message": "release"}});
    worker.report(&other, "a", release).await;
    within("the answer to an operator", async {
        while client.node_outcome(sent).await.unwrap().is_none() {
            worker.exchange(&other, 100).await;
        }
    })
    .await;
}

/// A renewal waits for others. One of the server before left the worker with the status that it had there.
#[tokio::test]
async fn a_late_renewal_of_the_server_before_keeps_the_status() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.register(&other, 1).await;
    let frozen = async || {
        let nodes = client.nodes().await.unwrap();
        let mut workers = nodes.iter().filter(|node| node.spec.worker.is_some());
        workers.next().unwrap().status.frozen
    };
    for round in 0..5 {
        // Its renewal is stored 200 ms from now.
        worker.exchange(&one, 0).await;
        worker.exchange(&other, 0).await;
        let command = match round % 2 {
            0 => NodeCommand::Freeze,
            _ => NodeCommand::Unfreeze,
        };
        let sent = client.command_node("w", command).await.unwrap();
        within("the answer to an operator", async {
            while client.node_outcome(sent).await.unwrap().is_none() {
                worker.exchange(&other, 20).await;
            }
        })
        .await;
        for _ in 0..20 {
            assert_eq!(frozen().await, round % 2 == 0, "round {round}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The first server has sent a run in an answer that is late. The other one, which takes its place, is to end that run: it does
/// not give the task away before it knows whether the worker has got the answer.
#[tokio::test]
async fn a_run_that_another_server_may_have_sent_is_not_given_away() {
    for arrives in [true, false] {
        for kills in [true, false] {
            let (store, client) = memory().await;
            let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
            worker.register(&one, 1).await;
            let id = submit(&client, "a").await;
            worker.exchange(&one, 3000).await;
            let next = worker.item("a", json!({"return": {"message": "run"}}));
            let late = worker.send_report(&one, vec![next], true).await.unwrap();
            assert_eq!(late.claims.len(), 1, "the answer has the next run");
            worker.runs.clear();
            match kills {
                true => drop(client.command(&id, Command::Kill).await.unwrap()),
                false => drop(client.command_node("w", NodeCommand::Drain).await.unwrap()),
            }
            let answer = worker.send_exchange(&other, 500).await.unwrap();
            assert!(answer.claims.is_empty(), "it is to end: {answer:?}");
            worker.take(&answer.claims);
            assert!(client.get(&id).await.unwrap().node.is_some());
            if arrives {
                worker.take(&late.claims);
                let answer = worker.exchange(&other, 500).await;
                assert_eq!(answer.stop.len(), 1, "{answer:?}");
                let aborted = worker.report(&other, "a", json!({"aborted": true})).await;
                assert_eq!(aborted.result, ResultCode::Applied);
            } else {
                worker.settled = worker.seq;
                let answer = worker.exchange(&other, 500).await;
                assert!(answer.claims.is_empty(), "{answer:?}");
            }
            let record = client.get(&id).await.unwrap();
            assert_eq!(record.node, None, "{arrives}, {kills}");
            let state = record.state.unwrap().code();
            assert_eq!(state == StateKind::Killed, kills, "{state}");
        }
    }
}

/// An exchange reaches the other server after the first one has answered the request behind it, with a run. The exchange does not
/// show that run: the other server ended it, and the next worker started the task while this one ran it.
#[tokio::test]
async fn a_late_exchange_does_not_show_that_a_later_answer_was_not_sent() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    worker.exchange(&one, 0).await;
    let mut late = Worker::new("w");
    (late.seq, late.settled) = (worker.seq, worker.seq);
    worker.seq += 1;
    let id = submit(&client, "a").await;
    worker.exchange(&one, 3000).await;
    assert_eq!(worker.started.len(), 1, "the first server has sent the run");
    client.command(&id, Command::Kill).await.unwrap();
    late.send_exchange(&other, 0).await.unwrap();
    let record = client.get(&id).await.unwrap();
    assert!(record.node.is_some(), "{record:?}");
    let answer = worker.exchange(&other, 500).await;
    assert_eq!(answer.stop.len(), 1, "{answer:?}");
    let aborted = worker.report(&other, "a", json!({"aborted": true})).await;
    assert_eq!(aborted.state, Some(StateKind::Killed));
}

/// The first server has claimed a task, and has sent its run to nobody. The other one, which takes its place, has sent it: a kill
/// ends the task when the worker has ended the run, and the first server does not apply it before.
#[tokio::test]
async fn a_server_that_no_longer_speaks_ends_no_run() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    worker.register(&one, 1).await;
    let mut left = Worker::new("w");
    let mut open = Box::pin(left.send_exchange(&one, 3700));
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut open).await;
    assert!(waits.is_err(), "it waits for work");
    // From here on nothing takes its answer.
    let id = submit(&client, "a").await;
    within("the claim", async {
        while client.get(&id).await.unwrap().node.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    worker.seq = 1;
    worker.exchange(&other, 0).await;
    assert_eq!(worker.started.len(), 1, "the other server has sent the run");
    client.command(&id, Command::Kill).await.unwrap();
    let stop = within("the stop", async {
        loop {
            if let Some(stop) = worker.exchange(&other, 500).await.stop.pop() {
                return stop;
            }
        }
    });
    assert_eq!(stop.await.reason, "command");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let record = client.get(&id).await.unwrap();
    assert!(record.node.is_some(), "{record:?}");
    let aborted = worker.report(&other, "a", json!({"aborted": true})).await;
    assert_eq!(aborted.state, Some(StateKind::Killed));
    drop(open);
}
