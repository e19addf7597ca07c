//! A command that would start after the lease of its node has ended, and one that would be ended.

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

use super::{
    Exec, KIND,
    folders::folders_of,
    record::{self, Running},
};

/// The longest wait of a test.
const LONG: Duration = Duration::from_secs(30);

/// Polls an exec handler after the lease of its node has ended, like a process that stood still:
/// nothing else runs on this thread, neither the engine nor the renewal of the lease.
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
        // A command that starts creates the marker at once.
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
    let script = format!("touch {}; sleep 600", marker.display());
    let task = NewTask::new(KIND).props(&json!({"shell": script, "grace": "200ms"}));
    let id = client.submit(task).await.unwrap().into_id();
    // Another node may end the command, or have replaced it with its own.
    let folders = folders_of(&url, &client).await;
    let order = client.get(&id).await.unwrap().order;
    let folder = folders.prepare(&id, order).unwrap();
    let mut left = tokio::process::Command::new("sleep");
    let mut left = left.arg("600").process_group(0).kill_on_drop(true).spawn();
    let left = left.as_mut().unwrap();
    let running = Running {
        fence: windlass::Fence(0),
        holders: &[],
        grace: Duration::ZERO,
    };
    let mut record = record::about_to_start(&folder, running).unwrap();
    record.is(left.id().unwrap() as i32).unwrap();
    let (polled, mut returned) = unbounded_channel();
    let handler = AfterTheLease {
        exec: Exec::new(folders, 1 << 20),
        marker: marker.clone(),
        polled,
    };
    let runner = Runner::builder(&store)
        .lease_ttl(Duration::from_millis(500))
        .handler_with(KIND, KindConfig::default(), handler)
        .start()
        .await
        .unwrap();
    let returned = timeout(LONG, returned.recv()).await.unwrap().unwrap();
    assert!(returned && !marker.exists(), "the command was started");
    assert!(left.try_wait().unwrap().is_none(), "it was signalled");
    runner.shutdown().await;
}
