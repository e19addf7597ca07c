//! [`run`]: clients, servers that are killed, a line with faults, a worker, and the checks at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::future::try_join_all;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use windlass::{
    Client as Direct, Message, Runner, TaskContext,
    store::{Filter, Query, Store, TaskRecord},
};

use super::{
    check::{self, Stored},
    client::Client,
    deeds::{Deed, KIND, LABEL, Promised},
    line::{Fault, Line},
    servers::Servers,
    stream::follow,
};
use crate::BoxError;

/// How long the tasks may take to end after the last deed.
const BOUND: Duration = Duration::from_secs(60);

/// What a run consists of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of its choices.
    pub seed: u64,
    /// The URL of the store.
    pub store: String,
    /// The program `windlass`.
    pub program: PathBuf,
    /// How many deeds.
    pub deeds: u64,
    /// How many clients do them.
    pub clients: u64,
    /// How many times a server is killed, at least.
    pub kills: u64,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// How often servers were killed.
    pub kills: u64,
    /// The faults of the line.
    pub faults: BTreeMap<Fault, u64>,
    /// How many tasks were made.
    pub tasks: usize,
    /// How many changes each stream has brought.
    pub changes: usize,
}

/// Does one run.
///
/// # Errors
///
/// What was promised and is not so, or what was waited for in vain.
pub async fn run(settings: &Settings, folder: &Path) -> Result<Shown, BoxError> {
    let store = Store::open(&settings.store).await?;
    let direct = Direct::new(&store);
    let noop = |_: TaskContext| async { Message::complete() };
    let worker = Runner::builder(&store).handler(KIND, noop).start().await?;
    let place = (settings.store.clone(), folder.to_owned());
    let program = settings.program.clone();
    let mut servers = Servers::start(program, place.0, place.1, 2).await?;
    let token = servers.token()?;
    let line = Line::to(servers.addresses(), settings.seed).await?;
    let client = Client::new(line.address(), token);

    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let draw = |number| (number, Deed::draw(&mut rng));
    let deeds: BTreeMap<u64, Deed> = (0..settings.deeds).map(draw).collect();
    let (last, known) = watch::channel(None);
    let streams = try_join_all((0..2).map(|_| follow(client.clone(), known.clone())));
    let is_done = AtomicBool::new(false);
    let disturb = async {
        let mut kills = 0;
        while kills < settings.kills || !is_done.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(rng.u64(200..700))).await;
            let away = Duration::from_millis(rng.u64(..300));
            servers.kill(rng.usize(..2), away).await?;
            kills += 1;
        }
        Ok::<_, BoxError>(kills)
    };
    let work = async {
        let promised = all_done(&client, &deeds, settings.clients).await?;
        is_done.store(true, Ordering::SeqCst);
        let stored = until_ended(&direct).await?;
        let newest = histories(&direct, &stored).await?.last().copied();
        line.calm();
        last.send_replace(newest);
        Ok::<_, BoxError>(promised)
    };
    let (promised, kills, brought) = tokio::try_join!(work, disturb, streams)?;
    worker.shutdown().await;

    let records = all_tasks(&direct).await?;
    let mut stored = Vec::with_capacity(records.len());
    for record in &records {
        let commands = direct.commands(&record.task.id).await?.len();
        stored.push(Stored {
            id: record.task.id.to_string(),
            deed: record
                .task
                .labels
                .get(LABEL)
                .ok_or("a task has no label")?
                .parse()?,
            has_ended: has_ended(record),
            commands,
        });
    }
    let mut wrong = check::tasks(&deeds, &promised, &stored);
    let histories = histories(&direct, &records).await?;
    for stream in &brought {
        wrong.extend(check::stream(stream, &histories));
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    Ok(Shown {
        kills,
        faults: line.happened(),
        tasks: records.len(),
        changes: histories.len(),
    })
}

/// Does the deeds, each client its share one after the other.
async fn all_done(
    client: &Client,
    deeds: &BTreeMap<u64, Deed>,
    clients: u64,
) -> Result<Promised, BoxError> {
    let shares = (0..clients).map(|share| async move {
        let mut promised = Promised::new();
        let own = deeds
            .iter()
            .filter(|(number, _)| **number % clients == share);
        for (number, deed) in own {
            promised.insert(*number, deed.done(client, *number).await?);
        }
        Ok::<_, BoxError>(promised)
    });
    Ok(try_join_all(shares).await?.into_iter().flatten().collect())
}

fn has_ended(record: &TaskRecord) -> bool {
    let state = record.state.as_ref();
    state.is_ok_and(|state| state.code().is_terminal())
}

/// Waits until every task has ended, and returns all of them.
async fn until_ended(direct: &Direct) -> Result<Vec<TaskRecord>, BoxError> {
    let all = all_tasks(direct).await?;
    for record in all.iter().filter(|record| !has_ended(record)) {
        let wait = timeout(BOUND, direct.wait(&record.task.id)).await;
        wait.map_err(|_| format!("task {} has not ended within a minute", record.task.id))??;
    }
    // A repetition that was under way may have made more: that is what the checks are for.
    all_tasks(direct).await
}

async fn all_tasks(direct: &Direct) -> Result<Vec<TaskRecord>, BoxError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let query = Query::new(Filter::default()).limit(1000);
        let page = direct.page(&query, cursor.as_ref()).await?;
        all.extend(page.tasks);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

/// Returns the numbers of all changes of these tasks.
async fn histories(direct: &Direct, tasks: &[TaskRecord]) -> Result<BTreeSet<u64>, BoxError> {
    let mut all = BTreeSet::new();
    for task in tasks {
        let history = direct.history(&task.task.id, 1000).await?;
        all.extend(history.into_iter().map(|change| change.seq));
    }
    Ok(all)
}
