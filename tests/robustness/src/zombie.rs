//! A worker that stands still in the middle of a write. The write reaches the store when the claims
//! that it is for are lost.
//!
//! The test and the worker agree by two files in the witnesses' folder:
//!
//! 1. The test makes `hold.PID`.
//! 2. The next write of the process PID takes it: the process renames it to `held.PID` and holds the
//!    write ([`Holds`]).
//! 3. The test stops the process, and continues it after its lease.
//! 4. The test removes `held.PID` when the store has ended the claims. The write then reaches the
//!    store.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use windlass::{
    Client, Fence, TaskId,
    store::{Claim, Error, TaskRecord},
};

use crate::{
    BoxError, time,
    witness::{self, Journal, Said},
    workers::{Role, Worker},
};

/// The pause between two checks of a file.
const LOOK: Duration = Duration::from_millis(5);

/// How long a worker may take to write something.
const TO_WRITE: Duration = Duration::from_secs(5);

/// How long a store may take to end claims whose lease is over.
const TO_LOSE: Duration = Duration::from_secs(60);

fn hold(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("hold.{pid}"))
}

fn held(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("held.{pid}"))
}

/// The worker's side.
#[derive(Debug)]
pub struct Holds {
    hold: PathBuf,
    held: PathBuf,
}

impl Holds {
    /// Of this process, in the witnesses' folder.
    pub fn new(folder: &Path) -> Self {
        let pid = std::process::id();
        Self {
            hold: hold(folder, pid),
            held: held(folder, pid),
        }
    }

    /// Takes the test's request to hold a write, if there is one, and reports the claims of the write.
    pub fn take<'a>(&self, journal: &Journal, claims: impl Iterator<Item = &'a Claim>) -> bool {
        if !self.hold.exists() {
            return false;
        }
        // Reported first: the test reads the claims as soon as it sees the file.
        for claim in claims {
            journal.say(Said::Held {
                task: claim.task.clone(),
                fence: claim.fence,
            });
        }
        fs::rename(&self.hold, &self.held).is_ok()
    }

    /// Resolves when the test lets the write through.
    pub async fn passed(&self) {
        while self.held.exists() {
            sleep(LOOK).await;
        }
    }
}

/// How long a worker stands still, and what happens then.
#[derive(Debug, Clone, Copy)]
pub struct Standstill {
    /// The worker stands still for this time, which is longer than its lease.
    pub lasts: Duration,
    /// The worker is continued; otherwise it is killed.
    pub wakes: bool,
}

/// A write that a worker holds until the test lets it through.
#[derive(Debug)]
pub struct HeldWrite {
    folder: PathBuf,
    pid: u32,
    since: u64,
}

impl HeldWrite {
    /// Asks a worker to hold its next write. Returns `None` when it writes nothing: it has no tasks, or
    /// it is one of the command line, which does not know the request.
    ///
    /// # Errors
    ///
    /// When the worker has ended on its own.
    pub async fn ask(worker: &mut Worker) -> Result<Option<Self>, BoxError> {
        let write = Self {
            folder: worker.witnesses(),
            pid: worker.pid()?,
            since: time::now(),
        };
        let is_held = worker.role() == Role::Library && is_held(&write.folder, write.pid).await?;
        Ok(is_held.then_some(write))
    }

    /// The claims that the write is for.
    ///
    /// # Errors
    ///
    /// When what the worker reported cannot be read.
    pub fn claims(&self) -> Result<Vec<(TaskId, Fence)>, BoxError> {
        claims(&self.folder, self.pid, self.since)
    }

    /// Lets the write reach the store.
    ///
    /// # Errors
    ///
    /// When the file is gone.
    pub fn let_through(self) -> io::Result<()> {
        fs::remove_file(held(&self.folder, self.pid))
    }
}

/// Stops a worker, in the middle of a write where one of its writes can be held. Continues it, or
/// kills it and launches the next. Returns whether a write of claims that had ended was let through.
///
/// # Errors
///
/// When the worker has ended on its own, or the store does not end the claims.
pub async fn stand_still(
    worker: &mut Worker,
    client: &Client,
    how: Standstill,
) -> Result<bool, BoxError> {
    let held = HeldWrite::ask(worker).await?;
    worker.stop()?;
    sleep(how.lasts).await;
    if !how.wakes {
        worker.kill().await?;
        held.map(HeldWrite::let_through).transpose()?;
        worker.launch()?;
        return Ok(false);
    }
    worker.go_on()?;
    let Some(held) = held else {
        return Ok(false);
    };
    // A process that was stopped within a write on SQLite kept the file locked until now.
    let claims = held.claims()?;
    let deadline = Instant::now() + TO_LOSE;
    for (task, fence) in &claims {
        while let Some(why) = is_live(client, task, *fence).await? {
            if Instant::now() > deadline {
                let name = worker.name();
                return Err(format!("{name} still has {task} after {TO_LOSE:?}: {why}").into());
            }
            sleep(LOOK * 10).await;
        }
    }
    held.let_through()?;
    Ok(!claims.is_empty())
}

/// Why a claim may be live; `None` when the store has ended it.
///
/// The history does not tell: on etcd the next claim writes the loss, and a paused task or one that
/// sleeps for hours has none.
async fn is_live(client: &Client, task: &TaskId, fence: Fence) -> Result<Option<String>, BoxError> {
    match client.get(task).await {
        Ok(record) => Ok(has_claim(&record, fence).then(|| format!("{record:?}"))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) if e.is_retryable() => Ok(Some(e.to_string())),
        Err(e) => Err(e.into()),
    }
}

fn has_claim(record: &TaskRecord, fence: Fence) -> bool {
    record.node.is_some() && record.fence == fence
}

/// Asks a process to hold its next write. Returns whether it does: one without tasks writes nothing.
async fn is_held(folder: &Path, pid: u32) -> io::Result<bool> {
    let (hold, held) = (hold(folder, pid), held(folder, pid));
    File::create(&hold)?;
    let deadline = Instant::now() + TO_WRITE;
    while Instant::now() < deadline {
        if held.exists() {
            return Ok(true);
        }
        sleep(LOOK).await;
    }
    // The process may take it at this very moment.
    Ok(fs::remove_file(hold).is_err())
}

/// The claims of the writes that a process has held since a moment.
fn claims(folder: &Path, pid: u32, since: u64) -> Result<Vec<(TaskId, Fence)>, BoxError> {
    let lines = witness::read(folder)?;
    let said = lines.into_iter().filter(|l| l.pid == pid && l.at >= since);
    Ok(said
        .filter_map(|l| match l.said {
            Said::Held { task, fence } => Some((task, fence)),
            _ => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use windlass::{
        NewTask, Store,
        store::{Lease, NodeSpec},
    };

    use super::*;

    fn of(fence: Fence) -> Vec<(TaskId, Fence)> {
        vec![("t".parse().unwrap(), fence)]
    }

    async fn claim(store: &Store, node: &str) -> (Lease, Claim) {
        let (spec, task) = (NodeSpec::new(node.parse().unwrap()), "t".parse().unwrap());
        let coordinator = store.coordinator();
        let lease = coordinator.join(&spec, TO_LOSE).await.unwrap();
        let claimed = coordinator.claim(&lease, vec![task]).await.remove(0);
        (lease, claimed.unwrap().unwrap().claim)
    }

    async fn lives(client: &Client, claim: &Claim) -> bool {
        let why = is_live(client, &claim.task, claim.fence).await;
        why.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_claim_is_live_until_it_is_lost_though_nobody_claims_the_task_again() {
        let store = Store::open("memory:").await.unwrap();
        let client = Client::new(&store);
        client.submit(NewTask::new("k").id("t")).await.unwrap();
        let (lease, first) = claim(&store, "a").await;
        assert!(lives(&client, &first).await);
        store.coordinator().abandon(&lease).await.unwrap();
        assert!(!lives(&client, &first).await);
        let (_, second) = claim(&store, "b").await;
        assert!(!lives(&client, &first).await);
        assert!(lives(&client, &second).await);
        client.force_delete(&second.task).await.unwrap();
        assert!(!lives(&client, &second).await);
    }

    #[tokio::test]
    async fn a_write_is_held_until_the_test_lets_it_through() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path(), "a").unwrap();
        let (holds, pid) = (Holds::new(folder.path()), std::process::id());
        let claim = Claim::new("t".parse().unwrap(), Fence(2), 1, 0);
        assert!(!holds.take(&journal, [&claim].into_iter()));
        File::create(hold(folder.path(), pid)).unwrap();
        assert!(holds.take(&journal, [&claim].into_iter()));
        assert!(!holds.take(&journal, [&claim].into_iter()));
        assert_eq!(claims(folder.path(), pid, 0).unwrap(), of(Fence(2)));
        let mut passed = std::pin::pin!(holds.passed());
        assert!(futures::poll!(&mut passed).is_pending());
        fs::remove_file(held(folder.path(), pid)).unwrap();
        passed.await;
    }
}
