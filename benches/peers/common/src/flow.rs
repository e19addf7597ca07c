//! The jobs `submit` and `drain`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use crate::{Error, Job, Payload, Peer, Ran, meter::Meter};

/// Submits tasks one by one from as many callers as the job has slots.
///
/// # Errors
///
/// The system returns an error.
pub async fn submit<P: Peer>(job: &Job) -> Result<Value, Error> {
    submit_all::<P>(job, None).await
}

/// Submits tasks that are due at once, or after a wait.
pub(crate) async fn submit_all<P: Peer>(job: &Job, wait: Option<Duration>) -> Result<Value, Error> {
    let peer = Arc::new(P::open(job).await?);
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = std::time::Instant::now();
    let meter = Meter::start();
    let callers: Vec<_> = (0..job.slots)
        .map(|_| {
            let (peer, next, done, job) = (peer.clone(), next.clone(), done.clone(), job.clone());
            tokio::spawn(async move {
                while begun.elapsed() < job.limit {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= job.count {
                        break;
                    }
                    let task = Payload::new(n, job.bytes);
                    match wait {
                        None => peer.submit(&task).await?,
                        Some(wait) => peer.submit_later(&task, wait).await?,
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    let mut done = done.load(Ordering::Relaxed);
    if wait.is_some() {
        done = peer.asleep(done).await?;
    }
    let elapsed = meter.elapsed();
    let facts = peer.facts().await?;
    Ok(meter.figures(done, facts, elapsed))
}

/// Runs no-ops until each of the submitted tasks has ended, or the time limit.
///
/// # Errors
///
/// The system returns an error.
pub async fn drain<P: Peer>(job: &Job) -> Result<Value, Error> {
    let peer = P::open(job).await?;
    let ran = Ran::expecting(job.count);
    let meter = Meter::start();
    let worker = peer.work(job, ran.clone()).await?;
    let in_time = tokio::time::timeout(job.limit, ran.all()).await.is_ok();
    let count = ran.count();
    if !in_time {
        // The workers are dropped with the process: only what ran until now counts.
        let elapsed = meter.elapsed();
        return Ok(meter.figures(count, peer.facts().await?, elapsed));
    }
    peer.settle(worker, job.count).await?;
    let elapsed = meter.elapsed();
    let facts = peer.facts().await?;
    Ok(meter.figures(job.count, facts, elapsed))
}
