//! G1 and G2: fences only grow, and between a claim and its end nobody else writes.

use std::collections::BTreeMap;

use windlass::{
    Fence, TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::{Subject, World};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let mut greatest: BTreeMap<&TaskId, Fence> = BTreeMap::new();
    for (id, lives) in &world.gone {
        let greatest = greatest.entry(id).or_default();
        for life in lives {
            let wrong = follow(&life.history, greatest);
            found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
        }
    }
    for (id, subject) in &world.subjects {
        let before = greatest.get(id).copied().unwrap_or_default();
        let wrong = of(subject, before);
        found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
    }
    found
}

/// Follows a history from the greatest fence of the lives before on.
fn follow(history: &[Change], greatest: &mut Fence) -> Vec<String> {
    let mut found = Vec::new();
    let mut live: Option<Fence> = None;
    for change in history {
        let by = match &change.what {
            ChangeKind::Claimed { fence, .. } => {
                if *fence <= *greatest {
                    found.push(format!("claim {fence} follows claim {greatest}"));
                }
                *greatest = (*greatest).max(*fence);
                live = Some(*fence);
                continue;
            }
            ChangeKind::Moved { fence, .. }
            | ChangeKind::Checkpointed { fence }
            | ChangeKind::Dropped { fence }
            | ChangeKind::Lost { fence } => *fence,
            ChangeKind::Submitted { .. } | ChangeKind::Retried if live.is_some() => {
                found.push(format!(
                    "change {} came from outside of a claim",
                    change.seq
                ));
                continue;
            }
            _ => continue,
        };
        if live != Some(by) {
            let how = match live {
                Some(live) => format!("claim {by} wrote change {} while {live} lived", change.seq),
                None => format!("claim {by} wrote change {} after its end", change.seq),
            };
            found.push(how);
        }
        match &change.what {
            ChangeKind::Dropped { .. } | ChangeKind::Lost { .. } => live = None,
            ChangeKind::Moved { to, .. } if to.is_terminal() => live = None,
            _ => {}
        }
    }
    found
}

fn of(subject: &Subject, mut greatest: Fence) -> Vec<String> {
    let mut found = follow(&subject.history, &mut greatest);
    let record = &subject.record;
    let claimed = |c: &Change| matches!(c.what, ChangeKind::Claimed { .. });
    // A new task of the id may begin at 0 until it is claimed: the store keeps the fences apart.
    let begins = record.fence == Fence(0) && !subject.history.iter().any(claimed);
    if record.fence != greatest && !begins {
        let stored = record.fence;
        found.push(format!(
            "its record has fence {stored}; its last claim is {greatest}"
        ));
    }
    if let Ok(state) = &record.state
        && state.fence > greatest
    {
        let stored = state.fence;
        found.push(format!(
            "its state has fence {stored}; its last claim is {greatest}"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{ActionKind, StateKind};

    use super::super::sample::*;
    use super::*;

    #[test]
    fn a_life_with_a_lost_claim_holds() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            checkpointed(2),
            lost(2),
            claimed("b", 5),
            completed(5),
            ChangeKind::Retried,
            claimed("b", 8),
        ];
        holds(check(&of_history(history)));
    }

    #[test]
    fn a_write_of_a_zombie_is_caught() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            lost(2),
            claimed("b", 4),
            checkpointed(2),
        ];
        caught(
            check(&of_history(history)),
            "claim 2 wrote change 5 while 4 lived",
        );
        let history = vec![
            submitted(),
            claimed("a", 2),
            lost(2),
            moved(2, ActionKind::Pause, StateKind::Runnable, StateKind::Paused),
        ];
        caught(check(&of_history(history)), "after its end");
    }

    #[test]
    fn a_fence_that_does_not_grow_is_caught() {
        let history = vec![submitted(), claimed("a", 5), dropped(5), claimed("b", 5)];
        caught(check(&of_history(history)), "claim 5 follows claim 5");
    }

    #[test]
    fn a_record_of_another_claim_is_caught() {
        let mut task = subject(vec![submitted(), claimed("a", 2)]);
        task.record.fence = fence(9);
        caught(check(&world(task)), "its record has fence 9");
    }

    #[test]
    fn a_zombie_of_a_task_that_was_deleted_later_is_caught() {
        let history = vec![submitted(), claimed("a", 2), lost(2), checkpointed(2)];
        caught(
            check(&of_gone(history)),
            "claim 2 wrote change 4 after its end",
        );
    }

    #[test]
    fn a_new_task_of_an_id_has_no_fence_before_its_first_claim() {
        let mut task = subject(vec![submitted()]);
        task.record.fence = fence(0);
        let mut world = world(task);
        world.gone = gone(vec![submitted(), claimed("a", 5)]);
        holds(check(&world));
        world.subjects.get_mut(&id()).unwrap().record.fence = fence(3);
        caught(check(&world), "its record has fence 3");
    }

    #[test]
    fn a_fence_that_does_not_grow_past_a_delete_is_caught() {
        let mut world = of_history(vec![submitted(), claimed("a", 5)]);
        world.gone = gone(vec![submitted(), claimed("a", 2)]);
        holds(check(&world));
        world.gone = gone(vec![submitted(), claimed("a", 5)]);
        caught(check(&world), "claim 5 follows claim 5");
    }
}
