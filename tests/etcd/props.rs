//! Where the props of a task are kept: apart from the keys that nodes watch, or where nodes of Metafora read them.

use futures::future::join_all;
use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext, TaskId,
    store::{
        Filter, Page, Store,
        examine::{Examination, Finding, Verdict},
    },
};

use crate::{
    server::Server,
    support::{code, keys_below, open, raw, until},
};

/// The keys of the namespace `ns`, with their values.
async fn keys(etcd: &mut etcd_client::Client, prefix: &str) -> Vec<(String, String)> {
    keys_below(etcd, &format!("/ns/{prefix}")).await
}

async fn examine(store: &Store) -> Vec<Finding> {
    let doctor = store.doctor().unwrap();
    doctor.examine(&Examination::default()).await.unwrap()
}

fn with_props(id: &str) -> NewTask {
    NewTask::new("k").id(id).props(&"p".repeat(1000))
}

/// A server with a new namespace `ns`, which has one task with props.
async fn with_a_task(id: &str) -> (Server, Store, Client, etcd_client::Client) {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    client.submit(with_props(id)).await.unwrap();
    let etcd = raw(&server.endpoint()).await;
    (server, store, client, etcd)
}

/// What Metafora's client writes for the task `m`.
async fn submit_as_metafora(etcd: &mut etcd_client::Client) {
    let props = r#"{"id":"m"}"#;
    etcd.put("/ns/tasks/m/props", props, None).await.unwrap();
    etcd.put("/ns/tasks/m", "", None).await.unwrap();
}

async fn is_apart(etcd: &mut etcd_client::Client) -> bool {
    let format = keys(etcd, "meta/fences").await;
    let stored = format.first().map(|(_, value)| value.as_str());
    stored.unwrap_or_default().contains(r#""layout":"compact""#)
}

/// Returns the length of the props.
async fn ends(task: TaskContext) -> Result<Message, BoxError> {
    let props: Option<String> = task.props()?;
    Ok(Message::complete_with(props.map(|text| text.len())))
}

/// A task has its props in its claim, in lists, in the record of its end and in its next incarnation, and none of
/// them are below a key that nodes watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_props_of_a_new_namespace_are_outside_of_the_watched_keys() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let mut etcd = raw(&server.endpoint()).await;
    client.submit(with_props("a")).await.unwrap();
    client
        .submit(NewTask::new("k").id("without"))
        .await
        .unwrap();
    let id: TaskId = "a".parse().unwrap();
    assert!(is_apart(&mut etcd).await);
    let apart = async |etcd: &mut etcd_client::Client| -> Vec<String> {
        let all = keys(etcd, "meta/props/").await.into_iter();
        all.map(|(key, _)| key).collect()
    };
    assert_eq!(apart(&mut etcd).await, ["/ns/meta/props/a"]);
    let watched = ["tasks/", "parked/", "nodes/"];
    for prefix in watched {
        let values = keys(&mut etcd, prefix).await;
        assert!(!format!("{values:?}").contains("ppp"), "{values:?}");
    }
    let expected = format!(r#""{}""#, "p".repeat(1000));
    assert_eq!(client.get(&id).await.unwrap().task.props.as_str(), expected);
    let listed = client.list(&Filter::default(), Page::default()).await;
    assert_eq!(listed.unwrap()[0].task.props.as_str(), expected);

    let node = Runner::builder(&store).node("n").handler("k", ends);
    let node = node.start().await.unwrap();
    for id in ["a", "without"] {
        let id = id.parse().unwrap();
        until("it has ended", async || {
            code(&client, &id)
                .await
                .is_some_and(|code| code.is_terminal())
        })
        .await;
    }
    let ended = client.get(&id).await.unwrap();
    let result = windlass::TaskStatus::Completed {
        result: Some(windlass::Json::new("result", &1000).unwrap()),
    };
    assert_eq!(ended.state.unwrap().status, result);
    assert_eq!(ended.task.props.as_str(), expected);
    assert!(
        apart(&mut etcd).await.is_empty(),
        "they moved to the record"
    );
    node.shutdown().await;

    client.retry(&id).await.unwrap();
    assert_eq!(apart(&mut etcd).await, ["/ns/meta/props/a"]);
    assert_eq!(client.get(&id).await.unwrap().task.props.as_str(), expected);
    let findings = examine(&store).await;
    let wrong = findings
        .iter()
        .filter(|f| f.verdict != Verdict::Ok && !["version", "latency"].contains(&f.check));
    assert_eq!(wrong.count(), 0, "{findings:#?}");
    client.force_delete(&id).await.unwrap();
    assert!(apart(&mut etcd).await.is_empty());
}

/// Metafora's client was there first, and still finds the props.
#[tokio::test]
async fn a_namespace_that_was_used_before_keeps_props_beside_the_task() {
    let server = Server::start();
    let mut etcd = raw(&server.endpoint()).await;
    submit_as_metafora(&mut etcd).await;
    let (_, client) = open(&server.url("ns")).await;
    client.submit(with_props("a")).await.unwrap();
    assert_eq!(keys(&mut etcd, "tasks/a/props").await.len(), 1);
    assert_eq!(keys(&mut etcd, "meta/props/").await.len(), 0);
    // It stays so when all tasks are gone.
    for id in ["a", "m"] {
        client
            .force_delete(&id.parse::<TaskId>().unwrap())
            .await
            .unwrap();
    }
    assert_eq!(keys(&mut etcd, "tasks/").await.len(), 0);
    let (_, client) = open(&server.url("ns")).await;
    client.submit(with_props("b")).await.unwrap();
    assert_eq!(keys(&mut etcd, "tasks/b/props").await.len(), 1);
}

/// Metafora's client needs no mark: its tasks are read in each namespace.
#[tokio::test]
async fn a_task_of_metaforas_client_is_read_where_props_are_apart() {
    let (_server, _, client, mut etcd) = with_a_task("a").await;
    submit_as_metafora(&mut etcd).await;
    assert!(is_apart(&mut etcd).await);
    let id: TaskId = "m".parse().unwrap();
    assert_eq!(
        client.get(&id).await.unwrap().task.props.as_str(),
        r#"{"id":"m"}"#
    );
    client.force_delete(&id).await.unwrap();
    assert_eq!(keys(&mut etcd, "tasks/m").await.len(), 0);
}

/// Metafora's `DeleteTask` deletes the keys below the task, and no others.
#[tokio::test]
async fn a_task_without_props_gets_none_of_a_task_that_metafora_deleted() {
    let (_server, _, client, mut etcd) = with_a_task("u").await;
    let all = etcd_client::DeleteOptions::new().with_prefix();
    etcd.delete("/ns/tasks/u", Some(all)).await.unwrap();
    let again = || NewTask::new("k").id("u").idempotent();
    client.submit(again()).await.unwrap();
    let id: TaskId = "u".parse().unwrap();
    assert_eq!(client.get(&id).await.unwrap().task.props.as_str(), "null");
    client.submit(again()).await.unwrap();
    client.force_delete(&id).await.unwrap();
    assert_eq!(keys(&mut etcd, "meta/props/").await.len(), 0);
}

/// An operation without effect does not decide where props are.
#[tokio::test]
async fn a_command_to_no_task_leaves_a_namespace_undecided() {
    let server = Server::start();
    let (_, client) = open(&server.url("ns")).await;
    let id: TaskId = "nosuch".parse().unwrap();
    client
        .command(&id, windlass::Command::Pause)
        .await
        .unwrap_err();
    client.force_delete(&id).await.unwrap_err();
    client.retry(&id).await.unwrap_err();
    let mut etcd = raw(&server.endpoint()).await;
    assert_eq!(keys(&mut etcd, "").await.len(), 0);
    let shared = format!("{}?metafora-nodes=true", server.url("ns"));
    let (_, client) = open(&shared).await;
    client.submit(with_props("a")).await.unwrap();
}

#[tokio::test]
async fn a_namespace_for_nodes_of_metafora_is_made_with_its_option_and_not_changed_later() {
    let server = Server::start();
    let mut etcd = raw(&server.endpoint()).await;
    let shared = format!("{}?metafora-nodes=true", server.url("ns"));
    let (_, client) = open(&shared).await;
    client.submit(with_props("a")).await.unwrap();
    assert_eq!(keys(&mut etcd, "tasks/a/props").await.len(), 1);
    // The others find the decision of the first.
    let (_, client) = open(&server.url("ns")).await;
    client.submit(with_props("b")).await.unwrap();
    assert_eq!(keys(&mut etcd, "tasks/b/props").await.len(), 1);

    let (_, client) = open(&server.url("other")).await;
    client.submit(with_props("a")).await.unwrap();
    let wrong = format!("{}?metafora-nodes=true", server.url("other"));
    let refused = Store::open(&wrong).await.unwrap_err().to_string();
    assert!(refused.contains("'other' was made without it"), "{refused}");
}

/// A node of Metafora that joins anyway would run tasks without props: the operator is warned.
#[tokio::test]
async fn a_node_of_metafora_where_props_are_apart_is_reported() {
    let (_server, store, _client, mut etcd) = with_a_task("a").await;
    etcd.put("/ns/nodes/go/_metafora", "", None).await.unwrap();
    let findings = examine(&store).await;
    let found = findings.iter().find(|f| f.check == "props").unwrap();
    assert_eq!(found.verdict, Verdict::Error);
    assert!(found.found.contains("go"), "{found:?}");
    assert!(found.advice.contains("metafora-nodes=true"), "{found:?}");
}

/// The first one decides, and all the others follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_first_together_agree() {
    let server = Server::start();
    let mut stores = Vec::new();
    for _ in 0..8 {
        stores.push(open(&server.url("ns")).await);
    }
    let submits = stores.iter().enumerate().map(|(n, (_, client))| {
        let client: Client = client.clone();
        async move { client.submit(with_props(&format!("t{n}"))).await }
    });
    for submitted in join_all(submits).await {
        submitted.unwrap();
    }
    let mut etcd = raw(&server.endpoint()).await;
    assert_eq!(keys(&mut etcd, "meta/props/").await.len(), 8);
    let all = keys(&mut etcd, "tasks/").await;
    assert_eq!(all.len(), 8, "{all:?}");
}

/// A node joins before there is any task: the namespace counts as new.
#[tokio::test]
async fn a_node_that_comes_first_leaves_the_namespace_a_new_one() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let spec = crate::support::spec("n");
    let ttl = std::time::Duration::from_secs(60);
    let _lease = store.coordinator().join(&spec, ttl).await.unwrap();
    client.submit(with_props("a")).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    assert_eq!(keys(&mut etcd, "meta/props/").await.len(), 1);
}
