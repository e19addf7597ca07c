//! A task whose policy is to run once fails when a node that ran it was lost: no handler of it starts after that.

use std::collections::BTreeSet;

use windlass::{
    Fence, Retry, StateKind,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{witness::Said, world::World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for line in &world.witness {
        let Said::Start { task, fence, .. } = &line.said else {
            continue;
        };
        let Some(subject) = world.subjects.get(task) else {
            continue;
        };
        let once = subject.record.task.retry == Some(Retry::Never);
        if once && after_a_loss(&subject.history).contains(fence) {
            let how = format!("claim {fence} follows one that was lost, and runs it again");
            found.push((task.clone(), how));
        }
    }
    found
}

/// The claims after one that was lost while the task was runnable, up to the next step.
fn after_a_loss(history: &[Change]) -> BTreeSet<Fence> {
    let mut claims = BTreeSet::new();
    let (mut is_runnable, mut is_after) = (true, false);
    for change in history {
        match &change.what {
            ChangeKind::Submitted { state } => is_runnable = *state == StateKind::Runnable,
            ChangeKind::Claimed {
                fence, abandoned, ..
            } => {
                is_after |= *abandoned && is_runnable;
                claims.extend(is_after.then_some(*fence));
            }
            ChangeKind::Moved { to, .. } => {
                (is_runnable, is_after) = (*to == StateKind::Runnable, false);
            }
            ChangeKind::Retried => (is_runnable, is_after) = (true, false),
            // The loss counts as an attempt, and the policy is asked after the next one.
            ChangeKind::Dropped { .. } => is_after = false,
            _ => {}
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use windlass::ActionKind;

    use super::super::sample::*;
    use super::*;

    fn abandoned(number: u64) -> ChangeKind {
        ChangeKind::Claimed {
            node: "b".parse().unwrap(),
            fence: fence(number),
            abandoned: true,
        }
    }

    fn runs(retry: Retry, history: Vec<ChangeKind>, number: u64) -> Found {
        let mut task = subject(history);
        task.record.task.retry = Some(retry);
        let mut world = world(task);
        world.witness = vec![start(1, 7, 2, 0), start(2, 8, number, 0)];
        check(&world)
    }

    #[test]
    fn a_run_after_a_loss_is_caught() {
        let lost = || vec![submitted(), claimed("a", 2), lost(2), abandoned(5)];
        caught(runs(Retry::Never, lost(), 5), "claim 5 follows one");
        holds(runs(Retry::Abandoned, lost(), 5));
        holds(runs(Retry::Never, lost(), 2));
        // The claim is made again, because its answer was lost.
        let mut again = lost();
        again.push(claimed("b", 6));
        caught(runs(Retry::Never, again, 6), "claim 6 follows one");
    }

    #[test]
    fn a_run_after_a_release_a_step_or_a_retry_holds() {
        let sleeps = || {
            let (from, to) = (StateKind::Runnable, StateKind::Sleeping);
            moved(2, ActionKind::Sleep, from, to)
        };
        let released = vec![submitted(), claimed("a", 2), dropped(2), claimed("b", 5)];
        holds(runs(Retry::Never, released, 5));
        let asleep = vec![submitted(), claimed("a", 2), sleeps(), abandoned(5)];
        holds(runs(Retry::Never, asleep, 5));
        let mut retried = vec![submitted(), claimed("a", 2), lost(2), abandoned(4)];
        retried.extend([ChangeKind::Retried, claimed("b", 5)]);
        holds(runs(Retry::Never, retried, 5));
    }
}
