//! How large a transaction of several operations may be on etcd.

use std::time::Duration;

use windlass::{
    Client, NewTask,
    store::{Registry, Reschedule, Store, Transaction, etcd::EtcdStore},
};

use crate::{
    server::Server,
    support::{connect, task},
    transactions::{apply, id, ids, send},
};

fn most_of(store: &EtcdStore) -> usize {
    Registry::limits(store).max_operations
}

/// The URL allows more than the servers accept: the first refusal teaches the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_over_the_limit_of_the_servers_names_the_number() {
    let limited = |operations: u32| {
        Server::start_with(
            "http",
            &["--max-txn-ops".to_owned(), operations.to_string()],
        )
    };
    let of = |count: usize| {
        let tasks = (0..count).map(|n| task(&format!("t{n}")));
        tasks.fold(Transaction::new(), Transaction::submit)
    };
    let server = limited(24);
    for (url, most) in [
        (format!("{}?max-txn-ops=24", server.url("given")), 5),
        (server.url("learned"), 57),
    ] {
        let store = connect(&url).await;
        assert_eq!(most_of(&store), most);
        let refused = apply(&store, of(50)).await.unwrap_err();
        assert!(!refused.is_retryable());
        let text = refused.to_string();
        let number = most_of(&store);
        assert!(number < 50 && text.starts_with("operations: "), "{text}");
        assert!(text.contains("at most"), "{text}");
        assert!(ids(&store).await.is_empty());
        let done = apply(&store, of(number)).await.unwrap();
        assert_eq!(done.len(), number);
    }
    let store = connect(&server.url("deletes")).await;
    store
        .submit((0..5).map(|n| task(&format!("t{n}"))).collect())
        .await;
    let deletes = (0..5).map(|n| id(&format!("t{n}")));
    let all = deletes.fold(Transaction::new(), Transaction::delete);
    let refused = apply(&store, all).await;
    let text = refused.err().map(|e| e.to_string());
    assert!(text.is_none_or(|text| text.contains("--max-txn-ops")));
}

/// Regression: a dry run counted only the operations, not their comparisons and writes on etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_refuses_what_the_servers_would_refuse() {
    let server = Server::start();
    let client = Client::new(&Store::open(&server.url("ns")).await.unwrap());
    let hour = Duration::from_secs(3600);
    let of = |count: usize| {
        (0..count).fold(client.transaction(), |all, n| {
            let key = format!("k{n}");
            all.submit(NewTask::new("k").id(format!("t{n}")).unique(key, hour))
        })
    };
    let most = client.store().registry().limits().max_operations;
    let checked = of(most - 1).check().await.unwrap_err().to_string();
    let refused = of(most - 1).commit().await.unwrap_err().to_string();
    assert_eq!(checked, refused);
    assert!(checked.contains("operations of etcd"), "{checked}");
    of(most / 3).check().await.unwrap();
    assert!(ids(&connect(&server.url("ns")).await).await.is_empty());
    of(most / 3).commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_transaction_of_each_operation_fits_the_servers() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let most = most_of(&store);
    let names: Vec<String> = (0..most).map(|n| format!("t{n}")).collect();
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let submits = names.iter().fold(Transaction::new(), |all, name| {
        let mut submit = task(name);
        submit.task.start_at = Some(later);
        submit.task.props = windlass::Json::new("props", name).unwrap();
        all.submit(submit)
    });
    assert_eq!(apply(&store, submits).await.unwrap().len(), most);
    let sends = names.iter().fold(Transaction::new(), |all, name| {
        all.send(send(name, &format!("c-{name}")))
    });
    assert_eq!(apply(&store, sends).await.unwrap().len(), most);
    let orders: Vec<u64> = futures::future::join_all(
        names
            .iter()
            .map(|name| async { store.get(&id(name)).await.unwrap().order }),
    )
    .await;
    assert!(
        orders.is_sorted_by(|a, b| a < b),
        "in the order of the operations"
    );
    // A deletion compares three keys, a reschedule four.
    for names in names.chunks(25) {
        let soon = names.iter().fold(Transaction::new(), |all, name| {
            all.reschedule(Reschedule::new(id(name)).due(later).priority(1))
        });
        assert_eq!(apply(&store, soon).await.unwrap().len(), names.len());
        let deletes = names.iter().map(|name| id(name));
        let deletes = deletes.fold(Transaction::new(), Transaction::delete);
        assert_eq!(apply(&store, deletes).await.unwrap().len(), names.len());
    }
    assert!(ids(&store).await.is_empty());
}
