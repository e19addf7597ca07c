//! What one submit costs each node that has nothing to do with the task: bytes that the servers send to it, and its
//! processor time.

use std::{path::Path, time::Duration};

use windlass::NewTask;

use super::{
    server::Cluster,
    worker::{Settings, ask},
};
use crate::{
    report::{Goal, Report},
    support::{self, Other, Setting},
};

/// How many nodes are idle.
const NODES: usize = 4;
/// The counter of what the servers send to clients.
const SENT: &str = "etcd_network_client_grpc_sent_bytes_total";

/// What was used while tasks of a kind that no node runs were submitted.
struct Used {
    sent: u64,
    processor: Duration,
}

fn submit(cluster: &Cluster, url: &str, nodes: &mut [Other], count: usize, props: usize) -> Used {
    let used = |nodes: &[Other]| nodes.iter().map(Other::used).sum::<Duration>();
    let (sent, before) = (cluster.count(SENT), used(nodes));
    support::runtime().block_on(async {
        let store = support::open(Path::new(url)).await;
        let props = "p".repeat(props);
        let task = |_| NewTask::new("elsewhere").props(&props);
        support::fill(&store, count, task).await;
    });
    for node in nodes.iter_mut() {
        ask(node);
    }
    // The watches deliver what is left.
    std::thread::sleep(Duration::from_secs(1));
    Used {
        sent: cluster.count(SENT) - sent,
        processor: used(nodes) - before,
    }
}

pub(crate) fn submits(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    let count = setting.pick(50_000, 5_000);
    for (props, option) in [(100, ""), (1_000, ""), (1_000, "?metafora-nodes=true")] {
        let url = |what: &str| cluster.url(&format!("{what}-{props}-{}{option}", option.len()));
        let alone = submit(&cluster, &url("alone"), &mut [], count, props);
        let shared = url("shared");
        let nodes = (0..NODES).map(|n| Settings {
            url: shared.clone(),
            name: format!("n{n}"),
            slots: 10,
        });
        let mut nodes: Vec<Other> = nodes.map(|node| node.start()).collect();
        for node in &mut nodes {
            ask(node);
        }
        let with = submit(&cluster, &shared, &mut nodes, count, props);
        let each = (NODES * count) as f64;
        let bytes = with.sent.saturating_sub(alone.sent) as f64 / each;
        let beside = if option.is_empty() {
            ""
        } else {
            ", for nodes of Metafora"
        };
        let what = format!("one submit with props of {props} B, for each idle node{beside}");
        let goal = option.is_empty().then_some(Goal::Most(200.0));
        report.one(format!("{what}: sent"), bytes, "B", goal);
        let micros = with.processor.as_secs_f64() * 1e6 / each;
        report.one(format!("{what}: processor time"), micros, "µs", None);
    }
}
