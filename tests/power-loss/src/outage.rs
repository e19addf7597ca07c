//! [`outages`]: the power fails at chosen moments of a recording, and what is left is checked.

use std::collections::BTreeMap;

use fastrand::Rng;
use tokio::task::JoinSet;
use windlass_robustness::BoxError;

use crate::{
    check::{self, Report},
    disk::{Disk, Files, OUTSIDE},
    loss::Loss,
    recording::Recording,
    site::{DATABASE, Site},
    trace::Op,
};

/// How many folders are checked at once.
const AT_ONCE: usize = 4;
/// How many failures are described.
const DESCRIBED: usize = 5;

/// When the power fails, and how.
#[derive(Debug, Clone, Copy)]
pub struct Outage {
    /// How many calls of the trace have returned.
    pub after: usize,
    /// What happens to the changes that were not synced.
    pub loss: Loss,
}

/// What the outages of a recording have shown.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many outages there were.
    pub outages: usize,
    /// How many acknowledgements were checked, over all outages.
    pub promises: usize,
    /// In how many outages the log held something that was not synced.
    pub unsynced_log: usize,
    /// In how many outages the database itself did.
    pub unsynced_database: usize,
    /// After how many outages the store did not open or was not whole.
    pub damaged: usize,
    /// After how many outages something acknowledged was gone.
    pub broken: usize,
    /// The first failures.
    pub failures: Vec<String>,
}

impl Summary {
    /// Fails when something does not hold.
    ///
    /// # Errors
    ///
    /// The first failures.
    pub fn holds(&self) -> Result<(), BoxError> {
        if self.damaged + self.broken == 0 {
            return Ok(());
        }
        let failures = self.failures.join("\n");
        Err(format!("{self}\n{failures}").into())
    }

    fn add(&mut self, outage: Outage, report: Report) {
        self.promises += report.promises;
        self.damaged += usize::from(!report.damaged.is_empty());
        self.broken += usize::from(!report.broken.is_empty());
        if !report.holds() && self.failures.len() < DESCRIBED {
            let what = [report.damaged, report.broken].concat().join("\n");
            self.failures.push(format!("{outage:?}: {what}"));
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} outages ({} with an unsynced log, {} with an unsynced database), {} \
             acknowledgements; after {} the store was damaged, after {} it had lost something",
            self.outages,
            self.unsynced_log,
            self.unsynced_database,
            self.promises,
            self.damaged,
            self.broken,
        )
    }
}

/// Draws the moments of a recording: a third right after an acknowledgement, a third while the log
/// is written back to the database, the others anywhere.
pub fn moments(recording: &Recording, count: usize, rng: &mut Rng) -> Vec<Outage> {
    let mut names = BTreeMap::new();
    let (mut acknowledged, mut written_back) = (Vec::new(), Vec::new());
    for (at, op) in recording.ops.iter().enumerate() {
        match op {
            Op::Open { fd, name, .. } => {
                names.insert(*fd, name.as_str());
            }
            Op::Write { fd, .. } => match names.get(fd) {
                Some(name) if name.starts_with(OUTSIDE) => acknowledged.push(at + 1),
                Some(name) if *name == DATABASE => written_back.push(at + 1),
                _ => {}
            },
            _ => {}
        }
    }
    let anywhere: Vec<usize> = (0..=recording.ops.len()).collect();
    let mut chosen = Vec::new();
    for kind in 0..count {
        let among = match kind % 3 {
            0 if !acknowledged.is_empty() => &acknowledged,
            1 if !written_back.is_empty() => &written_back,
            _ => &anywhere,
        };
        chosen.push(Outage {
            after: among[rng.usize(0..among.len())],
            loss: Loss::any(rng),
        });
    }
    chosen
}

/// Every moment of a recording, with several losses each.
pub fn every_moment(recording: &Recording, losses: usize, rng: &mut Rng) -> Vec<Outage> {
    let moments = 0..=recording.ops.len();
    let each = moments.flat_map(|after| std::iter::repeat_n(after, losses));
    let outages = each.map(|after| Outage {
        after,
        loss: Loss::any(rng),
    });
    outages.collect()
}

/// Lets the power fail at each of these moments. `ignores_syncs` replays the recording as if the
/// process had never synced.
///
/// # Errors
///
/// When a folder cannot be rebuilt.
pub async fn outages(
    recording: &Recording,
    mut moments: Vec<Outage>,
    ignores_syncs: bool,
    rng: &mut Rng,
) -> Result<Summary, BoxError> {
    moments.sort_by_key(|outage| outage.after);
    let mut disk = Disk::new(&recording.before);
    disk.ignores_syncs = ignores_syncs;
    let mut summary = Summary::default();
    let mut checks = JoinSet::new();
    let mut done = 0;
    for outage in moments {
        for op in &recording.ops[done..outage.after] {
            disk.apply(op)?;
        }
        done = outage.after;
        summary.outages += 1;
        summary.unsynced_database += usize::from(disk.has_unsynced(DATABASE));
        summary.unsynced_log += usize::from(disk.has_unsynced(&format!("{DATABASE}-wal")));
        if checks.len() >= AT_ONCE {
            finish(&mut checks, &mut summary).await?;
        }
        let mut files = disk.after(outage.loss, rng);
        leave_an_index(&mut files, rng);
        checks.spawn(async move { Ok((outage, rebuilt(&files).await?)) });
    }
    while !checks.is_empty() {
        finish(&mut checks, &mut summary).await?;
    }
    Ok(summary)
}

async fn finish(
    checks: &mut JoinSet<Result<(Outage, Report), BoxError>>,
    summary: &mut Summary,
) -> Result<(), BoxError> {
    if let Some(done) = checks.join_next().await {
        let (outage, report) = done??;
        summary.add(outage, report);
    }
    Ok(())
}

/// The index of the log is never synced: it may be missing, or hold anything.
fn leave_an_index(files: &mut Files, rng: &mut Rng) {
    if files.contains_key(DATABASE) && rng.bool() {
        let index = (0..rng.usize(0..40_000)).map(|_| rng.u8(..)).collect();
        files.insert(format!("{DATABASE}-shm"), index);
    }
}

async fn rebuilt(files: &Files) -> Result<Report, BoxError> {
    let folder = tempfile::tempdir()?;
    Site::at(folder.path()).create(files)?;
    check::check(folder.path()).await
}
