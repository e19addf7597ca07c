//! A node in its own process, which can be asked and killed.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{Message, Runner, TaskContext};

use crate::support::{self, Other};

/// The settings of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) slots: u32,
}

impl Settings {
    pub(super) fn start(&self) -> Other {
        let text = serde_json::to_string(self).unwrap();
        Other::start("works", Path::new(&text))
    }
}

/// What a node answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Facts {
    /// How many handlers run.
    pub(super) running: usize,
    /// How late the tasks that were due ran, in microseconds.
    pub(super) late: Vec<u64>,
}

pub(super) fn ask(node: &mut Other) -> Facts {
    node.ask();
    serde_json::from_str(&node.line()).unwrap()
}

/// The other process: runs `forever` until it is stopped, and `due` to see when.
pub(crate) async fn works(settings: &Path) {
    let settings: Settings = serde_json::from_str(settings.to_str().unwrap()).unwrap();
    let store = support::open(Path::new(&settings.url)).await;
    let running = Arc::new(AtomicUsize::new(0));
    let late = Arc::new(Mutex::new(Vec::new()));
    let forever = {
        let running = running.clone();
        move |task: TaskContext| {
            let running = running.clone();
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                let stop = task.stop_requested().await;
                running.fetch_sub(1, Ordering::SeqCst);
                stop.message()
            }
        }
    };
    let due = {
        let late = late.clone();
        move |task: TaskContext| {
            let by = Timestamp::now().duration_since(task.task().start_at.unwrap());
            assert!(!by.is_negative(), "it ran early by {by}");
            late.lock().unwrap().push(by.as_micros() as u64);
            async { Message::complete() }
        }
    };
    let runner = Runner::builder(&store)
        .node(settings.name)
        .slots(settings.slots)
        .handler("forever", forever)
        .handler("due", due)
        .handler("parked", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    while !runner.snapshot().await.unwrap().listed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while support::asked().await {
        let facts = Facts {
            running: running.load(Ordering::SeqCst),
            late: late.lock().unwrap().clone(),
        };
        support::say(serde_json::to_string(&facts).unwrap());
    }
    runner.shutdown().await;
}
