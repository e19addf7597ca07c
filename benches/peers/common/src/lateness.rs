//! The job `lateness`: the time from a submit to the start of its handler, on an idle worker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    sync::mpsc::unbounded_channel,
    time::{interval, sleep, timeout},
};

use crate::{Error, Job, Payload, Peer, Ran, meter::Meter};

/// How long the worker has no task before the first one.
const IDLE: Duration = Duration::from_secs(1);
/// The time from one submit to the next.
const PACE: Duration = Duration::from_millis(10);

/// Starts a worker and submits tasks at a fixed pace, whether earlier ones have started or not.
///
/// # Errors
///
/// The system returns an error, or a task has not started within the time limit after the last submit.
pub async fn lateness<P: Peer>(job: &Job) -> Result<Value, Error> {
    let peer = Arc::new(P::open(job).await?);
    let (starts, mut started) = unbounded_channel();
    let ran = Ran::listening(job.count, move |number| {
        let _ = starts.send((number, Instant::now()));
    });
    let worker = peer.work(job, ran.clone()).await?;
    sleep(IDLE).await;
    let meter = Meter::start();
    let mut pace = interval(PACE);
    let mut calls = Vec::new();
    for number in 0..job.count {
        pace.tick().await;
        let (peer, task) = (peer.clone(), Payload::new(number, job.bytes));
        calls.push(tokio::spawn(async move {
            let called = Instant::now();
            peer.submit(&task).await.map(|()| called)
        }));
    }
    let mut called = Vec::new();
    for call in calls {
        called.push(call.await??);
    }
    if timeout(job.limit, ran.all()).await.is_err() {
        let why = format!("{} of {} tasks started in time", ran.count(), job.count);
        return Err(why.into());
    }
    let mut times = vec![None; job.count];
    while let Ok((number, start)) = started.try_recv() {
        // The first start counts.
        if let (Some(time @ None), Some(call)) = (times.get_mut(number), called.get(number)) {
            *time = Some(start.saturating_duration_since(*call));
        }
    }
    let figures = meter.figures_of_times(times.into_iter().flatten().collect());
    peer.settle(worker, job.count).await?;
    Ok(figures)
}
