//! Parked tasks on etcd: what they cost a node in memory and at its start, and what an idle node
//! asks of the servers.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use windlass::Client;

use super::server::Cluster;
use crate::{
    parked::{facts, sleeper},
    report::{Goal, Report},
    support::{self, Setting},
};

fn filled(cluster: &Cluster, namespace: &str, count: usize) -> PathBuf {
    let url = PathBuf::from(cluster.url(namespace));
    support::runtime().block_on(async {
        let store = support::open(&url).await;
        support::fill(&store, count, sleeper).await;
    });
    url
}

pub(crate) fn memory(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    let count = setting.pick(1_000_000, 20_000);
    let (full, empty) = (
        filled(&cluster, "full", count),
        filled(&cluster, "empty", 0),
    );
    let (mut bytes, mut listed) = (Vec::new(), Vec::new());
    for _ in 0..setting.pick(3, 1) {
        let with = facts(Path::new(&full)).0;
        assert_eq!(with.parked, count);
        let without = facts(Path::new(&empty)).0;
        bytes.push((with.resident - without.resident) as f64 / count as f64);
        listed.push(with.listed);
    }
    let of = |what: &str| format!("{what}, {count} parked tasks on etcd");
    report.median(
        of("resident memory of each"),
        &bytes,
        "B",
        Some(Goal::Most(256.0)),
    );
    report.median(of("start-up until listed"), &listed, "s", None);
    support::runtime().block_on(async {
        let store = support::open_indexed(&full).await.unwrap();
        crate::counts::why(&Client::new(&store), (count, Some(10.0)), report).await;
    });
}

pub(crate) fn idle(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    let count = setting.pick(100_000, 5_000);
    let full = filled(&cluster, "full", count);
    let (_, node) = facts(&full);
    // The first look for what is past its retention comes within a minute, then one each hour.
    std::thread::sleep(setting.pick(Duration::from_secs(65), Duration::from_secs(1)));
    let time = setting.pick(Duration::from_secs(60), Duration::from_secs(6));
    let now = || {
        (
            cluster.count("grpc_server_started_total"),
            cluster.count("grpc_server_msg_received_total{grpc_method=\"LeaseKeepAlive\""),
            cluster.count("grpc_server_msg_received_total{grpc_method=\"Watch\""),
        )
    };
    let (before, used, begun) = (now(), node.used(), Instant::now());
    std::thread::sleep(time);
    let (after, used) = (now(), node.used() - used);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let what = format!("an idle node with {count} parked tasks on etcd");
    for (kind, count, goal) in [
        ("calls a minute", after.0 - before.0, Some(Goal::Most(0.0))),
        ("keep-alives a minute", after.1 - before.1, None),
        ("questions on its watch a minute", after.2 - before.2, None),
    ] {
        report.one(format!("{what}: {kind}"), count as f64 / minutes, "", goal);
    }
    let share = 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64();
    report.one(what, share, "% of a core", Some(Goal::Most(1.0)));
}
