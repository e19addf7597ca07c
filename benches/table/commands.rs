//! From a command to its outcome, and from a submit to the start of the handler: in one process,
//! and across two.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use windlass::{Client, Command, Message, NewTask, Runner, TaskContext, TaskId, store::Store};

use crate::{
    report::{Goal, Report},
    support::{self, Other, Setting, Times},
};

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let runtime = support::runtime();
    let folder = setting.folder();
    let count = setting.pick(1000, 100);

    let file = folder.path().join("one.db");
    runtime.block_on(async {
        let store = support::open(&file).await;
        let runner = node(&store).await;
        let measured = Measured::new(&Client::new(&store), count).await;
        measured.tell(report, "in one process");
        runner.shutdown().await;
    });

    let file = folder.path().join("two.db");
    let mut other = Other::start("obeys", &file);
    assert_eq!(other.line(), "ready");
    runtime.block_on(async {
        let store = support::open(&file).await;
        let measured = Measured::new(&Client::new(&store), count).await;
        measured.tell(report, "across two");
    });
}

struct Measured {
    pause: Times,
    run: Times,
    checkpoint: Times,
    submit: Times,
    wake: Times,
}

impl Measured {
    async fn new(client: &Client, count: usize) -> Self {
        let mut measured = Self {
            pause: Times::new(),
            run: Times::new(),
            checkpoint: Times::new(),
            submit: Times::new(),
            wake: Times::new(),
        };
        // The first moments are those of caches.
        for round in 0..count + 20 {
            let mut keep = |times: fn(&mut Self) -> &mut Times, time| {
                if round >= 20 {
                    times(&mut measured).add(time);
                }
            };
            let task = client
                .submit(NewTask::new("obeys"))
                .await
                .unwrap()
                .into_id();
            while client.get(&task).await.unwrap().node.is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            keep(
                |m| &mut m.checkpoint,
                command(client, &task, Command::Checkpoint).await,
            );
            keep(
                |m| &mut m.pause,
                command(client, &task, Command::Pause).await,
            );
            keep(|m| &mut m.run, command(client, &task, Command::Run).await);
            command(client, &task, Command::Kill).await;

            let asked = support::monotonic();
            let task = client
                .submit(NewTask::new("stamps"))
                .await
                .unwrap()
                .into_id();
            let stored = support::monotonic();
            let done = client.wait(&task).await.unwrap();
            let started = done.result::<u64>().unwrap();
            let since = |at: u64| Duration::from_nanos(started.saturating_sub(at));
            keep(|m| &mut m.submit, since(asked));
            keep(|m| &mut m.wake, since(stored));
        }
        measured
    }

    fn tell(&self, report: &mut Report, place: &str) {
        let goal = (place == "across two").then_some(Goal::Most(10.0));
        for (what, times, goal) in [
            ("checkpoint command to outcome", &self.checkpoint, None),
            ("pause command to outcome", &self.pause, None),
            ("run command of a paused task to outcome", &self.run, None),
            ("call of submit to start of the handler", &self.submit, None),
            ("durable submit to start of the handler", &self.wake, goal),
        ] {
            times.tell(report, &format!("{what}, {place}"), goal);
        }
    }
}

pub(crate) async fn command(client: &Client, task: &TaskId, command: Command) -> Duration {
    let begun = Instant::now();
    let sent = client.command(task, command).await.unwrap();
    let outcome = client.wait_outcome(&sent).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
    begun.elapsed()
}

async fn node(store: &Store) -> Runner {
    Runner::builder(store)
        .handler("obeys", obey)
        .handler("stamps", |_: TaskContext| async {
            Message::complete_with(support::monotonic())
        })
        .start()
        .await
        .unwrap()
}

/// Obeys each command at once.
pub(crate) async fn obey(task: TaskContext) -> Message {
    let commands = task.commands();
    match commands.next().await {
        Some(command) => command.to_message(),
        None => task.stop_requested().await.message(),
    }
}

/// The other process: a node, until it is needed no more.
pub(crate) async fn obeys(file: &Path) {
    let store = support::open(file).await;
    let runner = node(&store).await;
    support::say("ready");
    while support::asked().await {}
    runner.shutdown().await;
}
