//! What the two streams tell, whatever the history that they go on from looks like.

use futures::StreamExt;
use windlass::store::{Coordinator, Event, NodeCommand, Registry};

use crate::{
    server::Server,
    support::{connect, raw, secs, spec},
};

/// Two wait when the watch begins, and the names of their keys are not in the order of their sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_commands_that_wait_are_told_in_the_order_of_their_sending() {
    let server = Server::start();
    let store = connect(&server.url("ns")).await;
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let mut etcd = raw(&server.endpoint()).await;
    for (name, command) in [("z", "freeze"), ("m", "balance"), ("a", "unfreeze")] {
        let key = format!("/ns/nodes/n/commands/{name}");
        let value = format!(r#"{{"command":"{command}","parameters":{{}}}}"#);
        etcd.put(key, value, None).await.unwrap();
    }
    let mut events = store.watch(&lease, None).await.unwrap();
    let mut told = Vec::new();
    let telling = async {
        while !told.contains(&NodeCommand::Unfreeze) {
            for event in events.next().await.unwrap() {
                if let Event::Node(command) = event {
                    told.push(command.command);
                }
            }
        }
    };
    tokio::time::timeout(secs(30), telling).await.unwrap();
    let sent = [
        NodeCommand::Freeze,
        NodeCommand::Balance,
        NodeCommand::Unfreeze,
    ];
    assert_eq!(told, sent);
}
