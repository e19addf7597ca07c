//! The checks of a folder after a power loss: the store opens and is whole, the invariants of the
//! crash test hold, and so does everything in this file.

use std::path::Path;

use windlass::{
    Client,
    store::{
        Store,
        examine::{Examination, Verdict},
    },
};
use windlass_robustness::{BoxError, invariants, witness::Said, world::World};

use crate::{
    promises::Kept,
    site::{DATABASE, Site},
};

/// What was found in a folder.
#[derive(Debug, Default)]
pub struct Report {
    /// Why the store does not open, or what is wrong with the file.
    pub damaged: Vec<String>,
    /// Acknowledged writes that are missing, and contradictions.
    pub broken: Vec<String>,
    /// How many acknowledgements were checked.
    pub promises: usize,
}

impl Report {
    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.damaged.is_empty() && self.broken.is_empty()
    }
}

/// Opens the store of a folder and checks all of it.
///
/// # Errors
///
/// When the lines of the observer cannot be read.
pub async fn check(folder: &Path) -> Result<Report, BoxError> {
    let site = Site::at(folder);
    let kept = Kept::read(&site.promises())?;
    let mut report = Report {
        promises: kept.promised.tasks.len()
            + kept.promised.commands.len()
            + kept.promised.deleted.len()
            + kept.answered.len()
            + kept.seen.len(),
        ..Report::default()
    };
    let store = match Store::open(&format!("sqlite:{}", site.database().display())).await {
        Ok(store) => store,
        Err(error) => {
            report.damaged.push(format!("it does not open: {error}"));
            return Ok(report);
        }
    };
    let client = Client::new(&store);
    let promised = kept.promised.clone();
    match World::load(&client, &site.witnesses(), promised, None).await {
        Ok(world) => {
            let violations = invariants::check_crashed(&world);
            if !violations.is_empty() {
                report.broken.push(invariants::report(&world, &violations));
            }
            report.broken.extend(unkept(&kept, &world));
        }
        Err(error) => report.damaged.push(format!("it cannot be read: {error}")),
    }
    // After the reading: the examination writes, and a write ends the claims of nodes that are gone.
    let mut how = Examination::default();
    how.full = true;
    let findings = match store.doctor() {
        Ok(doctor) => doctor.examine(&how).await,
        Err(error) => Err(error),
    };
    match findings {
        Ok(findings) => {
            let wrong = |f: &windlass::store::examine::Finding| {
                // The free space is that of the machine.
                f.verdict == Verdict::Error && f.check != "space"
            };
            let wrong = findings.into_iter().filter(wrong);
            let wrong = wrong.map(|f| format!("{DATABASE}: {}: {}", f.check, f.found));
            report.damaged.extend(wrong);
        }
        Err(error) => report
            .damaged
            .push(format!("it cannot be examined: {error}")),
    }
    Ok(report)
}

/// Finds the promises that the store does not keep, in addition to those of the invariants.
fn unkept(kept: &Kept, world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for (task, command, outcome) in &kept.answered {
        let commands = world.subjects.get(task).map(|s| &s.commands);
        let stored = commands.and_then(|all| all.iter().find(|c| c.id == *command));
        let stored = stored.and_then(|c| c.outcome.as_ref());
        if stored != Some(outcome) {
            broken.push(format!(
                "{task}: the outcome of {command} was read as {outcome:?}; {stored:?} is stored"
            ));
        }
    }
    for change in &kept.seen {
        let history = world.subjects.get(&change.task).map(|s| &s.history);
        let there = history.is_some_and(|all| all.contains(change));
        if !there && !kept.deleting.contains(&change.task) {
            let (task, seq) = (&change.task, change.seq);
            broken.push(format!(
                "{task}: the feed delivered change {seq}; it is gone"
            ));
        }
    }
    for line in &world.witness {
        let Said::Start { task, fence, .. } = &line.said else {
            continue;
        };
        let stored = world.subjects.get(task).map(|s| s.record.fence);
        if stored.is_none_or(|stored| stored < *fence) && !kept.deleting.contains(task) {
            broken.push(format!(
                "{task}: a handler ran on claim {fence}; the stored fence is {stored:?}"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use windlass::{Command, Fence, NewTask, Outcome, TaskId, store::ChangeKind};
    use windlass_robustness::witness::Line;

    use super::*;

    /// A store with one task, and what it really holds.
    async fn world() -> (World, Kept) {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        let task = client
            .submit(NewTask::new("k").id("t"))
            .await
            .unwrap()
            .into_id();
        let command = client.command(&task, Command::Pause).await.unwrap();
        let mut kept = Kept {
            seen: client.history(&task, 10).await.unwrap(),
            ..Kept::default()
        };
        let witnesses = tempfile::tempdir().unwrap();
        let promised = kept.promised.clone();
        let loaded = World::load(&client, witnesses.path(), promised, None).await;
        let mut world = loaded.unwrap();
        let outcome = Outcome::Rejected {
            reason: "no".into(),
        };
        let subject = world.subjects.get_mut(&task).unwrap();
        subject.record.fence = Fence(5);
        subject.commands[0].outcome = Some(outcome.clone());
        kept.answered.push((task.clone(), command, outcome));
        world.witness.push(started(&task, 5));
        (world, kept)
    }

    fn started(task: &TaskId, fence: u64) -> Line {
        Line {
            at: 1,
            pid: 1,
            said: Said::Start {
                task: task.clone(),
                fence: Fence(fence),
                n: 0,
            },
        }
    }

    fn caught(broken: &[String], expected: &str) {
        assert!(broken.iter().any(|b| b.contains(expected)), "{broken:?}");
    }

    #[tokio::test]
    async fn what_is_there_is_kept() {
        let (world, kept) = world().await;
        assert_eq!(unkept(&kept, &world), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_lost_change_is_caught() {
        let (mut world, mut kept) = world().await;
        let lost = kept.seen.last_mut().unwrap();
        lost.what = ChangeKind::Retried;
        caught(&unkept(&kept, &world), "it is gone");
        let task = kept.seen[0].task.clone();
        world.subjects.clear();
        caught(&unkept(&kept, &world), "it is gone");
        kept.deleting.insert(task);
        kept.answered.clear();
        assert_eq!(unkept(&kept, &world), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_lost_outcome_is_caught() {
        let (mut world, kept) = world().await;
        for subject in world.subjects.values_mut() {
            subject.commands[0].outcome = None;
        }
        caught(&unkept(&kept, &world), "None is stored");
    }

    #[tokio::test]
    async fn a_fence_that_goes_back_is_caught() {
        let (mut world, kept) = world().await;
        let task = kept.seen[0].task.clone();
        world.witness.push(started(&task, 6));
        caught(&unkept(&kept, &world), "a handler ran on claim 6");
    }
}
