//! The job `kills`: runs no-ops until the process is killed, or all tasks have succeeded.

use std::{fs::OpenOptions, io::Write, path::PathBuf, process::exit, time::Duration};

use serde_json::Value;

use crate::{Error, Job, Peer, Ran, meter::Meter, payload::DIGITS};

/// How often the store is asked for the number of tasks that are left.
const LOOK: Duration = Duration::from_millis(10);

/// Runs no-ops. Each handler appends the number of its task to the file `runs`, in one write. Ends when the store has
/// the success of each task, or at the time limit; `done` counts the tasks that have succeeded.
///
/// # Errors
///
/// The system or the file returns an error.
pub async fn kills<P: Peer>(job: &Job) -> Result<Value, Error> {
    let runs: PathBuf = job.get("runs")?;
    let runs = OpenOptions::new().create(true).append(true).open(runs)?;
    let peer = P::open(job).await?;
    let ran = Ran::listening(usize::MAX, move |number| {
        let line = format!("{number:0DIGITS$}\n");
        if let Err(e) = (&runs).write_all(line.as_bytes()) {
            eprintln!("error: could not append to the file of runs: {e}");
            exit(1);
        }
    });
    let meter = Meter::start();
    let _worker = peer.work(job, ran).await?;
    let mut left = peer.left(job.count).await?;
    while left > 0 && meter.elapsed() < job.limit {
        tokio::time::sleep(LOOK).await;
        left = peer.left(job.count).await?;
    }
    let elapsed = meter.elapsed();
    Ok(meter.figures(job.count - left, peer.facts().await?, elapsed))
}
