//! The jobs `later` and `sleepers`: tasks that are due in a year, and the memory of an idle worker with them.

use std::{fs, io, path::Path, time::Duration};

use serde_json::Value;

use crate::{
    Error, Job, Peer, Ran, flow,
    meter::{Meter, resident_bytes},
};

/// How long the tasks sleep.
pub const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long the worker has run when its memory is read.
const IDLE: Duration = Duration::from_secs(5);

/// Submits tasks that are due in a year, one by one, from as many callers as the job has slots.
///
/// # Errors
///
/// The system returns an error.
pub async fn later<P: Peer>(job: &Job) -> Result<Value, Error> {
    flow::submit_all::<P>(job, Some(YEAR)).await
}

/// Starts a worker and reads the memory of the process and the bytes of its files while all tasks sleep.
///
/// # Errors
///
/// The system returns an error, or a task has run.
pub async fn sleepers<P: Peer>(job: &Job) -> Result<Value, Error> {
    let peer = P::open(job).await?;
    let ran = Ran::expecting(usize::MAX);
    let meter = Meter::start();
    let _worker = peer.work(job, ran.clone()).await?;
    tokio::time::sleep(IDLE).await;
    let resident = resident_bytes()?;
    let files = file_bytes(&job.dir)?;
    if ran.count() > 0 {
        return Err(format!("{} tasks that are due in a year have run", ran.count()).into());
    }
    let elapsed = meter.elapsed();
    let mut figures = meter.figures(job.count, peer.facts().await?, elapsed);
    figures["resident_bytes"] = resident.into();
    figures["file_bytes"] = files.into();
    Ok(figures)
}

/// Returns the bytes of all files of a folder and its folders.
fn file_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        bytes += if metadata.is_dir() {
            file_bytes(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_inner_folders_count() -> Result<(), Error> {
        let folder = std::env::temp_dir().join(format!("sleepers-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner"))?;
        fs::write(folder.join("a"), [0; 10])?;
        fs::write(folder.join("inner/b"), [0; 5])?;
        let bytes = file_bytes(&folder);
        fs::remove_dir_all(&folder)?;
        assert_eq!(bytes?, 15);
        assert!(resident_bytes()? > 0);
        Ok(())
    }
}
