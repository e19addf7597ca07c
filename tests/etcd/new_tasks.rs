//! A new task is claimed without a read. Its claim detects whatever happened to it since its submit.

use std::net::ToSocketAddrs;

use futures::StreamExt;
use windlass::{
    Command, Json,
    store::{Claimed, Coordinator, Error, Event, EventStream, Lease, Registry, etcd::EtcdStore},
};
use windlass_etcd_cluster::gateway::Gateway;

use crate::{
    idle::counters,
    server::Server,
    support::{connect, in_time, secs, spec, task},
};

/// A node whose watch has brought the new task `t`.
struct World {
    server: Server,
    store: EtcdStore,
    lease: Lease,
    _events: EventStream,
}

async fn until(events: &mut EventStream, is: impl Fn(&Event) -> bool) {
    while !events.next().await.unwrap().iter().any(&is) {}
}

impl World {
    async fn new(props: &str) -> Self {
        let server = Server::start();
        let store = connect(&server.url("ns")).await;
        let lease = store.join(&spec("n"), secs(60)).await.unwrap();
        let mut events = store.watch(&lease, None).await.unwrap();
        let listed = |event: &Event| matches!(event, Event::Listed);
        in_time("the watch has begun", until(&mut events, listed)).await;
        let mut submit = task("t");
        submit.task.props = Json::parse("props", props).unwrap();
        store.submit(vec![submit]).await.remove(0).unwrap();
        let is_new = |event: &Event| matches!(event, Event::Task(view) if view.id.as_str() == "t");
        in_time("the submit is reported", until(&mut events, is_new)).await;
        Self {
            server,
            store,
            lease,
            _events: events,
        }
    }

    /// Writes a key while the watch cannot report it: the only thread of the runtime waits.
    fn put(&self, key: &str, value: &str) {
        let mut addresses = self.server.endpoint().to_socket_addrs().unwrap();
        let gateway = Gateway(addresses.next().unwrap());
        gateway
            .put(&format!("/ns/{key}"), value.as_bytes())
            .unwrap();
    }

    async fn claim(&self) -> Result<Option<Claimed>, Error> {
        let ids = vec!["t".parse().unwrap()];
        self.store.claim(&self.lease, ids).await.remove(0)
    }
}

#[tokio::test]
async fn the_claim_of_a_new_task_is_one_transaction_and_has_its_props() {
    for props in [r#"{"a":[1,2]}"#, "null"] {
        let world = World::new(props).await;
        let transactions =
            async || counters(&world.server, "grpc_server_started_total").await["Txn"];
        let before = transactions().await;
        let claimed = world.claim().await.unwrap().unwrap();
        assert_eq!(transactions().await - before, 1);
        assert_eq!(claimed.task.props.as_str(), props);
        assert!(claimed.commands.is_empty() && !claimed.abandoned);
        let again = world.claim().await.unwrap().unwrap();
        assert_eq!(again.task.props.as_str(), props, "a claim that is repeated");
    }
}

#[tokio::test]
async fn a_command_that_the_watch_has_not_brought_is_in_the_claim() {
    let world = World::new("1").await;
    let pause = r#"{"message":"pause","sent_at":"2030-01-01T00:00:00Z"}"#;
    world.put("tasks/t/commands/c", pause);
    let claimed = world.claim().await.unwrap().unwrap();
    assert_eq!(claimed.commands.len(), 1);
    assert_eq!(claimed.commands[0].command, Command::Pause);
    assert_eq!(claimed.task.props.as_str(), "1");
}

#[tokio::test]
async fn a_task_that_another_node_has_claimed_meanwhile_is_not_claimed() {
    let world = World::new("1").await;
    world.put("tasks/t/owner", r#"{"node":"m","lease":99}"#);
    assert!(world.claim().await.unwrap().is_none());
}

#[tokio::test]
async fn a_task_that_was_quarantined_or_changed_meanwhile_is_claimed_as_it_is() {
    let world = World::new("1").await;
    world.put("parked/t", r#"{"quarantined":"a reason"}"#);
    assert!(world.claim().await.unwrap().is_none());
    let world = World::new("1").await;
    let changed = r#"{"kind":"k","priority":7,"submitted_at":"2030-01-01T00:00:00Z"}"#;
    world.put("tasks/t", changed);
    let claimed = world.claim().await.unwrap().unwrap();
    assert_eq!(claimed.task.priority, 7);
}

#[tokio::test]
async fn a_node_whose_registration_is_another_ones_claims_nothing() {
    let world = World::new("1").await;
    world.put("nodes/n/_metafora", "{}");
    let refused = world.claim().await.unwrap_err();
    assert!(matches!(refused, Error::Fenced(_)), "{refused}");
    let task = world.store.get(&"t".parse().unwrap()).await.unwrap();
    assert_eq!(task.node, None);
}

#[tokio::test]
async fn props_that_are_no_json_quarantine_a_new_task() {
    let world = World::new("1").await;
    world.put("meta/props/t", "{");
    let refused = world.claim().await.unwrap_err();
    assert!(refused.to_string().contains("props"), "{refused}");
    let record = world.store.get(&"t".parse().unwrap()).await.unwrap();
    assert_eq!(record.node, None);
    assert!(record.state.is_err());
}
