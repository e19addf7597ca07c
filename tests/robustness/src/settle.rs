//! Waits until every task has ended or is parked.

use std::{fmt::Write as _, time::Duration};

use tokio::time::{Instant, sleep};
use windlass::{
    Client, Command, StateKind,
    store::{Filter, NodeCommand, Page, TaskRecord},
};

use crate::{BoxError, kinds, scene::Scene, time, traffic::Traffic, workers::Worker, world};

/// Why a task has not settled.
pub fn unsettled(record: &TaskRecord) -> Option<&'static str> {
    let stays = kinds::stays(record.task.kind.as_str());
    let Ok(state) = &record.state else {
        return Some("cannot be read");
    };
    match state.code() {
        _ if record.commands > 0 => Some("has commands that wait"),
        code if code.is_terminal() => None,
        StateKind::Sleeping | StateKind::Paused if stays && record.node.is_some() => {
            Some("is held")
        }
        StateKind::Paused if stays => None,
        StateKind::Sleeping if stays => {
            let soon = time::wall() + jiff::SignedDuration::from_hours(1);
            state.due().is_none_or(|due| due < soon).then_some("sleeps")
        }
        StateKind::Paused => Some("is paused"),
        StateKind::Sleeping => Some("sleeps"),
        _ if record.limited_by.is_some() => Some("is held back by a limit"),
        _ => Some("runs"),
    }
}

/// How long a live task that has missed a deadline is waited for.
const LATE: Duration = Duration::from_secs(20);

/// Whether a live task has missed a deadline, and a node is to fail it.
fn is_late(record: &TaskRecord) -> bool {
    let deadline = record.state.as_ref().ok().and_then(|s| s.deadline());
    deadline.is_some_and(|at| at <= time::wall())
}

/// How long nothing may be left before everything counts as settled: a task that sleeps for hours may be about to wake, because the
/// last task that it waits for has just ended.
const CALM: Duration = Duration::from_secs(1);

/// For how many times the time for one task everything may take: on a busy machine hundreds of tasks take longer.
const TIMES: u32 = 4;

/// Resumes what is paused and unfreezes what is frozen, until everything has ended or is parked.
///
/// # Errors
///
/// When for the time no further task has, when not all have within four times that, or a worker has ended.
pub async fn settle(scene: &mut Scene, within: Duration) -> Result<(), BoxError> {
    let workers = &mut scene.workers;
    let supervise = || workers.iter_mut().try_for_each(Worker::supervise);
    settle_tasks(&scene.client, &scene.traffic, within, supervise).await
}

/// Like [`settle`], for workers that `supervise` looks after.
///
/// # Errors
///
/// Those of [`settle`].
pub async fn settle_tasks(
    client: &Client,
    traffic: &Traffic,
    within: Duration,
    mut supervise: impl FnMut() -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let began = Instant::now();
    let (mut fewest, mut since) = (usize::MAX, began);
    let mut calm = None;
    loop {
        supervise()?;
        for node in client.nodes().await.unwrap_or_default() {
            if node.status.frozen || node.status.draining {
                let unfreeze = NodeCommand::Unfreeze;
                // It may be gone by now; the next round sees.
                let _ = client.command_node(&node.spec.name, unfreeze).await;
            }
        }
        let left = live(client).await?;
        let is_late = left.iter().any(is_late) && began.elapsed() < LATE;
        let left: Vec<_> = left
            .into_iter()
            .filter(|r| unsettled(r).is_some())
            .collect();
        if left.is_empty() && !is_late {
            if calm.get_or_insert_with(Instant::now).elapsed() >= CALM {
                return Ok(());
            }
        } else {
            calm = None;
        }
        if left.len() < fewest {
            (fewest, since) = (left.len(), Instant::now());
        }
        for record in &left {
            let state = record.state.as_ref().ok();
            let paused = state.filter(|state| state.code() == StateKind::Paused);
            let kind = record.task.kind.as_str();
            // Signals that a handler has kept do not wake it, and one that stays asleep has them until it runs.
            let keeps = paused.is_some_and(|state| state.kept_signals > 0);
            let waits = record.commands == 0 || keeps || kind == "asked";
            if let Some(state) = paused
                && waits
                && (keeps || !kinds::stays(kind))
            {
                let version = state.version;
                let id = format!("settle-{}-{version}", record.task.id);
                traffic.command(&record.task.id, &id, Command::Run).await?;
            }
        }
        if since.elapsed() > within || began.elapsed() > within * TIMES {
            return Err(hanging(client, left, began.elapsed()).await?.into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn live(client: &Client) -> Result<Vec<TaskRecord>, BoxError> {
    let mut left = Vec::new();
    let filter = Filter::new().states([
        StateKind::Runnable,
        StateKind::Fault,
        StateKind::Sleeping,
        StateKind::Paused,
    ]);
    // Each page of a store on etcd reads all there is.
    let mut page = Page::new(10_000);
    loop {
        let records = match client.list(&filter, page).await {
            Ok(records) => records,
            Err(e) if e.is_retryable() => continue,
            Err(e) => return Err(e.into()),
        };
        let Some(last) = records.last() else {
            return Ok(left);
        };
        page.after = last.order;
        left.extend(records);
    }
}

async fn hanging(
    client: &Client,
    left: Vec<TaskRecord>,
    within: Duration,
) -> Result<String, BoxError> {
    let count = left.len();
    let mut text = format!("{count} tasks have not settled within {within:?}:\n");
    for record in left.iter().take(200) {
        let why = unsettled(record).unwrap_or("has settled meanwhile");
        let _ = writeln!(text, "  {} {why}", record.task.id);
    }
    let _ = writeln!(text, "nodes: {:#?}", client.nodes().await?);
    for record in left.into_iter().take(10) {
        let subject = world::load(client, record).await?;
        let _ = writeln!(text, "{}", subject.describe());
    }
    Ok(text)
}
