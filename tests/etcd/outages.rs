//! Outages of etcd that end before the lease of a node: no handler stops, and no attempt is counted.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use windlass::{Client, Message, NewTask, Runner, StateKind, TaskContext, TaskId, store::Store};
use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{DEADLINE, in_time, open, secs, steps, until},
};

/// How long before the end of the trusted time of the lease an outage ends.
const EARLIER: Duration = Duration::from_millis(1500);
/// The same for a server that has to start again.
const RESTARTED_EARLIER: Duration = Duration::from_millis(4000);

/// An outage.
#[derive(Debug, Clone, Copy)]
enum Outage {
    /// Connections end, and new ones are refused.
    Cut,
    /// Connections bring nothing.
    Silence,
    /// The server stands still.
    Pause,
    /// The server is killed, and starts again.
    Kill,
}

/// Waits for the next renewal of the lease, and returns the time until which the node trusts it then.
async fn renewed(deadlines: &mut (impl Stream<Item = std::time::Instant> + Unpin)) -> Duration {
    let next = in_time("the lease is renewed", deadlines.next()).await;
    next.unwrap()
        .saturating_duration_since(std::time::Instant::now())
}

async fn steps_done(client: &Client, id: &TaskId) -> u32 {
    let state = client.get(id).await.unwrap().state.unwrap();
    state.data.map_or(0, |data| data.get("data").unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_that_is_shorter_than_the_lease_costs_no_attempt() {
    let mut server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    let (_, near) = open(&server.url("ns")).await;
    let store = Store::open(&proxy.url("ns")).await.unwrap();
    let short = |_: TaskContext| async {
        // It returns during an outage.
        tokio::time::sleep(secs(1)).await;
        Message::complete()
    };
    let node = Runner::builder(&store).node("n").lease_ttl(secs(10));
    let node = node.handler("steps", steps).handler("short", short);
    let node = node.start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let task = NewTask::new("steps").props(&100_000);
        ids.push(near.submit(task).await.unwrap().into_id());
    }
    until("all run", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.len() == 5)
    })
    .await;
    let lease = near.nodes().await.unwrap()[0].lease;
    let mut deadlines = pin!(node.lease_deadlines());
    renewed(&mut deadlines).await;
    let mut shorts = Vec::new();
    for outage in [Outage::Cut, Outage::Silence, Outage::Pause, Outage::Kill] {
        let id = near.submit(NewTask::new("short")).await.unwrap().into_id();
        shorts.push(id);
        let left = renewed(&mut deadlines).await;
        let lasts = |earlier| tokio::time::sleep(left.saturating_sub(earlier));
        match outage {
            Outage::Cut => proxy.cut(),
            Outage::Silence => proxy.silence(),
            Outage::Pause => server.pause(),
            Outage::Kill => server.kill(),
        }
        match outage {
            Outage::Kill => lasts(RESTARTED_EARLIER).await,
            _ => lasts(EARLIER).await,
        }
        match outage {
            Outage::Cut | Outage::Silence => proxy.mend(),
            Outage::Pause => server.resume(),
            Outage::Kill => server.restart(),
        }
        renewed(&mut deadlines).await;
        let before = steps_done(&near, &ids[0]).await;
        until("the handlers go on", async || {
            steps_done(&near, &ids[0]).await > before
        })
        .await;
        let after = near.nodes().await.unwrap()[0].lease;
        assert_eq!(after, lease, "{outage:?} ended the lease");
    }
    for id in shorts {
        let done = tokio::time::timeout(DEADLINE, near.wait(&id)).await;
        let done = done.unwrap().unwrap();
        assert_eq!(done.code(), StateKind::Completed);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0), "{id}");
    }
    for id in &ids {
        let state = near.get(id).await.unwrap().state.unwrap();
        assert_eq!((state.claims, state.attempts), (1, 0), "{id}");
    }
    node.abort().await;
}
