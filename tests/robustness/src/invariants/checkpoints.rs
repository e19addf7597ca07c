//! G3 and G8: what was acknowledged to a handler is never lost, and what it counts never goes back.

use std::collections::BTreeMap;

use windlass::{
    ActionKind, Fence, TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{
    exec_lines::ExecSaid,
    witness::Said,
    world::{Subject, World},
};

/// What was witnessed of one task, in order of time.
#[derive(Default)]
struct Seen {
    starts: Vec<(Fence, u64)>,
    asked: u64,
    acked: Vec<(Fence, u64)>,
    wrong: Vec<String>,
}

pub(super) fn check(world: &World) -> Found {
    let mut seen: BTreeMap<(&TaskId, usize), Seen> = BTreeMap::new();
    for line in &world.witness {
        match &line.said {
            Said::Start { task, fence, n } => {
                let life = (task, world.life(task, *fence));
                seen.entry(life).or_default().start(*fence, *n);
            }
            Said::Asked { task, fence, n } => {
                let life = (task, world.life(task, *fence));
                let seen = seen.entry(life).or_default();
                seen.asked = seen.asked.max(*n);
            }
            Said::Acked { task, fence, n } => {
                let life = (task, world.life(task, *fence));
                seen.entry(life).or_default().acked(*fence, *n);
            }
            _ => {}
        }
    }
    let mut found = Found::new();
    for ((task, life), mut seen) in seen {
        let gone = world.gone.get(task).map_or(&[][..], Vec::as_slice);
        let subject = world.subjects.get(task).filter(|_| life >= gone.len());
        if let Some(subject) = subject {
            seen.ends(subject);
            seen.writes(&subject.history);
        } else if let Some(life) = gone.get(life) {
            seen.writes(&life.history);
        }
        let wrong = seen.wrong.into_iter();
        found.extend(wrong.map(|how| (task.clone(), how)));
    }
    found.extend(in_folders(world));
    found
}

impl Seen {
    fn start(&mut self, fence: Fence, n: u64) {
        // An acknowledgement of an earlier claim may be written down late: its process was stopped.
        // Of the same claim, what was written before is what was acknowledged before.
        let lost = self.acked.iter().find(|(by, m)| *by <= fence && *m > n);
        if let Some((by, m)) = lost {
            self.wrong.push(format!(
                "{m} was acknowledged to claim {by}; claim {fence} started with {n}"
            ));
        }
        if n > self.asked {
            let asked = self.asked;
            self.wrong.push(format!(
                "claim {fence} started with {n}; no more than {asked} was ever asked for"
            ));
        }
        if let Some((by, m)) = self.starts.iter().find(|(by, m)| *by <= fence && *m > n) {
            self.wrong.push(format!(
                "claim {by} started with {m}, later claim {fence} with {n}"
            ));
        }
        self.starts.push((fence, n));
    }

    fn acked(&mut self, fence: Fence, n: u64) {
        // Written down late, as said above: a later claim has started with less.
        if let Some((by, m)) = self.starts.iter().find(|(by, m)| *by > fence && *m < n) {
            self.wrong.push(format!(
                "{n} was acknowledged to claim {fence}; claim {by} started with {m}"
            ));
        }
        self.acked.push((fence, n));
    }

    /// What the store has in the end.
    fn ends(&mut self, subject: &Subject) {
        let kept = subject.count().unwrap_or(0);
        if let Some((by, n)) = self.acked.iter().find(|(_, n)| *n > kept) {
            self.wrong.push(format!(
                "{n} was acknowledged to claim {by}; {kept} is stored"
            ));
        }
        if kept > self.asked {
            let asked = self.asked;
            self.wrong.push(format!(
                "{kept} is stored; no more than {asked} was asked for"
            ));
        }
    }

    /// What the history has of the checkpoints that were acknowledged.
    fn writes(&mut self, history: &[Change]) {
        let mut acked: BTreeMap<Fence, usize> = BTreeMap::new();
        for (fence, _) in &self.acked {
            *acked.entry(*fence).or_default() += 1;
        }
        for (fence, acked) in acked {
            let written = history.iter().filter(|c| writes(&c.what, fence));
            let written = written.count();
            if written < acked {
                self.wrong.push(format!(
                    "claim {fence} was acknowledged {acked} checkpoints; its history has {written}"
                ));
            }
        }
    }
}

/// Whether a change may be the checkpoint of a running handler: one that answers commands too is
/// written as their step.
fn writes(what: &ChangeKind, by: Fence) -> bool {
    match what {
        ChangeKind::Checkpointed { fence } => *fence == by,
        ChangeKind::Moved {
            message: ActionKind::Checkpoint | ActionKind::Run,
            fence,
            command: Some(_),
            ..
        } => *fence == by,
        _ => false,
    }
}

/// What commands count in their own folders, which windlass keeps for them.
fn in_folders(world: &World) -> Found {
    let mut found = Found::new();
    let mut counted: BTreeMap<(&TaskId, usize), u64> = BTreeMap::new();
    for line in &world.exec {
        let life = (&line.task, world.life(&line.task, line.fence));
        let counted = counted.entry(life).or_default();
        match line.said {
            ExecSaid::Start(n) if n < *counted => {
                let how = format!("the command had stored {counted}; it found {n} later");
                found.push((line.task.clone(), how));
            }
            ExecSaid::Step(n) if n <= *counted => {
                let how = format!("the command stored {n} after {counted}");
                found.push((line.task.clone(), how));
            }
            ExecSaid::Step(n) => *counted = n,
            ExecSaid::Start(_) | ExecSaid::Overlap(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::StateKind;

    use super::super::sample::*;
    use super::*;
    use crate::exec_lines::ExecLine;

    fn world_with(lines: Vec<crate::witness::Line>, n: u64) -> World {
        let history = vec![
            submitted(),
            claimed("a", 2),
            checkpointed(2),
            lost(2),
            claimed("b", 5),
        ];
        let mut world = world(with_count(subject(history), n));
        world.witness = lines;
        world
    }

    #[test]
    fn counting_on_after_a_crash_holds() {
        let lines = vec![
            start(1, 7, 2, 0),
            asked(2, 7, 2, 1),
            acked(3, 7, 2, 1),
            start(4, 8, 5, 1),
            asked(5, 8, 5, 2),
        ];
        holds(check(&world_with(lines.clone(), 1)));
        holds(check(&world_with(lines, 2)));
    }

    #[test]
    fn a_checkpoint_that_is_lost_is_caught() {
        let (one, two) = (asked(2, 7, 2, 1), acked(3, 7, 2, 1));
        let lines = vec![start(1, 7, 2, 0), one.clone(), two.clone()];
        caught(check(&world_with(lines, 0)), "0 is stored");
        let lines = vec![start(1, 7, 2, 0), one.clone(), two, start(4, 8, 5, 0)];
        caught(check(&world_with(lines, 1)), "claim 5 started with 0");
        // The acknowledgement was written down late.
        let lines = vec![start(1, 7, 2, 0), one, start(3, 8, 5, 0), acked(4, 7, 2, 1)];
        caught(check(&world_with(lines, 1)), "claim 5 started with 0");
    }

    #[test]
    fn a_count_that_goes_back_is_caught() {
        let lines = vec![asked(1, 7, 2, 3), start(2, 7, 2, 3), start(3, 8, 5, 2)];
        caught(check(&world_with(lines, 3)), "later claim 5 with 2");
    }

    #[test]
    fn a_count_without_a_request_is_caught() {
        let lines = vec![start(1, 7, 2, 4)];
        caught(check(&world_with(lines, 0)), "ever asked for");
        let lines = vec![start(1, 7, 2, 0)];
        caught(check(&world_with(lines, 4)), "4 is stored");
    }

    #[test]
    fn an_acknowledgement_without_a_write_is_caught() {
        let lines = vec![
            start(1, 7, 2, 0),
            asked(2, 7, 2, 1),
            acked(3, 7, 2, 1),
            asked(4, 7, 2, 2),
            acked(5, 7, 2, 2),
        ];
        let mut world = world_with(lines, 2);
        caught(
            check(&world),
            "acknowledged 2 checkpoints; its history has 1",
        );
        let step = moved(
            2,
            ActionKind::Checkpoint,
            StateKind::Runnable,
            StateKind::Runnable,
        );
        let subject = world.subjects.get_mut(&id()).unwrap();
        subject.history[1].what = by_command(9, step);
        holds(check(&world));
    }

    #[test]
    fn a_folder_that_forgets_is_caught() {
        let says = |said| ExecLine {
            at: 0,
            task: id(),
            fence: fence(2),
            said,
        };
        let mut world = World {
            exec: vec![says(ExecSaid::Start(0)), says(ExecSaid::Step(1))],
            ..World::default()
        };
        holds(check(&world));
        world.exec.push(says(ExecSaid::Start(0)));
        caught(check(&world), "it found 0 later");
        world.exec[2] = says(ExecSaid::Step(1));
        caught(check(&world), "stored 1 after 1");
    }

    #[test]
    fn a_checkpoint_of_a_task_that_was_deleted_later_is_checked() {
        let lines = vec![
            start(1, 7, 2, 0),
            asked(2, 7, 2, 1),
            acked(3, 7, 2, 1),
            // Of the next task of the id, which begins at 0.
            start(4, 8, 5, 0),
        ];
        let mut world = World {
            witness: lines,
            gone: gone(vec![submitted(), claimed("a", 2), checkpointed(2)]),
            ..World::default()
        };
        holds(check(&world));
        world.gone = gone(vec![submitted(), claimed("a", 2)]);
        caught(
            check(&world),
            "acknowledged 1 checkpoints; its history has 0",
        );
    }
}
