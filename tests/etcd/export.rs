//! A namespace goes through a file into another one and into another store.

use std::time::Duration;

use etcd_client::GetOptions;
use windlass::{
    BoxError,
    clock::SystemClock,
    store::{
        Coordinator, NodeStatus, Registry, Store, Transfer,
        etcd::{EtcdStore, Options},
    },
};

use crate::{
    exported::{fill, pass},
    server::Server,
    support::{open, raw, secs, spec, task, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sort_of_task_goes_through_a_file_from_layout_to_layout() -> Result<(), BoxError> {
    let server = Server::start();
    let (first, _) = open(&server.url("first")).await;
    fill(&first).await?;
    let shared = format!("{}?metafora-nodes=true", server.url("shared"));
    let (shared, _) = open(&shared).await;
    pass(&first, &shared).await?;
    let memory = Store::open("memory:").await?;
    pass(&shared, &memory).await?;
    let (last, _) = open(&server.url("last")).await;
    pass(&memory, &last).await?;
    Ok(())
}

/// The nodes of the namespace compact up to the revision that an export reads, and no further. A compaction by another program
/// makes the export fail, with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_holds_back_the_compaction_of_the_nodes_and_names_that_of_others()
-> Result<(), BoxError> {
    let server = Server::start();
    let mut options = Options::parse(&server.url("ns"))?;
    options.compact_after = Some(Duration::from_millis(1200));
    options.look_every = Duration::ZERO;
    let node = EtcdStore::connect(options, SystemClock::shared()).await?;
    let lease = node.join(&spec("n"), secs(60)).await?;
    let mut etcd = raw(&server.endpoint()).await;
    let revision = async |etcd: &mut etcd_client::Client| {
        let now = etcd.get("x", None).await.unwrap();
        now.header().unwrap().revision()
    };
    let is_compacted = async |etcd: &mut etcd_client::Client, revision| {
        let then = GetOptions::new().with_revision(revision);
        etcd.get("x", Some(then)).await.is_err()
    };
    node.submit(vec![task("a")]).await;
    let old = revision(&mut etcd).await;
    let moment = node.moment().await?;
    let held = revision(&mut etcd).await;
    node.delete(vec!["a".parse()?]).await;
    node.submit(vec![task("b")]).await;
    until("the history before the export is compacted", async || {
        node.renew(&lease, &NodeStatus::default()).await.unwrap();
        is_compacted(&mut etcd, old).await
    })
    .await;
    // Every mark that is old enough by now is after the export.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for _ in 0..30 {
        node.renew(&lease, &NodeStatus::default()).await?;
    }
    assert!(!is_compacted(&mut etcd, held).await, "the export reads it");
    let task_a = moment.export(&moment.ids).await.remove(0)?;
    assert_eq!(task_a.task.id.as_str(), "a");

    let newest = revision(&mut etcd).await;
    etcd.compact(newest, None).await?;
    let failed = moment.export(&moment.ids).await.remove(0).unwrap_err();
    let text = failed.to_string();
    assert!(text.contains("could not export the store"), "{text}");
    assert!(
        text.contains("another program has compacted etcd"),
        "{text}"
    );
    drop(moment);
    until("the key of the export is gone", async || {
        let prefix = GetOptions::new().with_prefix().with_count_only();
        let found = etcd.get("/ns/meta/moments/", Some(prefix)).await.unwrap();
        found.count() == 0
    })
    .await;
    Ok(())
}
