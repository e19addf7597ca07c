//! What a server forgets about the workers of others.

use std::time::Duration;

use windlass_statemachine::{Kind, NodeName};

use super::service::Service;
use crate::{
    Client,
    store::{NewWorker, NodeCommand, NodeSpec, QueuedNodeCommand, RemoteWorker, Speaker, Store},
};

/// A command to a worker of another server was kept until the process ended.
#[tokio::test]
async fn commands_that_other_servers_have_answered_are_forgotten() -> Result<(), crate::BoxError> {
    let store = Store::open("memory:").await?;
    let service = Service::new(&store, Box::new(Vec::new));
    let name: NodeName = "w".parse()?;
    let mut spec = NodeSpec::new(name.clone());
    spec.kinds = Some(vec![Kind::new("k")?]);
    spec.worker = Some(RemoteWorker::default());
    let new = NewWorker::new(spec, "hash", Duration::from_secs(15));
    let record = store.coordinator().join_worker(&new).await?;
    let speaker = Speaker::new("another server", 1);
    let lease = store.coordinator().speak(&record.lease, &speaker).await?;
    let client = Client::new(&store);
    let mut sent = Vec::new();
    for command in [NodeCommand::Freeze, NodeCommand::Unfreeze] {
        let id = client.command_node("w", command.clone()).await?;
        sent.push(id);
        service
            .dispatcher()
            .order(QueuedNodeCommand::new(id, lease.id, command));
    }
    let (answered, open) = (sent[0], sent[1]);
    store
        .coordinator()
        .acknowledge(&lease, answered, "frozen")
        .await?;
    let kept = async |expected: &[_]| {
        for _ in 0..200 {
            service.sweep();
            tokio::time::sleep(Duration::from_millis(5)).await;
            let kept: Vec<_> = service
                .dispatcher()
                .orders(lease.id)
                .iter()
                .map(|order| order.id)
                .collect();
            if kept == expected {
                return true;
            }
        }
        false
    };
    assert!(
        kept(&[open]).await,
        "the answered one is kept, or the open one is not"
    );
    // An open command ends with its worker.
    store.coordinator().leave(&lease).await?;
    assert!(kept(&[]).await && service.dispatcher().orders_of_others().is_empty());
    Ok(())
}
