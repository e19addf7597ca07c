//! windlass on SQLite, as a peer of `cargo xtask bench peers`.

use std::{sync::Arc, time::Duration};

use windlass::{Client, Message, NewTask, Runner, StateKind, TaskContext, store::Store};
use windlass_peers_common::{Error, Job, Payload, Peer, Ran};

struct Windlass {
    store: Store,
    client: Client,
    level: String,
}

impl Peer for Windlass {
    type Worker = Runner;

    /// The setting is the level of `synchronous`.
    async fn open(job: &Job) -> Result<Self, Error> {
        let level = job.setting()?;
        let file = job.dir.join("windlass.db");
        let url = format!("sqlite:{}?synchronous={level}", file.display());
        let store = Store::open(&url).await?;
        Ok(Self {
            client: Client::new(&store),
            store,
            level,
        })
    }

    async fn submit(&self, task: &Payload) -> Result<(), Error> {
        let task = NewTask::new("noop").id(task.id()).props(&task.text);
        self.client.submit(task).await?;
        Ok(())
    }

    async fn submit_later(&self, task: &Payload, wait: Duration) -> Result<(), Error> {
        let later = NewTask::new("noop").id(task.id()).start_in(wait);
        self.client.submit(later.props(&task.text)).await?;
        Ok(())
    }

    async fn work(&self, job: &Job, ran: Arc<Ran>) -> Result<Runner, Error> {
        let runner = Runner::builder(&self.store)
            .slots(u32::try_from(job.slots)?)
            .handler("noop", move |task: TaskContext| {
                ran.ran_task(|| Ok(task.props::<String>()?));
                async { Message::complete() }
            })
            .start()
            .await?;
        Ok(runner)
    }

    async fn settle(&self, runner: Runner, _: usize) -> Result<(), Error> {
        runner.drain().await;
        runner.shutdown().await;
        Ok(())
    }

    async fn left(&self, count: usize) -> Result<usize, Error> {
        let counts = self.client.counts().await?;
        let completed = counts
            .iter()
            .filter(|c| c.state == Some(StateKind::Completed));
        let completed: u64 = completed.map(|c| c.tasks).sum();
        Ok(count - usize::try_from(completed)?)
    }

    async fn facts(&self) -> Result<Vec<(String, String)>, Error> {
        // The connections of the store are private.
        let text = format!(
            "{} by its URL, its connections are private",
            self.level.to_uppercase()
        );
        Ok(vec![("synchronous".to_owned(), text)])
    }
}

fn main() -> std::process::ExitCode {
    windlass_peers_common::main::<Windlass>()
}
