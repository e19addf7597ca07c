//! Transactions of several operations, and the table that remembers them.

use windlass::store::{
    Coordinator, Done, Error, IfExists, Registry, Submit, Submitted, Transaction,
    sqlite::SqliteStore,
};

use super::support::*;

fn submits(names: impl IntoIterator<Item = String>) -> Transaction {
    let submits = names.into_iter().map(|name| Submit {
        task: task(&name),
        if_exists: IfExists::Refuse,
    });
    submits.fold(Transaction::new(), Transaction::submit)
}

fn two(a: &str, b: &str) -> Transaction {
    submits([a.to_owned(), b.to_owned()])
}

async fn apply(store: &SqliteStore, transaction: &Transaction) -> Result<Vec<Done>, Error> {
    let answer = store.apply(vec![transaction.clone()]).await.remove(0);
    answer.map(|applied| applied.done().to_vec())
}

#[tokio::test]
async fn a_transaction_is_forgotten_after_an_hour_and_not_before() {
    let file = file();
    let store = file.open().await;
    let (old, young) = (two("a", "b"), two("c", "d"));
    for transaction in [&old, &young] {
        apply(&store, transaction).await.unwrap();
    }
    let age = |transaction: &Transaction, minutes: i64| {
        let id = transaction.id().unwrap().as_str().to_owned();
        let micros = minutes * 60_000_000;
        let update = "UPDATE windlass_transactions SET at = at - ?2 WHERE id = ?1";
        let aged = file.raw().execute(update, (id, micros)).unwrap();
        assert_eq!(aged, 1);
    };
    age(&old, 61);
    age(&young, 59);
    store.maintain(None).await.unwrap();
    apply(&store, &young).await.unwrap();
    let again = apply(&store, &old).await;
    assert!(matches!(again, Err(Error::Refused(_))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_apply_a_transaction_once() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    for n in 0..20 {
        let name = format!("t{n}");
        submit(&a, &name).await;
        let swap = two(&format!("{name}-a"), &format!("{name}-b")).delete(id(&name));
        let (first, second) = tokio::join!(apply(&a, &swap), apply(&b, &swap));
        let new = || Done::Submitted(Submitted::New);
        assert_eq!(first.unwrap(), [new(), new(), Done::Deleted]);
        assert_eq!(second.unwrap(), [new(), new(), Done::Deleted]);
    }
}

#[tokio::test]
async fn ten_thousand_operations_are_one_transaction() {
    let file = file();
    let store = file.open().await;
    let most = Registry::limits(&store).max_operations;
    assert_eq!(most, 10_000);
    let large = submits((0..most).map(|n| format!("t{n}")));
    assert_eq!(apply(&store, &large).await.unwrap().len(), most);
    let refused = apply(&store, &large.delete(id("t1"))).await.unwrap_err();
    assert!(refused.to_string().contains("10001"), "{refused}");
}

#[tokio::test]
async fn a_result_that_cannot_be_read_is_reported_and_nothing_is_applied_again() {
    let file = file();
    let store = file.open().await;
    let transaction = two("a", "b");
    apply(&store, &transaction).await.unwrap();
    file.raw()
        .execute("UPDATE windlass_transactions SET answer = '{'", ())
        .unwrap();
    let error = apply(&store, &transaction).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Corrupt { .. }), "{text}");
    assert!(text.contains(transaction.id().unwrap().as_str()), "{text}");
}
