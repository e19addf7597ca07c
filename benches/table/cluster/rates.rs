//! Durable transitions a second compared with transactions of the same etcd with as many bytes,
//! packed as tightly, in turns.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use etcd_client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};
use tokio::runtime::Runtime;

use super::server::Cluster;
use crate::{
    report::Report,
    support::{Meter, Rate, Setting, tell_rates},
    transitions::{CHECKPOINT, FEW, Held, IN_FLIGHT, Node},
};

/// How many transitions one transaction holds, and how many are under way: as the store packs them.
const EACH: usize = 120;
const UNDER_WAY: usize = 4;

/// Etcd without windlass: each transition compares a key, puts a state, and a line of history as its own key.
struct Raw {
    client: Client,
    state: String,
    line: String,
    next: Arc<AtomicU64>,
    in_flight: usize,
    /// How many transitions one transaction holds, and how many of these are under way.
    each: usize,
    under_way: usize,
}

impl Raw {
    async fn new(client: Client, (state, line): (usize, usize), in_flight: usize) -> Self {
        let mut filling = client.kv_client();
        for n in 0..in_flight {
            filling
                .put(format!("/raw/owner/{n}"), "x", None)
                .await
                .unwrap();
        }
        Self {
            client,
            state: "x".repeat(state),
            line: "x".repeat(line),
            next: Arc::default(),
            in_flight,
            each: EACH.min(in_flight),
            under_way: if in_flight > EACH { UNDER_WAY } else { 1 },
        }
    }

    fn item(&self, n: u64) -> TxnOp {
        let task = n % self.in_flight as u64;
        let line = n / self.in_flight as u64 % 64;
        let there = Compare::create_revision(format!("/raw/owner/{task}"), CompareOp::Greater, 0);
        TxnOp::txn(Txn::new().when([there]).and_then([
            TxnOp::put(format!("/raw/state/{task}"), self.state.clone(), None),
            TxnOp::put(
                format!("/raw/history/{task}/{line}"),
                self.line.clone(),
                None,
            ),
        ]))
    }

    async fn rate(&self, time: Duration) -> Rate {
        let meter = Meter::start();
        let lanes = (0..self.under_way).map(|_| async {
            let (mut kv, mut done) = (self.client.kv_client(), 0);
            while meter.elapsed() < time {
                let first = self.next.fetch_add(self.each as u64, Ordering::Relaxed);
                let items = (first..first + self.each as u64).map(|n| self.item(n));
                let txn = Txn::new().and_then(items.collect::<Vec<_>>());
                kv.txn(txn).await.unwrap();
                done += self.each as u64;
            }
            done
        });
        let done: u64 = futures::future::join_all(lanes).await.into_iter().sum();
        meter.rate(done)
    }

    /// One caller for each task, who puts its state without a fence or a history, one put after the other. What a
    /// program can do at most that writes each task on its own.
    async fn puts(&self, time: Duration) -> Rate {
        let meter = Meter::start();
        let callers = (0..self.in_flight).map(|task| {
            let meter = &meter;
            async move {
                let (mut kv, mut done) = (self.client.kv_client(), 0);
                let key = format!("/raw/state/{task}");
                while meter.elapsed() < time {
                    kv.put(key.as_str(), self.state.as_str(), None)
                        .await
                        .unwrap();
                    done += 1;
                }
                done
            }
        });
        let done: u64 = futures::future::join_all(callers).await.into_iter().sum();
        meter.rate(done)
    }

    /// Forgets the history: it would fill the disk.
    async fn compact(&mut self) {
        let now = self.client.get("x", None).await.unwrap();
        let revision = now.header().unwrap().revision();
        self.client.compact(revision, None).await.unwrap();
    }
}

/// The average size of a state without its lines of history, and that of a line.
async fn sizes(client: &mut Client) -> (usize, usize) {
    let options = GetOptions::new().with_prefix().with_limit(500);
    let got = client.get("/node/state/", Some(options)).await.unwrap();
    let (mut states, mut bytes, mut lines) = (0, 0, Vec::new());
    for kv in got.kvs() {
        let mut state: serde_json::Value = serde_json::from_slice(kv.value()).unwrap();
        let of_state = state.as_object_mut().unwrap().remove("lines").unwrap();
        lines.extend(
            of_state
                .as_array()
                .unwrap()
                .iter()
                .map(|line| line.to_string().len()),
        );
        states += 1;
        bytes += state.to_string().len();
    }
    (bytes / states, lines.iter().sum::<usize>() / lines.len())
}

pub(crate) fn rates(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    with(setting, &cluster, IN_FLIGHT, report);
}

/// As [`rates`], with few tasks in flight: compared with transactions of as many items, one after the
/// other.
pub(crate) fn few(setting: &Setting, report: &mut Report) {
    for in_flight in FEW {
        let cluster = Cluster::start(setting, 1);
        with(setting, &cluster, in_flight, report);
    }
}

fn with(setting: &Setting, cluster: &Cluster, in_flight: usize, report: &mut Report) {
    let runtime: Runtime = crate::support::runtime();
    let time = setting.pick(Duration::from_secs(3), Duration::from_millis(700));
    let open = |name: &str| cluster.url(name);
    let (node, held) = (open("node"), open("held"));
    let mut node = runtime.block_on(Node::start(Path::new(&node), in_flight, in_flight));
    let mut held = runtime.block_on(Held::new(Path::new(&held), in_flight, in_flight));
    runtime.block_on(node.rate(time, CHECKPOINT));
    let mut client = runtime.block_on(cluster.raw());
    let (state, line) = runtime.block_on(sizes(&mut client));
    let mut raw = runtime.block_on(Raw::new(client, (state, line), in_flight));
    let each = raw.each;
    let mut rates = node.rows(&format!(
        "etcd alone, {each} times compare and put {state} and {line} B"
    ));
    rates.push((
        format!("etcd alone, {in_flight} callers that put {state} B, no fence, no history"),
        Vec::new(),
    ));
    for _ in 0..setting.pick(5, 2) {
        rates[0].1.push(runtime.block_on(raw.rate(time)));
        node.turn(&runtime, time, &mut rates);
        rates[4].1.push(held.rate(&runtime, time));
        rates[5].1.push(runtime.block_on(raw.puts(time)));
        runtime.block_on(raw.compact());
    }
    runtime.block_on(node.runner.shutdown());
    tell_rates(report, &rates, |_| None);
}
