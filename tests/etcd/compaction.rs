//! Nodes that compact the history of their etcd, and nodes that are not configured to.

use std::time::Duration;

use windlass::{
    clock::SystemClock,
    store::{
        Coordinator, Error, Lease, NodeStatus, Registry, Transfer,
        etcd::{EtcdStore, Options},
    },
};

use crate::{
    server::Server,
    support::{raw, secs, spec, task, until},
};

/// A node that maintains its servers with every renewal.
async fn node(url: &str, name: &str, compact_after: Option<Duration>) -> (EtcdStore, Lease) {
    let mut options = Options::parse(url).unwrap();
    options.compact_after = compact_after;
    options.look_every = Duration::ZERO;
    let store = EtcdStore::connect(options, SystemClock::shared()).await;
    let store = store.unwrap();
    let lease = store.join(&spec(name), secs(60)).await.unwrap();
    (store, lease)
}

async fn renew(nodes: &[(EtcdStore, Lease)]) {
    for (store, lease) in nodes {
        store.renew(lease, &NodeStatus::default()).await.unwrap();
    }
}

/// Whether a read as of this revision is refused.
async fn is_compacted(etcd: &mut etcd_client::Client, revision: i64) -> bool {
    let then = etcd_client::GetOptions::new().with_revision(revision);
    match etcd.get("/ns/tasks/a", Some(then)).await {
        Ok(_) => false,
        Err(e) => {
            assert!(e.to_string().contains("has been compacted"), "{e}");
            true
        }
    }
}

async fn revision(etcd: &mut etcd_client::Client) -> i64 {
    let now = etcd.get("x", None).await.unwrap();
    now.header().unwrap().revision()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_older_than_configured_is_compacted() {
    let server = Server::start();
    let after = Some(Duration::from_millis(1200));
    let nodes = [
        node(&server.url("ns"), "a", after).await,
        node(&server.url("ns"), "b", after).await,
    ];
    let store = &nodes[0].0;
    store.submit(vec![task("a")]).await;
    let mut etcd = raw(&server.endpoint()).await;
    let old = revision(&mut etcd).await;
    assert!(!is_compacted(&mut etcd, old).await);
    store.submit(vec![task("b")]).await;
    until("the history is compacted", async || {
        renew(&nodes).await;
        is_compacted(&mut etcd, old).await
    })
    .await;
    // The tasks exist, and a feed from before the compaction reports that it must start again.
    assert_eq!(store.ids().await.unwrap().len(), 2);
    let after = u64::try_from(old).unwrap() * 4096;
    let error = store.changes(Some(after)).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(error.to_string().contains("is pruned"), "{error}");
    // It continues, with what comes later.
    let later = revision(&mut etcd).await;
    store.submit(vec![task("c")]).await;
    until("and again", async || {
        renew(&nodes).await;
        is_compacted(&mut etcd, later).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn younger_history_is_kept_and_all_of_it_without_the_option() {
    let server = Server::start();
    let (off, on) = (None, Some(secs(3600)));
    let nodes = [
        node(&server.url("ns"), "off", off).await,
        node(&server.url("ns"), "on", on).await,
    ];
    let store = &nodes[0].0;
    store.submit(vec![task("a")]).await;
    let mut etcd = raw(&server.endpoint()).await;
    let old = revision(&mut etcd).await;
    store.submit(vec![task("b")]).await;
    let mark = async || etcd.clone().get("/ns/meta/compaction", None).await.unwrap();
    renew(&nodes[..1]).await;
    renew(&nodes[..1]).await;
    assert_eq!(mark().await.count(), 0, "not asked for: nothing is noted");
    until("the other notes the time", async || {
        renew(&nodes).await;
        mark().await.count() == 1
    })
    .await;
    let first = mark().await.kvs()[0].mod_revision();
    for _ in 0..20 {
        renew(&nodes).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(mark().await.kvs()[0].mod_revision(), first, "not due");
    assert!(!is_compacted(&mut etcd, old).await);
}
