//! What the recorded process does: [`busy`] works as a node and its clients do, [`small`] only opens
//! the store and submits, [`copy`] replaces tasks by those of another store, and [`large`] fills the
//! log until SQLite writes it back.

use std::{path::Path, sync::Arc, time::Duration};

use fastrand::Rng;
use futures::StreamExt;
use tokio::time::{Instant, sleep};
use windlass::{
    Client, Command, CommandId, NewTask, Runner, StateKind, TaskId,
    clock::SystemClock,
    store::{
        Error, Filter, IfExists, Page, Store, Submit,
        copy::Copier,
        examine::Examination,
        sqlite::{Options, SqliteStore, Synchronous},
    },
};
use windlass_robustness::{
    BoxError, kinds,
    plan::Plan,
    terms::Terms,
    witness::{Journal, Said},
};

use crate::{
    promises::{Promise, Promises},
    site::Site,
};

/// How often the store is opened, used and closed.
const LIVES: u32 = 3;
/// How long it is used each time.
const LIFE: Duration = Duration::from_millis(1800);
/// How many tasks each life submits.
const TASKS: usize = 60;
/// How many tasks are submitted at once.
const AT_ONCE: usize = 6;

/// A client that writes down what is acknowledged to it.
struct User {
    client: Client,
    promises: Arc<Promises>,
    rng: Rng,
    sent: u32,
    /// The tasks that commands go to.
    tasks: Vec<TaskId>,
    /// Commands whose outcome was not read yet.
    waiting: Vec<(TaskId, CommandId)>,
}

async fn open(site: &Site, synchronous: Synchronous) -> Result<Store, BoxError> {
    let mut options = Options::default();
    options.synchronous = synchronous;
    let clock = SystemClock::shared();
    let store = Arc::new(SqliteStore::open(site.database(), options, clock.clone()).await?);
    Ok(Store::from_parts(store.clone(), store, clock))
}

/// Opens the store, submits one task after the other, and closes it.
///
/// # Errors
///
/// Those of the store.
pub async fn small(folder: &Path) -> Result<(), BoxError> {
    let site = Site::at(folder);
    let promises = Promises::create(&site.promises())?;
    let client = Client::new(&open(&site, Synchronous::Full).await?);
    for number in 0..3 {
        let task = NewTask::new("steps").id(format!("small-{number}"));
        let task = client.submit(task).await?.into_id();
        promises.write(&Promise::Submitted { task })?;
    }
    Ok(())
}

/// Submits tasks, then copies others with the same ids in their place, and new ones.
///
/// # Errors
///
/// Those of the stores, and when the copy leaves a task out.
pub async fn copy(folder: &Path) -> Result<(), BoxError> {
    let site = Site::at(folder);
    let promises = Promises::create(&site.promises())?;
    let target = open(&site, Synchronous::Full).await?;
    let source = Store::open("memory:").await?;
    let named = |kind: &str, n: u32| NewTask::new(kind).id(format!("task-{n}"));
    for number in 0..3 {
        let task = Client::new(&target).submit(named("old", number)).await?;
        let task = task.into_id();
        promises.write(&Promise::Submitted { task })?;
    }
    for number in 0..5 {
        Client::new(&source).submit(named("new", number)).await?;
    }
    let transfer = Copier::new(&source, &target).replace(true);
    let report = transfer.run(|_| ()).await?;
    if !report.left.is_empty() || report.replaced != 3 {
        return Err(format!("the copy has left something out: {report:?}").into());
    }
    let client = Client::new(&target);
    for record in client.list(&Filter::default(), Page::default()).await? {
        let task = record.task.id;
        for change in client.history(&task, u32::MAX).await? {
            promises.write(&Promise::Seen { change })?;
        }
        promises.write(&Promise::Submitted { task })?;
    }
    Ok(())
}

/// Submits tasks that are so large that SQLite writes the log back, and small ones after it: they
/// overwrite the log from its beginning.
///
/// # Errors
///
/// Those of the store.
pub async fn large(folder: &Path) -> Result<(), BoxError> {
    /// The log is written back at 10,000 pages of 4 KiB.
    const BYTES: usize = 42 << 20;
    const TASK: usize = 900 << 10;
    let site = Site::at(folder);
    let promises = Promises::create(&site.promises())?;
    let client = Client::new(&open(&site, Synchronous::Full).await?);
    let props = "x".repeat(TASK);
    let large = (0..BYTES / TASK).map(|n| NewTask::new("large").id(format!("large-{n}")));
    let small = (0..60).map(|n| NewTask::new("small").id(format!("small-{n}")));
    for task in large.map(|task| task.props(&props)).chain(small) {
        let task = client.submit(task).await?.into_id();
        promises.write(&Promise::Submitted { task: task.clone() })?;
        let command = client.command(&task, Command::Pause).await?;
        promises.write(&Promise::Sent { task, command })?;
    }
    Ok(())
}

/// Opens the store several times. Each time a node runs tasks while a client submits, commands,
/// deletes and reads, another connection follows the feed, and the log is written back.
///
/// # Errors
///
/// Those of the store and of the node.
pub async fn busy(folder: &Path, seed: u64, synchronous: Synchronous) -> Result<(), BoxError> {
    let site = Site::at(folder);
    let promises = Arc::new(Promises::create(&site.promises())?);
    let journal = Arc::new(Journal::open(&site.witnesses(), "worker")?);
    let mut rng = Rng::with_seed(seed);
    let mut plan = Plan::new(rng.u64(..), &site.witnesses());
    let mut sent = 0;
    for life in 0..LIVES {
        let nodes = open(&site, synchronous).await?;
        let node = format!("node-{life}");
        let terms = Terms::default();
        journal.say(Said::Serves {
            node: node.parse()?,
            kinds: terms.kinds.clone(),
            side: terms.side.clone(),
        });
        let builder = Runner::builder(&nodes)
            .node(node)
            .lease_ttl(Duration::from_secs(5))
            .park_after(kinds::PARK_AFTER)
            .retention(None);
        let runner = kinds::add_all(builder, &journal, &terms).start().await?;
        let client = Client::new(&open(&site, synchronous).await?);
        let following = tokio::spawn(follow(client.clone(), promises.clone()));
        let mut user = User {
            client,
            promises: promises.clone(),
            rng: rng.fork(),
            sent,
            tasks: Vec::new(),
            waiting: Vec::new(),
        };
        user.live(&mut plan).await?;
        sent = user.sent;
        // The last life ends as a process does that is stopped in order, the others are aborted.
        match life + 1 < LIVES {
            true => runner.abort().await,
            false => runner.shutdown().await,
        }
        following.abort();
        match following.await {
            Err(ended) if ended.is_cancelled() => {}
            ended => return ended?,
        }
    }
    Ok(())
}

/// Writes down every change that the feed delivers.
async fn follow(client: Client, promises: Arc<Promises>) -> Result<(), BoxError> {
    let mut changes = client.changes(None).await?;
    while let Some(batch) = changes.next().await {
        for change in batch? {
            promises.write(&Promise::Seen { change })?;
        }
    }
    Err("the feed of changes has ended".into())
}

impl User {
    async fn live(&mut self, plan: &mut Plan) -> Result<(), BoxError> {
        let start = Instant::now();
        let (mut submitted, mut turns) = (0, 0);
        while start.elapsed() < LIFE {
            turns += 1;
            let due = TASKS.min((TASKS as f64 * start.elapsed().div_duration_f64(LIFE)) as usize);
            while submitted <= due {
                self.submit(plan.take(AT_ONCE)).await?;
                submitted += AT_ONCE;
            }
            self.command().await?;
            self.read().await?;
            if self.rng.u32(0..12) == 0 {
                self.delete().await?;
            }
            // The log is written back while the others work.
            if turns % 20 == 0 {
                let mut how = Examination::default();
                how.repair = true;
                self.client.store().doctor()?.examine(&how).await?;
            }
            sleep(Duration::from_millis(self.rng.u64(0..20))).await;
        }
        Ok(())
    }

    async fn submit(&mut self, tasks: impl Iterator<Item = NewTask>) -> Result<(), BoxError> {
        let tasks: Result<Vec<Submit>, _> = tasks.map(NewTask::build).collect();
        let mut tasks = tasks?;
        for submit in &mut tasks {
            submit.if_exists = IfExists::Refuse;
        }
        let ids: Vec<TaskId> = tasks.iter().map(|s| s.task.id.clone()).collect();
        let answers = self.client.submit_many(tasks).await;
        for (task, answer) in ids.into_iter().zip(answers) {
            answer?;
            self.promises
                .write(&Promise::Submitted { task: task.clone() })?;
            self.tasks.push(task);
        }
        Ok(())
    }

    fn any(&mut self) -> Option<TaskId> {
        let count = self.tasks.len();
        (count > 0).then(|| self.tasks[self.rng.usize(0..count)].clone())
    }

    async fn command(&mut self) -> Result<(), BoxError> {
        let Some(task) = self.any() else {
            return Ok(());
        };
        let command = match self.rng.u32(0..10) {
            0..4 => Command::Run,
            4 | 5 => Command::Pause,
            6 => Command::Checkpoint,
            7 => Command::Release,
            8 => Command::Complete { result: None },
            _ => Command::Kill,
        };
        self.sent += 1;
        let id = CommandId::new(format!("command-{:05}", self.sent))?;
        match (self.client.command_with_id(&task, id.clone(), command)).await {
            Ok(()) => {}
            Err(Error::AlreadyFinished { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let command = id.clone();
        self.promises.write(&Promise::Sent {
            task: task.clone(),
            command,
        })?;
        self.waiting.push((task, id));
        Ok(())
    }

    /// Reads the outcomes that are there by now, and starts some of what has failed again.
    async fn read(&mut self) -> Result<(), BoxError> {
        for (task, command) in std::mem::take(&mut self.waiting) {
            match self.client.outcome(&command).await? {
                Some(outcome) => self.promises.write(&Promise::Answered {
                    task,
                    command,
                    outcome,
                })?,
                None => self.waiting.push((task, command)),
            }
        }
        if self.rng.u32(0..10) != 0 {
            return Ok(());
        }
        let failed = Filter::new().states([StateKind::Failed]);
        for record in self.client.list(&failed, Page::default()).await? {
            self.client.retry(&record.task.id).await?;
        }
        Ok(())
    }

    async fn delete(&mut self) -> Result<(), BoxError> {
        let Some(task) = self.any() else {
            return Ok(());
        };
        if kinds::has_children(&task) {
            return Ok(());
        }
        self.tasks.retain(|t| *t != task);
        self.waiting.retain(|(t, _)| *t != task);
        self.promises
            .write(&Promise::Deleting { task: task.clone() })?;
        self.client.force_delete(&task).await?;
        let at = windlass_robustness::time::now();
        self.promises.write(&Promise::Deleted { task, at })?;
        Ok(())
    }
}
