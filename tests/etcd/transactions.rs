//! Transactions of several operations on etcd: races, lost answers, limits, and the records by which a
//! repeat is known.

use std::collections::HashSet;

use windlass::{
    Command, StateKind, TaskId, TransactionId,
    store::{
        ChangeKind, Doctor, Done, Error, Part, Reason, Registry, Require, Reschedule, SendCommand,
        Submitted, Transaction,
        etcd::EtcdStore,
        examine::{Examination, Verdict},
    },
};

use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{connect, raw, task},
};

pub(crate) fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

pub(crate) fn send(task: &str, command: &str) -> SendCommand {
    SendCommand::new(id(task), command.parse().unwrap(), Command::Pause)
}

pub(crate) async fn apply(store: &EtcdStore, transaction: Transaction) -> Result<Vec<Done>, Error> {
    let applied = store.apply(vec![transaction]).await.remove(0)?;
    Ok(applied.done().to_vec())
}

pub(crate) fn refusals(result: Result<Vec<Done>, Error>) -> Vec<(Part, Reason)> {
    match result {
        Err(Error::Refused(refusals)) => {
            let each = refusals.iter();
            each.map(|refusal| (refusal.part, refusal.reason.clone()))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn ids(store: &EtcdStore) -> HashSet<String> {
    let ids = windlass::store::Transfer::ids(store).await.unwrap();
    ids.iter().map(ToString::to_string).collect()
}

/// Each round, every client replaces the one task that holds the turn and brings two tasks of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_clients_that_race_one_wins_and_the_others_change_nothing() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 15;
    let server = Server::start();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&server.url("ns")).await);
    }
    clients[0]
        .submit(vec![task("turn-0")])
        .await
        .remove(0)
        .unwrap();
    for round in 0..ROUNDS {
        let race = clients.iter().enumerate().map(|(client, store)| {
            let transaction = Transaction::new()
                .require(id(&format!("turn-{round}")), Require::Unclaimed)
                .delete(id(&format!("turn-{round}")))
                .submit(task(&format!("turn-{}", round + 1)))
                .submit(task(&format!("{round}-{client}-a")))
                .submit(task(&format!("{round}-{client}-b")));
            apply(store, transaction)
        });
        let results = futures::future::join_all(race).await;
        let winners: Vec<usize> = (0..CLIENTS).filter(|n| results[*n].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        for lost in results.into_iter().filter(Result::is_err) {
            let reasons: Vec<_> = refusals(lost).into_iter().map(|(part, _)| part).collect();
            assert_eq!(reasons[..2], [Part::Guard(0), Part::Operation(0)]);
        }
        let mine = format!("{round}-{}-", winners[0]);
        let all = ids(&clients[0]).await;
        let of_round: HashSet<&str> = all
            .iter()
            .filter(|name| name.starts_with(&format!("{round}-")))
            .map(String::as_str)
            .collect();
        let expected = [format!("{mine}a"), format!("{mine}b")];
        assert_eq!(of_round, expected.iter().map(String::as_str).collect());
        let turns: Vec<&String> = all.iter().filter(|name| name.starts_with("turn")).collect();
        assert_eq!(turns, [&format!("turn-{}", round + 1)]);
    }
}

/// Each requires that the task of the other is absent. One write of both would be after both checks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_one_process_that_exclude_each_other_are_not_written_together() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    for round in 0..30 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let one_without = |one: &str, other: &str| {
            let transaction = Transaction::new().require(id(other), Require::Absent);
            apply(&store, transaction.submit(task(one)))
        };
        let (first, second) = tokio::join!(one_without(&a, &b), one_without(&b, &a));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_without_an_answer_is_applied_once() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let (near, far) = (
        connect(&server.url("ns")).await,
        connect(&proxy.url("ns")).await,
    );
    for name in ["old", "target", "asleep"] {
        near.submit(vec![task(name)]).await.remove(0).unwrap();
    }
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let transaction = Transaction::new()
        .require(id("old"), Require::Exists)
        .submit(task("new"))
        .send(send("target", "c1"))
        .delete(id("old"))
        .reschedule(Reschedule::new(id("asleep")).due(later).priority(3));
    proxy.lose_answer_to(br#""done":["#);
    let done = apply(&far, transaction.clone()).await.unwrap();
    assert_eq!(proxy.lost_answers(), 1);
    let order = near.commands(&id("target")).await.unwrap()[0].order;
    let expected = [
        Done::Submitted(Submitted::New),
        Done::Sent(order),
        Done::Deleted,
        Done::Rescheduled(StateKind::Sleeping),
    ];
    assert_eq!(done, expected);
    // A repeat, also from another process, and after the tasks have changed.
    near.delete(vec![id("new"), id("target")]).await;
    for store in [&near, &far] {
        assert_eq!(apply(store, transaction.clone()).await.unwrap(), expected);
    }
    assert_eq!(ids(&near).await, ["asleep".to_owned()].into());
    let record = near.get(&id("asleep")).await.unwrap();
    assert_eq!(record.task.priority, 3);
    let lines = near.history(&id("asleep"), 10).await.unwrap();
    let rescheduled = lines.iter();
    let is = |what: &ChangeKind| matches!(what, ChangeKind::Rescheduled { .. });
    assert_eq!(rescheduled.filter(|line| is(&line.what)).count(), 1);
}

/// Two writes of the same transaction are under way at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_id_from_several_processes_at_once_is_applied_once() {
    let server = Server::start();
    let (a, b) = (
        connect(&server.url("ns")).await,
        connect(&server.url("ns")).await,
    );
    a.submit(vec![task("t")]).await.remove(0).unwrap();
    for round in 0..20 {
        let name: TransactionId = format!("x{round}").parse().unwrap();
        let transaction = Transaction::new()
            .with_id(name)
            .send(send("t", &format!("c{round}")))
            .submit(task(&format!("t{round}")));
        let (one, two) = (transaction.clone(), transaction.clone());
        let results = tokio::join!(apply(&a, transaction), apply(&b, one), apply(&a, two));
        let first = results.0.unwrap();
        assert_eq!(
            (first.clone(), first),
            (results.1.unwrap(), results.2.unwrap())
        );
    }
    assert_eq!(a.commands(&id("t")).await.unwrap().len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_lives_for_an_hour_on_a_lease_that_processes_share() {
    let server = Server::start();
    let mut etcd = raw(&server.endpoint()).await;
    let mut leases = HashSet::new();
    for n in 0..3 {
        let store = connect(&server.url("ns")).await;
        let name: TransactionId = format!("x{n}").parse().unwrap();
        let transaction = Transaction::new()
            .with_id(name)
            .submit(task(&format!("t{n}")));
        apply(&store, transaction).await.unwrap();
        let key = format!("/ns/meta/transactions/x{n}");
        let record = etcd.get(key, None).await.unwrap();
        leases.insert(record.kvs()[0].lease());
    }
    assert_eq!(leases.len(), 1, "{leases:?}");
    let lease = leases.into_iter().next().unwrap();
    let left = etcd.lease_time_to_live(lease, None).await.unwrap();
    assert!((3601..=7200).contains(&left.ttl()), "{}", left.ttl());
    let store = connect(&server.url("ns")).await;
    let findings = store.examine(&Examination::default()).await.unwrap();
    let keys = findings.iter().find(|found| found.check == "keys");
    assert_eq!(
        keys.map(|found| found.verdict),
        Some(Verdict::Ok),
        "{keys:?}"
    );
    // One that ends within the hour is not used.
    let short = etcd.lease_grant(60, None).await.unwrap().id();
    let on_short = etcd_client::PutOptions::new().with_lease(short);
    let put = etcd.put("/ns/meta/transactions", "", Some(on_short)).await;
    put.unwrap();
    let store = connect(&server.url("ns")).await;
    apply(&store, Transaction::new().submit(task("t3")))
        .await
        .unwrap();
    let shared = etcd.get("/ns/meta/transactions", None).await.unwrap();
    assert_ne!(shared.kvs()[0].lease(), short);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_records_that_is_taken_away_is_replaced() {
    let server = Server::start();
    let mut etcd = raw(&server.endpoint()).await;
    let store = connect(&server.url("ns")).await;
    for n in 0..3 {
        let transaction = Transaction::new().submit(task(&format!("t{n}")));
        let done = apply(&store, transaction).await.unwrap();
        assert_eq!(done, [Done::Submitted(Submitted::New)]);
        let shared = etcd.get("/ns/meta/transactions", None).await.unwrap();
        etcd.lease_revoke(shared.kvs()[0].lease()).await.unwrap();
    }
}

/// Commands and history that do not fit into one write are deleted after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_and_replaced_tasks_take_their_commands_along() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    for name in ["a", "b"] {
        store.submit(vec![task(name)]).await.remove(0).unwrap();
        let sends = (0..150).map(|n| send(name, &format!("{name}{n:03}")));
        for sent in store.send(sends.collect()).await {
            sent.unwrap();
        }
    }
    let both = Transaction::new().delete(id("a")).delete(id("b"));
    apply(&store, both).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    for folder in ["commands/", "tasks/", "outcomes/", "history/"] {
        let options = etcd_client::GetOptions::new().with_prefix();
        let left = etcd.get(format!("/ns/{folder}"), Some(options)).await;
        let left = left.unwrap();
        let keys: Vec<_> = left.kvs().iter().map(|kv| kv.key_str()).collect();
        assert!(keys.is_empty(), "{keys:?}");
    }
}
