//! Defects that are planted in a namespace, and the finding of an examination for each.

use std::sync::Arc;

use etcd_client::{Txn, TxnOp};
use jiff::{SignedDuration, Timestamp};
use windlass::{
    Message, StateKind,
    clock::Clock,
    store::{
        Coordinator, Doctor, Purge, Registry, Transfer,
        etcd::{EtcdStore, Options},
        examine::{Examination, Finding, Verdict},
    },
};

use crate::{
    server::Server,
    support::{connect, raw, secs, spec, task, until, write},
};

async fn examine(store: &EtcdStore, how: &Examination) -> Vec<Finding> {
    store.examine(how).await.unwrap()
}

fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} is not among {findings:#?}"))
}

fn repair() -> Examination {
    let mut how = Examination::default();
    how.repair = true;
    how
}

#[tokio::test]
async fn a_namespace_in_order_has_nothing_wrong() {
    let server = Server::start();
    let store = connect(&server.url("fine")).await;
    store.submit(vec![task("a"), task("b")]).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let claimed = store.claim(&lease, vec!["a".parse().unwrap()]).await;
    assert!(claimed[0].as_ref().unwrap().is_some());
    // The keys that a node, a worker and retention leave in the namespace.
    store.identity().await.unwrap();
    store.maintain(Some(secs(3600))).await.unwrap();
    let findings = examine(&store, &Examination::default()).await;
    let wrong: Vec<_> = findings
        .iter()
        // The version of the installed server may cause a warning. On a busy machine the server may be slow,
        // which is a finding too.
        .filter(|f| f.verdict != Verdict::Ok && !["version", "latency"].contains(&f.check))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(of(&findings, "nodes").found, "1 live");
    assert_eq!(of(&findings, "leases").found, "at most 1 claims on one");
    assert!(of(&findings, "version").found.starts_with("etcd 3."));
}

/// Each planted key is found by its check, and deleted by a repair if that is safe.
#[tokio::test]
async fn planted_keys_are_found_and_repaired() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("live"), task("held")]).await;
    let mut etcd = raw(&server.endpoint()).await;
    let plants = [
        (
            "commands",
            Verdict::Error,
            "tasks/gone/commands/c1",
            r#"{"message":"pause"}"#,
            true,
        ),
        ("parts", Verdict::Warning, "tasks/gone/props", "1", true),
        (
            "owners",
            Verdict::Error,
            "tasks/gone/owner",
            r#"{"node":"x"}"#,
            true,
        ),
        (
            "claims",
            Verdict::Error,
            "tasks/held/owner",
            r#"{"node":"x"}"#,
            true,
        ),
        (
            "states",
            Verdict::Warning,
            "state/gone",
            r#"{"state":"runnable"}"#,
            false,
        ),
        ("quarantined", Verdict::Warning, "state/live", "{", false),
        (
            "log-parts",
            Verdict::Error,
            "meta/log/live/000000000000.0.1",
            "{",
            true,
        ),
        ("keys", Verdict::Warning, "somebody/else", "x", false),
        ("nodes", Verdict::Error, "nodes/dead/_metafora", "{}", false),
    ];
    // It belongs to no task and cannot be read: `retry` could do nothing with it.
    etcd.put("/ns/state/lost", "{", None).await.unwrap();
    for (_, _, key, value, _) in plants {
        etcd.put(format!("/ns/{key}"), value, None).await.unwrap();
    }
    let findings = examine(&store, &Examination::default()).await;
    assert!(of(&findings, "states").found.contains("lost"));
    assert!(!of(&findings, "quarantined").found.contains("lost"));
    for (check, verdict, key, ..) in plants {
        let finding = of(&findings, check);
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        let name = key.split('/').nth(1).unwrap();
        assert!(finding.found.contains(name), "{finding:?}");
        assert!(!finding.advice.is_empty(), "{finding:?}");
        assert_eq!(finding.repaired, 0);
    }
    let repaired = examine(&store, &repair()).await;
    let after = examine(&store, &Examination::default()).await;
    for (check, verdict, key, _, goes) in plants {
        let left = etcd.get(format!("/ns/{key}"), None).await.unwrap().count();
        assert_eq!(left, i64::from(!goes), "{key}");
        let expected = if goes { Verdict::Ok } else { verdict };
        assert_eq!(of(&repaired, check).verdict, expected, "{check}");
        assert_eq!(of(&repaired, check).repaired, u64::from(goes), "{check}");
        assert_eq!(of(&after, check).verdict, expected, "{check}");
    }
    assert_eq!(store.ids().await.unwrap().len(), 2);
}

/// Claimed tasks are left alone, even when the node has lost its registration.
#[tokio::test]
async fn a_claimed_task_is_not_repaired() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("a")]).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    store.claim(&lease, vec!["a".parse().unwrap()]).await;
    let mut etcd = raw(&server.endpoint()).await;
    etcd.delete("/ns/nodes/n/_metafora", None).await.unwrap();
    let findings = examine(&store, &repair()).await;
    assert_eq!(of(&findings, "lost-nodes").verdict, Verdict::Warning);
    assert_eq!(of(&findings, "claims").verdict, Verdict::Ok);
    let owner = etcd.get("/ns/tasks/a/owner", None).await.unwrap();
    assert_eq!(owner.count(), 1);
}

#[tokio::test]
async fn a_quota_that_fills_is_reported_before_it_is_full() {
    let quota = "--quota-backend-bytes=2097152".to_owned();
    let server = Server::start_with("http", &[quota]);
    let store = connect(&server.url("ns")).await;
    let mut etcd = raw(&server.endpoint()).await;
    let size = async || {
        let findings = examine(&store, &Examination::default()).await;
        of(&findings, "size").clone()
    };
    assert_eq!(size().await.verdict, Verdict::Ok);
    store.submit(vec![task("ended")]).await.remove(0).unwrap();
    let lease = store.join(&spec("a"), secs(60)).await.unwrap();
    let ids = vec!["ended".parse().unwrap()];
    let claimed = store.claim(&lease, ids).await.remove(0).unwrap().unwrap();
    let mut done = write(&claimed, &Message::complete());
    done.write.drop_claim = true;
    store.commit(vec![done]).await.remove(0).unwrap();
    let value = vec![b'x'; 100_000];
    until("four fifths of the quota", async || {
        let _ = etcd.put("/other/large", value.clone(), None).await;
        let filled = size().await;
        assert!(
            filled.found.contains("of the quota of 2.0 MiB"),
            "{filled:?}"
        );
        filled.verdict == Verdict::Warning
    })
    .await;
    // A given quota is used.
    let mut how = Examination::default();
    how.quota = Some(1 << 40);
    assert_eq!(
        of(&examine(&store, &how).await, "size").verdict,
        Verdict::Ok
    );
    until("the alarm", async || {
        let full = etcd.put("/other/large", value.clone(), None).await.is_err();
        let findings = examine(&store, &Examination::default()).await;
        full && of(&findings, "alarms").verdict == Verdict::Error
    })
    .await;
    let findings = examine(&store, &Examination::default()).await;
    let alarms = &of(&findings, "alarms").found;
    assert!(alarms.contains("NOSPACE"), "{alarms}");
    assert!(
        alarms.ends_with(&format!("of http://{}", server.endpoint())),
        "{alarms}"
    );
    assert_eq!(of(&findings, "latency").verdict, Verdict::Error);
    let refused = store.submit(vec![task("b")]).await.remove(0).unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    // Regression: the purge, whose deletes are taken, ended with the error of its line of the history.
    let old = Purge::new(vec![StateKind::Completed], Timestamp::MAX);
    match store.purge(&old).await {
        Ok(gone) => assert_eq!(gone, 1),
        // An older etcd (3.5.1 does) takes no transaction once its file has reached the quota, which happens now and then.
        Err(error) => {
            let delete = Txn::new().and_then([TxnOp::delete("/other/none", None)]);
            assert!(
                etcd.txn(delete).await.is_err(),
                "deletes are taken: {error}"
            );
            assert!(error.to_string().contains("the quota is full"), "{error}");
        }
    }
    let error = store
        .write_error()
        .await
        .expect("the last write was refused");
    assert!(error.to_string().contains("the quota is full"), "{error}");
    // Regression: a process that had written nothing did not know.
    let reads = connect(&server.url("ns")).await;
    let error = reads.write_error().await.expect("the quota is full");
    assert!(error.to_string().contains("the quota is full"), "{error}");
}

#[tokio::test]
async fn the_history_is_compacted_only_when_asked() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    store.submit(vec![task("a")]).await;
    let kept = |findings: &[Finding]| -> u64 {
        let found = &of(findings, "history").found;
        found.split(' ').next().unwrap().parse().unwrap()
    };
    let before = kept(&examine(&store, &repair()).await);
    assert!(kept(&examine(&store, &repair()).await) > before);
    let mut how = Examination::default();
    how.compact = true;
    let done = examine(&store, &how).await;
    assert_eq!(of(&done, "history").repaired, 1);
    assert!(kept(&examine(&store, &repair()).await) < before);
}

#[tokio::test]
async fn a_member_that_is_away_is_named() {
    let server = Server::start();
    let url = format!("etcd://{},127.0.0.1:1/ns", server.endpoint());
    let store = connect(&url).await;
    let findings = examine(&store, &Examination::default()).await;
    let members = of(&findings, "members");
    assert_eq!(members.verdict, Verdict::Error);
    assert!(members.found.contains("127.0.0.1:1"), "{members:?}");
}

/// A clock that is an hour behind the servers' and the other nodes'.
#[derive(Debug)]
struct Behind;

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        Timestamp::now() - SignedDuration::from_hours(1)
    }
}

#[tokio::test]
async fn a_clock_that_is_behind_is_reported() {
    let server = Server::start();
    let url = server.url("ns");
    let right = connect(&url).await;
    right.join(&spec("n"), secs(60)).await.unwrap();
    let options = Options::parse(&url).unwrap();
    let store = EtcdStore::connect(options, Arc::new(Behind)).await.unwrap();
    let findings = examine(&store, &Examination::default()).await;
    let clocks: Vec<&Finding> = findings.iter().filter(|f| f.check == "clock").collect();
    assert!(
        clocks.iter().all(|f| f.verdict == Verdict::Warning),
        "{findings:#?}"
    );
    let away = |what: &str| {
        let finding = clocks.iter().find(|f| f.found.starts_with(what));
        let found = &finding
            .unwrap_or_else(|| panic!("{what}: {findings:#?}"))
            .found;
        let seconds = found.split(' ').find_map(|word| word.parse::<i64>().ok());
        assert!((3500..=3700).contains(&seconds.unwrap()), "{found}");
    };
    away("a member's is");
    away("node n joined");
    let findings = examine(&right, &Examination::default()).await;
    assert_eq!(of(&findings, "clock").verdict, Verdict::Ok);
}

#[tokio::test]
async fn a_silent_member_does_not_change_the_clocks_of_the_others() {
    let server = Server::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = connect(&server.url("ns")).await;
    assert_eq!(
        of(&examine(&store, &Examination::default()).await, "clock").verdict,
        Verdict::Ok
    );
    let url = format!(
        "etcd://{},{}/ns",
        server.endpoint(),
        silent.local_addr().unwrap()
    );
    let store = connect(&url).await;
    let findings = examine(&store, &Examination::default()).await;
    assert_eq!(of(&findings, "members").verdict, Verdict::Error);
    let clock = of(&findings, "clock");
    assert_eq!(clock.verdict, Verdict::Ok, "{clock:?}");
}

#[tokio::test]
async fn tasks_that_wait_for_each_other_are_reported() {
    let server = Server::start();
    let store = connect(&server.url("circle")).await;
    for (id, waited) in [("a", "b"), ("before", "a"), ("b", "a")] {
        let found = examine(&store, &Examination::default()).await;
        assert_eq!(of(&found, "waits").verdict, Verdict::Ok);
        let new = windlass::NewTask::new("k").id(id).after([waited]);
        store
            .submit(vec![new.build().unwrap()])
            .await
            .remove(0)
            .unwrap();
    }
    let found = examine(&store, &Examination::default()).await;
    let waits = of(&found, "waits");
    assert_eq!(waits.verdict, Verdict::Error);
    assert!(
        waits.found.starts_with("tasks wait for each other: "),
        "{waits:?}"
    );
    assert!(!waits.found.contains("before"), "{waits:?}");
}
