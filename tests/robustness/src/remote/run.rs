//! [`run`]: workers, servers that are killed, a line with faults, commands, and the checks at the end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass::{
    Client, Command, NewTask,
    store::Store,
    workers::protocol::{Offer, Start},
};
use windlass_worker_client::{Ctl, Faults, Setup, Worker};

use super::{ledger::Ledger, unended};
use crate::{
    BoxError,
    http::{
        line::{Fault, Line},
        servers::Servers,
    },
};

/// The kind of every task.
const KIND: &str = "steps";
/// How many steps a task has.
const STEPS: u64 = 6;
/// How long the tasks may take to end.
const BOUND: Duration = Duration::from_secs(150);

/// What a run consists of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The seed of its choices.
    pub seed: u64,
    /// The URL of the store.
    pub store: String,
    /// The program `windlass`.
    pub program: PathBuf,
    /// How many tasks.
    pub tasks: u64,
    /// How many workers, of 8 slots each.
    pub workers: u64,
    /// How many times a server is killed, at least.
    pub kills: u64,
}

/// What a run has shown.
#[derive(Debug)]
pub struct Shown {
    /// How often servers were killed.
    pub kills: u64,
    /// The faults of the line.
    pub faults: BTreeMap<Fault, u64>,
    /// How many runs were started.
    pub runs: usize,
}

/// Does one run.
///
/// # Errors
///
/// What is wrong, or what was waited for in vain.
pub async fn run(settings: &Settings, folder: &Path) -> Result<Shown, BoxError> {
    let store = Store::open(&settings.store).await?;
    let client = Client::new(&store);
    let (program, at) = (settings.program.clone(), folder.to_owned());
    let mut servers = Servers::start(program, settings.store.clone(), at, 2).await?;
    let token = servers.token_of("work")?;
    let line = Line::to(servers.addresses(), settings.seed).await?;
    let ledger = Arc::new(Ledger::default());
    let workers: Vec<Worker> = (0..settings.workers)
        .map(|n| worker(n, &line, &token, &ledger))
        .collect::<Result<_, _>>()?;
    let running: Vec<_> = workers
        .iter()
        .cloned()
        .map(|worker| tokio::task::spawn_blocking(move || worker.run().map_err(|e| e.to_string())))
        .collect();
    let ids: Vec<String> = (0..settings.tasks).map(|n| format!("task-{n}")).collect();
    for id in &ids {
        client.submit(NewTask::new(KIND).id(id.as_str())).await?;
    }
    let (mut rng, is_done) = (
        fastrand::Rng::with_seed(settings.seed),
        AtomicBool::new(false),
    );
    let disturb = async {
        let mut kills = 0;
        while kills < settings.kills || !is_done.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(rng.u64(300..900))).await;
            servers
                .kill(rng.usize(..2), Duration::from_millis(rng.u64(..300)))
                .await?;
            kills += 1;
            let id = &ids[rng.usize(..ids.len())];
            // A task that has ended takes no command.
            let _ = client.command(id.as_str(), Command::Pause).await;
            let _ = client.command(id.as_str(), Command::Run).await;
        }
        Ok::<_, BoxError>(kills)
    };
    let work = async {
        let ended = unended::all(&client, &ids, BOUND).await;
        is_done.store(true, Ordering::SeqCst);
        line.calm();
        ended
    };
    let (kills, ()) = tokio::try_join!(disturb, work)?;
    for worker in workers {
        tokio::task::spawn_blocking(move || worker.leave()).await?;
    }
    let (runs, mut wrong) = ledger.close();
    for ended in running {
        wrong.extend(
            ended
                .await?
                .err()
                .map(|why| format!("a worker has ended: {why}")),
        );
    }
    for id in &ids {
        let done = client.wait(id.as_str()).await?;
        let (steps, attempts) = (done.result::<u64>().ok(), done.state.attempts);
        if steps != Some(STEPS) || attempts != 0 {
            wrong.push(format!(
                "{id} has done {steps:?} steps, with {attempts} failed attempts"
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    let faults = line.happened();
    Ok(Shown {
        kills,
        faults,
        runs,
    })
}

fn worker(n: u64, line: &Line, token: &str, ledger: &Arc<Ledger>) -> Result<Worker, BoxError> {
    let setup = Setup {
        url: format!("http://{}", line.address()),
        token: token.to_owned(),
        name: format!("worker-{n}"),
        secret: format!("the secret of worker {n}"),
        kinds: BTreeMap::from([(KIND.parse()?, Offer::new(8))]),
        ttl: Some(Duration::from_secs(30)),
        faults: Faults::default(),
    };
    let ledger = ledger.clone();
    Ok(Worker::new(
        setup,
        Arc::new(move |start: &Start, ctl: &Ctl| {
            let step = start
                .data
                .as_ref()
                .and_then(|data| data.get("data").ok())
                .unwrap_or(0);
            ledger.starts(start, step);
            let returned = steps(start, ctl, &ledger, step);
            ledger.ends(start);
            returned
        }),
    ))
}

/// Does the steps of a task after this one: checkpoints, further runs, and sleeps.
fn steps(start: &Start, ctl: &Ctl, ledger: &Ledger, mut step: u64) -> Value {
    while step < STEPS {
        if !ctl.sleep(Duration::from_millis(fastrand::u64(2..25))) {
            return json!({"message": "release"});
        }
        step += 1;
        match step % 3 {
            0 => return json!({"message": "run", "data": step}),
            1 => return json!({"message": "sleep", "until": "in 20ms", "data": step}),
            _ => {}
        }
        if ctl.checkpoint(&json!(step)).is_err() {
            return json!({"message": "release"});
        }
        ledger.acknowledged(start, step);
    }
    json!({"message": "complete", "result": step})
}
