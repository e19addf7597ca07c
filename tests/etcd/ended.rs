//! The index of ended tasks has one key for each record of an ended task, whatever wrote or removed the record.

use windlass::{
    Client, Message, NewTask, Runner, StateKind, TaskContext, TaskId,
    store::{Filter, Order, Query},
};

use crate::{
    server::Server,
    support::{code, keys_below, open, raw, until},
};

/// The ids in the index and those of the records, each in order.
async fn indexed(etcd: &mut etcd_client::Client) -> (Vec<String>, Vec<String>) {
    let ids = |keys: Vec<(String, String)>| {
        let ids = keys
            .iter()
            .map(|(key, _)| key.rsplit('/').next().unwrap().to_owned());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    };
    let index = keys_below(etcd, "/ns/meta/ended/").await;
    let records = keys_below(etcd, "/ns/finished/").await;
    (ids(index), ids(records))
}

async fn listed(client: &Client) -> Vec<String> {
    let query = Query::new(Filter::default()).order(Order::Ended);
    let page = client.page(&query, None).await.unwrap();
    let tasks = page.tasks.iter();
    tasks.map(|record| record.task.id.to_string()).collect()
}

#[tokio::test]
async fn each_ended_task_has_one_key_in_the_index() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let complete = |_: TaskContext| async { Message::complete() };
    let node = Runner::builder(&store)
        .node("n")
        .retention(None)
        .handler("k", complete)
        .handler("default", complete)
        .start()
        .await
        .unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    let ended = async |name: &str| {
        let id: TaskId = name.parse().unwrap();
        until(&format!("{name} has ended"), async || {
            code(&client, &id).await == Some(StateKind::Completed)
        })
        .await;
    };
    for name in ["a", "b", "c", "d"] {
        client.submit(NewTask::new("k").id(name)).await.unwrap();
        ended(name).await;
    }
    let all = |names: &[&str]| -> (Vec<String>, Vec<String>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        (names.clone(), names)
    };
    assert_eq!(indexed(&mut etcd).await, all(&["a", "b", "c", "d"]));
    assert_eq!(listed(&client).await, ["d", "c", "b", "a"]);

    // A retry takes its key away, and the next end brings one of a later time.
    let first = keys_below(&mut etcd, "/ns/meta/ended/").await[0].0.clone();
    client.retry("a").await.unwrap();
    until("a has ended again", async || {
        let keys = keys_below(&mut raw(&server.endpoint()).await, "/ns/meta/ended/").await;
        keys.len() == 4 && keys.iter().all(|(key, _)| *key != first)
    })
    .await;
    assert_eq!(listed(&client).await, ["a", "d", "c", "b"]);

    // A node of Metafora keeps no time of the end: the state has the time of the list.
    etcd.put("/ns/state/m", r#"{"state":"completed"}"#, None)
        .await
        .unwrap();
    etcd.put("/ns/tasks/m", "", None).await.unwrap();
    until("a node has seen the end of m", async || {
        let found = keys_below(&mut raw(&server.endpoint()).await, "/ns/finished/m").await;
        !found.is_empty()
    })
    .await;
    assert_eq!(indexed(&mut etcd).await, all(&["a", "b", "c", "d", "m"]));
    assert_eq!(listed(&client).await, ["a", "d", "c", "b", "m"]);

    // An import brings its key.
    let transfer = store.transfer().unwrap();
    let ids: Vec<TaskId> = ["b", "c", "m"].map(|id| id.parse().unwrap()).to_vec();
    let exported: Result<Vec<_>, _> = transfer.export(&ids).await.into_iter().collect();
    let exported = exported.unwrap();
    for id in &ids {
        client.force_delete(id).await.unwrap();
    }
    assert_eq!(indexed(&mut etcd).await, all(&["a", "d"]));
    for imported in transfer.import(exported).await {
        imported.unwrap();
    }
    assert_eq!(indexed(&mut etcd).await, all(&["a", "b", "c", "d", "m"]));
    assert_eq!(listed(&client).await, ["a", "d", "c", "b", "m"]);

    for name in ["a", "b", "c", "d", "m"] {
        client.force_delete(name).await.unwrap();
    }
    assert_eq!(indexed(&mut etcd).await, all(&[]));
    node.shutdown().await;
}
