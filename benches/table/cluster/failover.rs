//! A node that is killed or shut down: how long until others run what it ran, and how late its
//! parked tasks are.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use windlass::NewTask;

use super::{
    server::Cluster,
    worker::{Settings, ask},
};
use crate::{
    report::{Goal, Report},
    support::{self, Other, Setting, Times},
};

/// The default of a runner.
const TTL: f64 = 15.0;

fn node(cluster: &Cluster, namespace: &str, name: &str, slots: usize) -> Other {
    let settings = Settings {
        url: cluster.url(namespace),
        name: name.to_owned(),
        slots: slots as u32,
    };
    let mut node = settings.start();
    // It answers once it has listed.
    ask(&mut node);
    node
}

fn until_running(nodes: &mut [&mut Other], count: usize) {
    let sum = |nodes: &mut [&mut Other]| nodes.iter_mut().map(|n| ask(n).running).sum::<usize>();
    let begun = Instant::now();
    while sum(nodes) < count {
        assert!(
            begun.elapsed() < Duration::from_secs(180),
            "{} of {count} run",
            sum(nodes)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Seconds until two others run what the first one ran, which is killed, or shut down.
fn taken_over(cluster: &Cluster, namespace: &str, count: usize, kill: bool) -> f64 {
    support::runtime().block_on(async {
        let store = support::open(Path::new(&cluster.url(namespace))).await;
        support::fill(&store, count, |n| {
            NewTask::new("forever").id(support::id(n))
        })
        .await;
    });
    let mut first = node(cluster, namespace, "first", count);
    until_running(&mut [&mut first], count);
    let mut second = node(cluster, namespace, "second", count);
    let mut third = node(cluster, namespace, "third", count);
    // They know of each other.
    std::thread::sleep(Duration::from_secs(4));
    let begun = Instant::now();
    if kill {
        first.kill();
    } else {
        first.release();
    }
    until_running(&mut [&mut second, &mut third], count);
    begun.elapsed().as_secs_f64()
}

/// A node that is killed.
pub(crate) fn failover(setting: &Setting, report: &mut Report) {
    takeovers(setting, report, true, TTL + 2.0);
}

/// A node that is shut down.
pub(crate) fn shutdown(setting: &Setting, report: &mut Report) {
    takeovers(setting, report, false, 2.0);
}

fn takeovers(setting: &Setting, report: &mut Report, kill: bool, goal: f64) {
    let count = setting.pick(10_000, 500);
    let what = if kill {
        "killed (lease of 15 s)"
    } else {
        "shut down"
    };
    for members in [1, 3] {
        let cluster = Cluster::start(setting, members);
        let mut times = Vec::new();
        for round in 0..setting.pick(5, 1) {
            let namespace = format!("round{round}");
            times.push(taken_over(&cluster, &namespace, count, kill));
        }
        let what =
            format!("{members} members: node with {count} running is {what}: all run elsewhere");
        report.median(what, &times, "s", Some(Goal::Most(goal)));
    }
}

/// Of many parked tasks some become due while the node that was there first is killed.
pub(crate) fn due(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    let (parked, due) = (setting.pick(100_000, 5_000), setting.pick(6_000, 300));
    let spread = setting.pick(Duration::from_secs(30), Duration::from_secs(3));
    for killed in [false, true] {
        let namespace = if killed { "killed" } else { "whole" };
        let url = cluster.url(namespace);
        let runtime = support::runtime();
        let store = runtime.block_on(support::open(Path::new(&url)));
        runtime.block_on(support::fill(&store, parked, crate::parked::sleeper));
        let names = ["first", "second", "third"];
        let mut nodes = names.map(|name| node(&cluster, namespace, name, 1000));
        let begin = Timestamp::now() + SignedDuration::from_secs(8);
        let step = SignedDuration::try_from(spread / due as u32).unwrap();
        runtime.block_on(support::fill(&store, due, |n| {
            let at = begin + step * n as i32;
            NewTask::new("due").id(format!("due-{n}")).start_at(at)
        }));
        let wait = begin.duration_since(Timestamp::now());
        std::thread::sleep(wait.unsigned_abs());
        if killed {
            nodes[0].kill();
        }
        let rest = &mut nodes[usize::from(killed)..];
        // Runs of the first node in its last moment are not reported.
        let least = if killed { due - due / 100 } else { due };
        let mut late;
        let begun = Instant::now();
        loop {
            late = rest
                .iter_mut()
                .flat_map(|node| ask(node).late)
                .collect::<Vec<u64>>();
            if late.len() >= least && begun.elapsed() > spread + Duration::from_secs(3) {
                break;
            }
            assert!(begun.elapsed() < spread * 4, "{} of {due} ran", late.len());
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut times = Times::new();
        late.iter()
            .for_each(|micros| times.add(Duration::from_micros(*micros)));
        let per_second = due as u64 / spread.as_secs();
        let how = if killed {
            "one of 3 nodes was killed just before"
        } else {
            "3 nodes"
        };
        let what = format!("due to running, {per_second} a second due, {parked} parked, {how}");
        times.tell(report, &what, None);
        report.one(format!("{what}: max"), times.max_ms(), "ms", None);
    }
}
