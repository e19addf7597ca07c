//! A command that would start when the lease of its node is over.

use std::{path::PathBuf, pin::pin, task::Poll, thread, time::Duration};

use serde_json::json;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::timeout,
};
use windlass::{
    Client, KindConfig, Message, NewTask, Runner, StatefulHandler, TaskContext, async_trait,
    store::Store,
};

use super::{Exec, Folders, KIND};

/// No test waits longer for anything.
const LONG: Duration = Duration::from_secs(30);

/// Polls an exec handler after the lease of its node is over, as a process does that stood still: on
/// this thread nothing else runs, neither the engine nor the renewal of the lease.
struct AfterTheLease {
    exec: Exec,
    marker: PathBuf,
    polled: UnboundedSender<bool>,
}

#[async_trait]
impl StatefulHandler for AfterTheLease {
    async fn run(&self, task: TaskContext) -> Message {
        while !task.lease_left().is_zero() {
            thread::sleep(Duration::from_millis(5));
        }
        let mut run = pin!(self.exec.run(task));
        // A command that starts makes the marker at once.
        for _ in 0..400 {
            if let Poll::Ready(done) = futures::poll!(&mut run) {
                let _ = self.polled.send(true);
                return done;
            }
            if self.marker.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.polled.send(false);
        run.await
    }
}

#[tokio::test]
async fn no_command_starts_after_the_lease_of_its_node() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("s").display());
    let marker = dir.path().join("started");
    let (polled, mut returned) = unbounded_channel();
    let handler = AfterTheLease {
        exec: Exec::new(Folders::of_store(&url, &client).await.unwrap(), 1 << 20),
        marker: marker.clone(),
        polled,
    };
    let runner = Runner::builder(&store)
        .lease_ttl(Duration::from_millis(500))
        .handler_with(KIND, KindConfig::default(), handler)
        .start()
        .await
        .unwrap();
    let script = format!("touch {}; sleep 600", marker.display());
    let task = NewTask::new(KIND).props(&json!({"shell": script, "grace": "200ms"}));
    client.submit(task).await.unwrap();
    let returned = timeout(LONG, returned.recv()).await.unwrap().unwrap();
    assert!(returned && !marker.exists(), "the command was started");
    runner.shutdown().await;
}
