//! Combined writes within the limits of the server, and leases that stay small.

use std::time::Duration;

use windlass::{
    Command, Json, Outcome, StateKind, Task, TaskId,
    store::{Claimed, Coordinator, Error, Lease, Registry, SendCommand, Submit},
};

use crate::{
    server::Server,
    support::{connect, secs, spec, task, write},
};

async fn claim_all(store: &impl Coordinator, lease: &Lease, ids: &[TaskId]) -> Vec<Claimed> {
    let claimed = store.claim(lease, ids.to_vec()).await.into_iter();
    claimed.map(|claim| claim.unwrap().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_tasks_are_combined_within_the_limits() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let props = Json::new("props", &"x".repeat(900_000)).unwrap();
    let tasks = (0..12).map(|n| {
        let mut submit: Submit = task(&format!("t{n}"));
        submit.task.props = props.clone();
        submit
    });
    let tasks: Vec<Submit> = tasks.collect();
    let ids: Vec<TaskId> = tasks.iter().map(|t| t.task.id.clone()).collect();
    for answer in store.submit(tasks).await {
        answer.unwrap();
    }
    let claimed = claim_all(&store, &lease, &ids).await;
    assert!(claimed.iter().all(|c| c.task.props == props));
    let data =
        windlass::Message::complete().with_json(Json::new("data", &"y".repeat(100_000)).unwrap());
    let commits = claimed
        .iter()
        .map(|claimed| write(claimed, &data))
        .collect();
    for answer in store.commit(commits).await {
        answer.unwrap();
    }
    for id in &ids {
        let record = store.get(id).await.unwrap();
        assert_eq!(record.state.unwrap().code(), StateKind::Completed);
        assert_eq!(record.task.props, props, "it can be retried");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_beyond_a_thousand_are_attached_to_further_leases() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let tasks: Vec<Submit> = (0..2500).map(|n| task(&format!("t{n}"))).collect();
    let ids: Vec<TaskId> = tasks.iter().map(|t| t.task.id.clone()).collect();
    for answer in store.submit(tasks).await {
        answer.unwrap();
    }
    let mut claimed = Vec::new();
    for some in ids.chunks(500) {
        claimed.extend(claim_all(&store, &lease, some).await);
    }
    assert_eq!(store.nodes().await.unwrap()[0].claims, 2500);
    let mut raw = crate::support::raw(&server.endpoint()).await;
    let leases = raw.leases().await.unwrap();
    assert_eq!(leases.leases().len(), 3);
    store.renew(&lease, &Default::default()).await.unwrap();
    let commits = claimed
        .iter()
        .map(|c| write(c, &windlass::Message::checkpoint()));
    for answer in store.commit(commits.collect()).await {
        answer.unwrap();
    }
    store.leave(&lease).await.unwrap();
    let leases = raw.leases().await.unwrap();
    assert!(leases.leases().is_empty());
    let next = store.join(&spec("n"), secs(60)).await.unwrap();
    let again = claim_all(&store, &next, &ids[..500]).await;
    assert!(again.iter().all(|c| !c.abandoned), "they were released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_rejects_hundreds_of_commands() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    store.submit(vec![task("t")]).await;
    let claimed = claim_all(&store, &lease, &["t".parse().unwrap()]).await;
    let sends = (0..300).map(|n| {
        SendCommand::new(
            "t".parse().unwrap(),
            format!("c{n}").parse().unwrap(),
            Command::Run,
        )
    });
    for answer in store.send(sends.collect()).await {
        answer.unwrap();
    }
    let commit = write(&claimed[0], &windlass::Message::complete());
    store.commit(vec![commit]).await.remove(0).unwrap();
    let id = "t".parse().unwrap();
    let commands = store.commands(&id).await.unwrap();
    assert_eq!(commands.len(), 300);
    let is_rejected = |o: &Option<Outcome>| matches!(o, Some(Outcome::Rejected { .. }));
    assert!(commands.iter().all(|c| is_rejected(&c.outcome)));
    store.delete(vec![id]).await.remove(0).unwrap();
    let gone = store.command(&"c299".parse().unwrap()).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_effects_than_a_transaction_takes_are_refused_with_advice() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    store.submit(vec![task("t")]).await;
    for n in 0..8 {
        let send = SendCommand::new(
            "t".parse().unwrap(),
            format!("c{n}").parse().unwrap(),
            Command::Run,
        );
        store.send(vec![send]).await.remove(0).unwrap();
    }
    let claimed = claim_all(&store, &lease, &["t".parse().unwrap()]).await;
    let mut commit = write(&claimed[0], &windlass::Message::checkpoint());
    let new = |n: u32| Task::new(format!("new{n}").parse().unwrap(), "k".parse().unwrap());
    commit.write.effects.submit = (0..200).map(|n| new(n).into()).collect();
    let error = store.commit(vec![commit]).await.remove(0).unwrap_err();
    let expected =
        "effects: are 200 with the guards; the etcd store takes at most 57 in one message";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(!error.is_retryable());
    // The comparisons and writes of the transition count too: its end rejects the waiting commands.
    let mut commit = write(&claimed[0], &windlass::Message::complete());
    commit.write.effects.submit = (0..57).map(|n| new(n).into()).collect();
    let error = store.commit(vec![commit]).await.remove(0).unwrap_err();
    assert!(error.to_string().starts_with("effects: take "), "{error}");
    assert!(error.to_string().contains("--max-txn-ops"), "{error}");
    let commit = write(&claimed[0], &windlass::Message::complete());
    store.commit(vec![commit]).await.remove(0).unwrap();
}

/// A delete without force reads the task before it writes: a claim may come in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_claimed_beside_a_delete_without_force_is_not_deleted() {
    const ROUNDS: usize = 150;
    let server = Server::start();
    let (store, other) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let (mut claims, mut deletes) = (0, 0);
    for round in 0..ROUNDS {
        let id: TaskId = format!("t{round}").parse().unwrap();
        store.submit(vec![task(id.as_str())]).await;
        let claim = async {
            tokio::time::sleep(Duration::from_micros(20 * (round as u64 % 50))).await;
            store.claim(&lease, vec![id.clone()]).await.remove(0)
        };
        let delete = other.delete(vec![id.clone()]);
        let (claimed, mut deleted) = tokio::join!(claim, delete);
        match (claimed.unwrap(), deleted.remove(0)) {
            (Some(_), Err(Error::Claimed(_))) => claims += 1,
            (None, Ok(())) => deletes += 1,
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert!(
        claims > 0 && deletes > 0,
        "{claims} claims, {deletes} deletes"
    );
}
