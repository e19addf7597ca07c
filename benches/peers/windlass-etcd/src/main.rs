//! windlass on etcd, as a peer of `cargo xtask bench peers`: the jobs of state machines.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{sleep, timeout},
};
use windlass::{Client, Command, Message, NewTask, Runner, TaskContext, store::Store};
use windlass_peers_common::{Error, Job, Payload, meter::Meter};

/// How long a single step may take.
const PATIENCE: Duration = Duration::from_secs(60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn main() -> std::process::ExitCode {
    windlass_peers_common::run(async {
        let job = Job::parse(std::env::args().skip(1))?;
        let store = Store::open(&job.get::<String>("store")?).await?;
        match job.name.as_str() {
            "transitions" => transitions(&job, &store).await,
            "starts" => starts(&job, &store).await,
            "pauses" => pauses(&job, &store).await,
            "sleepers" => sleepers(&job, &store).await,
            other => Err(format!("could not run job '{other}'").into()),
        }
    })
}

/// Handlers return Checkpoint, Run or Sleep until now at once. Each start of a handler follows a stored
/// transition.
async fn transitions(job: &Job, store: &Store) -> Result<Value, Error> {
    let message: fn() -> Message = match job.setting()?.as_str() {
        "run" => Message::run,
        "sleep" => || Message::sleep_for(Duration::ZERO),
        _ => Message::checkpoint,
    };
    let starts = Arc::new(AtomicU64::new(0));
    let counts = starts.clone();
    let runner = Runner::builder(store)
        .slots(u32::try_from(job.slots)?)
        .handler("moves", move |_: TaskContext| {
            let n = counts.fetch_add(1, Ordering::SeqCst);
            // A handler that changes nothing is slowed down.
            async move { message().with_data(&n) }
        })
        .start()
        .await?;
    let tasks = (0..job.slots).map(|n| NewTask::new("moves").id(Payload::new(n, 0).id()).build());
    let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
    for submitted in Client::new(store).submit_many(tasks).await {
        submitted?;
    }
    // The first starts are those of the claims.
    while starts.load(Ordering::SeqCst) < 2 * job.slots as u64 {
        sleep(Duration::from_millis(5)).await;
    }
    let (meter, before) = (Meter::start(), starts.load(Ordering::SeqCst));
    sleep(job.limit).await;
    let done = starts.load(Ordering::SeqCst) - before;
    let figures = meter.figures(usize::try_from(done)?, Vec::new(), meter.elapsed());
    runner.shutdown().await;
    Ok(figures)
}

/// Each handler returns Sleep for a year at once. Returns when the states should be stored.
async fn sleepers(job: &Job, store: &Store) -> Result<Value, Error> {
    let starts = Arc::new(AtomicU64::new(0));
    let counts = starts.clone();
    let runner = Runner::builder(store)
        .slots(1_000)
        .handler("sleeps", move |_: TaskContext| {
            counts.fetch_add(1, Ordering::SeqCst);
            async { Message::sleep_for(YEAR) }
        })
        .start()
        .await?;
    let (meter, client) = (Meter::start(), Client::new(store));
    let tasks = (0..job.count).map(|n| NewTask::new("sleeps").id(Payload::new(n, 0).id()).build());
    for submitted in client
        .submit_many(tasks.collect::<Result<Vec<_>, _>>()?)
        .await
    {
        submitted?;
    }
    while starts.load(Ordering::SeqCst) < job.count as u64 {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(job.limit).await;
    let figures = meter.figures(job.count, Vec::new(), meter.elapsed());
    runner.shutdown().await;
    Ok(figures)
}

/// The handler reports its start and then each command.
async fn node(store: &Store, reports: UnboundedSender<Instant>) -> Result<Runner, Error> {
    let handler = move |task: TaskContext| {
        let reports = reports.clone();
        async move {
            let _ = reports.send(Instant::now());
            let stop = task.stop_requested().await;
            let _ = reports.send(Instant::now());
            stop.message()
        }
    };
    // All tasks of a job run until its end.
    let runner = Runner::builder(store).slots(1_000);
    let runner = runner.handler("waits", handler);
    Ok(runner.start().await?)
}

async fn report(reports: &mut UnboundedReceiver<Instant>) -> Result<Instant, Error> {
    let report = timeout(PATIENCE, reports.recv()).await?;
    report.ok_or_else(|| "the handler is gone".into())
}

/// From the call that submits a task to the start of its handler.
async fn starts(job: &Job, store: &Store) -> Result<Value, Error> {
    let (send, mut reports) = unbounded_channel();
    let runner = node(store, send).await?;
    let client = Client::new(store);
    let (meter, mut times) = (Meter::start(), Vec::new());
    for n in 0..job.count {
        let begun = Instant::now();
        let task = NewTask::new("waits").id(Payload::new(n, 0).id());
        client.submit(task).await?;
        times.push(report(&mut reports).await?.duration_since(begun));
    }
    let figures = meter.figures_of_times(times);
    runner.shutdown().await;
    Ok(figures)
}

/// From the call that sends Pause to the moment at which the handler has it.
async fn pauses(job: &Job, store: &Store) -> Result<Value, Error> {
    let (send, mut reports) = unbounded_channel();
    let runner = node(store, send).await?;
    let client = Client::new(store);
    let task = client.submit(NewTask::new("waits")).await?.into_id();
    let (meter, mut times) = (Meter::start(), Vec::new());
    for _ in 0..job.count {
        report(&mut reports).await?;
        let begun = Instant::now();
        let pause = client.command(&task, Command::Pause).await?;
        times.push(report(&mut reports).await?.duration_since(begun));
        client.wait_outcome(&pause).await?;
        client.command(&task, Command::Run).await?;
    }
    let figures = meter.figures_of_times(times);
    runner.shutdown().await;
    Ok(figures)
}
