//! An etcd that is restored to an earlier state while nodes live.

use std::{fs, path::Path};

use futures::StreamExt;
use windlass::{
    Fence,
    store::{
        Coordinator, Doctor, Error, EventStream, Lease, NodeStatus, Registry, Remedy,
        etcd::EtcdStore,
        examine::{Examination, Finding, Verdict},
    },
};
use windlass_etcd_cluster::{Cluster, Proxy, cluster::Setup};

use crate::support::{connect, in_time, raw, secs, spec, task, until};

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// An etcd whose data can be kept and put back.
struct Kept(Cluster);

impl Kept {
    fn start() -> Self {
        Self(Cluster::start(Setup::of(1)).unwrap())
    }

    fn url(&self) -> String {
        self.0.url_of(&[self.0.endpoint(0)], "ns")
    }

    /// Ends the server, calls `change` with its data and the kept copy, and starts it again.
    fn between(&mut self, change: impl FnOnce(&Path, &Path)) {
        let (data, kept) = (self.0.folder().join("m0"), self.0.folder().join("kept"));
        self.0.terminate(0).unwrap();
        change(&data, &kept);
        self.0.restart(0).unwrap();
    }

    fn keep(&mut self) {
        self.between(copied);
    }

    fn restore(&mut self) {
        self.between(|data, kept| {
            fs::remove_dir_all(data).unwrap();
            copied(kept, data);
        });
    }

    /// Writes keys of no namespace.
    async fn write(&self, count: usize) {
        let mut etcd = raw(&self.0.endpoint(0)).await;
        for n in 0..count {
            etcd.put("other", n.to_string(), None).await.unwrap();
        }
    }
}

async fn submit(store: &EtcdStore, id: &str) {
    let submitted = store.submit(vec![task(id)]).await;
    assert!(submitted[0].is_ok(), "{submitted:?}");
}

async fn claim(store: &EtcdStore, lease: &Lease, id: &str) -> Fence {
    let claimed = store.claim(lease, vec![id.parse().unwrap()]).await;
    let claimed = claimed.into_iter().next().unwrap().unwrap();
    claimed.unwrap().claim.fence
}

/// Reads events until the watch ends.
async fn ended(mut events: EventStream) {
    in_time("the end of the watch", async {
        while events.next().await.is_some() {}
    })
    .await;
}

async fn restored(store: &EtcdStore, how: &Examination) -> Finding {
    let findings = store.examine(how).await.unwrap();
    let mut findings = findings.into_iter();
    findings
        .find(|finding| finding.check == "restored")
        .unwrap()
}

fn is_restored(error: &Error) -> bool {
    matches!(error, Error::StoreGone { reason, .. } if reason.contains("was restored to an earlier state"))
}

/// Asserts that the node of the store stops, and that no node starts before the fences are raised: then a claim has a
/// greater fence than the one that was lost.
async fn stops_until_the_fences_are_raised(url: &str, store: EtcdStore, lease: Lease, lost: Fence) {
    let status = NodeStatus::default();
    let renewed = store.renew(&lease, &status).await;
    assert!(renewed.as_ref().is_err_and(is_restored), "{renewed:?}");
    let claimed = store.claim(&lease, vec!["first".parse().unwrap()]).await;
    assert!(claimed[0].as_ref().is_err_and(is_restored), "{claimed:?}");
    store.leave(&lease).await.unwrap();
    let other = connect(url).await;
    let refused = other.join(&spec("m"), secs(60)).await;
    assert!(refused.as_ref().is_err_and(is_restored), "{refused:?}");
    let why = other.no_node_may_join().await.unwrap();
    assert!(why.is_some_and(|why| why.remedy() == Some(Remedy::RaiseFences)));
    let found = restored(&other, &Examination::default()).await;
    assert_eq!(found.verdict, Verdict::Error, "{found:?}");
    assert!(
        found.found.contains("node 'n' had seen revision"),
        "{found:?}"
    );
    let mut how = Examination::default();
    how.raise_fences = Some(0);
    assert_eq!(restored(&other, &how).await.repaired, 1);
    assert!(other.no_node_may_join().await.unwrap().is_none());
    let lease = other.join(&spec("m"), secs(60)).await.unwrap();
    submit(&other, "after").await;
    let fence = claim(&other, &lease, "after").await;
    assert!(fence > lost, "{fence:?} is not above {lost:?}");
    let found = restored(&other, &Examination::default()).await;
    assert_eq!(found.verdict, Verdict::Ok, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_an_etcd_that_went_back_stops_and_none_starts_before_the_fences_are_raised() {
    let mut etcd = Kept::start();
    let store = connect(&etcd.url()).await;
    submit(&store, "first").await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    etcd.keep();
    etcd.write(100).await;
    submit(&store, "lost").await;
    let events = store.watch(&lease, None).await.unwrap();
    let lost = claim(&store, &lease, "lost").await;
    let reads = connect(&etcd.url()).await;
    let mut changes = reads.changes(None).await.unwrap();
    submit(&store, "last").await;
    let followed = in_time("a change", changes.next()).await.unwrap();
    assert!(followed.is_ok(), "{followed:?}");
    etcd.restore();
    ended(events).await;
    in_time("the end of the feed", async {
        while let Some(followed) = changes.next().await {
            if followed.as_ref().is_err_and(is_restored) {
                break;
            }
            assert!(followed.is_ok(), "{followed:?}");
        }
    })
    .await;
    stops_until_the_fences_are_raised(&etcd.url(), store, lease, lost).await;
}

/// The revisions of the restored etcd have passed those that the node had seen: its own registration is older.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_finds_that_its_own_registration_is_an_older_one() {
    let mut etcd = Kept::start();
    let proxy = Proxy::to(&[etcd.0.endpoint(0)]).await.unwrap();
    let store = connect(&proxy.url("ns")).await;
    submit(&store, "first").await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    etcd.keep();
    let lost = claim(&store, &lease, "first").await;
    let mut status = NodeStatus::default();
    status.running = 1;
    store.renew(&lease, &status).await.unwrap();
    until("the node has reported its status", async || {
        let nodes = store.nodes().await.unwrap();
        nodes.iter().any(|node| node.status.running == 1)
    })
    .await;
    let events = store.watch(&lease, None).await.unwrap();
    proxy.cut();
    etcd.restore();
    etcd.write(200).await;
    proxy.mend();
    ended(events).await;
    stops_until_the_fences_are_raised(&etcd.url(), store, lease, lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_refused_with_what_to_do_instead() {
    let kept = Kept::start();
    let store = windlass::store::Store::open(&kept.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let transfer = store.transfer().unwrap();
    assert_eq!(transfer.file(), None);
    let error = transfer
        .backup(&folder.path().join("b.db"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("etcdctl snapshot save"), "{text}");
    assert!(text.contains("every namespace"), "{text}");
}
