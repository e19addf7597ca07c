//! The feed of changes reports everything that happened, once and in order, whatever happened to the
//! streams that it comes by.

use std::collections::{HashMap, HashSet};

use windlass::{
    TaskId,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::World;

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let mut last = 0;
    let mut told = HashMap::new();
    for change in &world.feed {
        let seq = change.seq;
        if seq <= last {
            let how = format!("the feed reported change {seq} after {last}");
            found.push((change.task.clone(), how));
        }
        last = seq;
        told.insert((&change.task, seq), &change.what);
    }
    for (task, history) in world.histories() {
        if let Some(first) = history.first()
            && !world.feed.is_empty()
            && !matches!(first.what, ChangeKind::Submitted { .. })
        {
            let how = format!("its history begins with change {}, no submit", first.seq);
            found.push((task.clone(), how));
        }
    }
    for (task, kept) in &world.kept {
        found.extend(untrue(world, task, kept));
        for change in kept {
            let seq = change.seq;
            match told.get(&(task, seq)) {
                None => found.push((task.clone(), format!("the feed did not tell change {seq}"))),
                Some(what) if **what != change.what => {
                    let stored = &change.what;
                    let how = format!("the feed told {what:?} as change {seq}; it was {stored:?}");
                    found.push((task.clone(), how));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Changes that the feed reported and the store does not keep. A store may keep the submit, the commands
/// and the last part of a long history, and nothing else.
fn untrue(world: &World, task: &TaskId, kept: &[Change]) -> Found {
    let always = |c: &Change| {
        matches!(
            c.what,
            ChangeKind::Submitted { .. } | ChangeKind::Commanded { .. }
        )
    };
    let from = kept.iter().find(|c| !always(c));
    let (Some(from), Some(subject)) = (from, world.subjects.get(task)) else {
        return Found::new();
    };
    let seqs: HashSet<u64> = kept.iter().map(|c| c.seq).collect();
    let told = subject.history.iter().map(|c| c.seq);
    let untrue = told.filter(|seq| *seq >= from.seq && !seqs.contains(seq));
    let how = |seq| format!("the feed reported change {seq}; the store does not have it");
    untrue.map(|seq| (task.clone(), how(seq))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    fn fed(feed: Vec<(u64, ChangeKind)>, kept: Vec<(u64, ChangeKind)>) -> World {
        let change = |(seq, what)| Change::new(seq, jiff::Timestamp::UNIX_EPOCH, id(), what);
        let mut world = World {
            feed: feed.into_iter().map(change).collect(),
            ..World::default()
        };
        let kept = kept.into_iter().map(change).collect();
        world.kept.insert(id(), kept);
        world
    }

    #[test]
    fn a_whole_feed_holds() {
        let all = vec![(1, submitted()), (2, claimed("a", 2)), (4, dropped(2))];
        holds(check(&fed(all.clone(), all[1..].to_vec())));
    }

    #[test]
    fn a_missing_change_is_caught() {
        let all = vec![(1, submitted()), (2, claimed("a", 2))];
        caught(check(&fed(all[..1].to_vec(), all)), "did not tell change 2");
    }

    #[test]
    fn a_repeated_or_late_change_is_caught() {
        let all = vec![(1, submitted()), (1, submitted())];
        caught(check(&fed(all, vec![])), "change 1 after 1");
        let all = vec![(2, claimed("a", 2)), (1, submitted())];
        caught(check(&fed(all, vec![])), "change 1 after 2");
    }

    #[test]
    fn a_wrong_change_is_caught() {
        let feed = vec![(1, submitted()), (2, dropped(1))];
        caught(
            check(&fed(feed, vec![(2, checkpointed(1))])),
            "as change 2; it was",
        );
    }

    #[test]
    fn a_change_that_was_reported_and_is_not_kept_is_caught() {
        let sent = ChangeKind::Commanded { command: 3 };
        let history = vec![submitted(), claimed("a", 2), sent, dropped(2), lost(2)];
        let mut world = of_history(history);
        let history = world.subjects[&id()].history.clone();
        world.feed = history.clone();
        let mut keeps = |numbers: &[usize]| {
            let kept = numbers.iter().map(|at| history[at - 1].clone());
            world.kept.insert(id(), kept.collect());
            check(&world)
        };
        // Change 2 is older than the part that is kept.
        holds(keeps(&[1, 3, 4, 5]));
        let untrue = "the feed reported change 4; the store does not";
        caught(keeps(&[1, 2, 3, 5]), untrue);
    }

    #[test]
    fn a_life_without_a_submit_is_caught() {
        let mut world = of_history(vec![claimed("a", 2)]);
        world.feed = world.subjects[&id()].history.clone();
        caught(check(&world), "begins with change 1, no submit");
    }
}
