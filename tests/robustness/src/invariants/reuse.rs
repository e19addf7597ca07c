//! G2 and G4 for ids that are used again: each task runs with its own kind, props and data, and
//! fences grow from one task of an id to the next.

use std::collections::BTreeMap;

use windlass::{Fence, Json, TaskId, TaskStatus, store::ChangeKind};

use super::Found;
use crate::{
    reuse::{KINDS, Served, Serving},
    witness::Said,
    world::{Subject, World},
};

/// One task of an id, as its handlers saw it.
struct Life<'a> {
    kind: &'a str,
    word: u64,
    saved: u64,
    fences: (Fence, Fence),
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, lives) in lives(world, &mut found) {
        let greater = lives.values().zip(lives.values().skip(1));
        for (earlier, later) in greater {
            if earlier.fences.1 >= later.fences.0 {
                let (old, new) = (earlier.fences.1, later.fences.0);
                let how =
                    format!("claim {old} of an earlier task is not below {new} of a later one");
                found.push((id.clone(), how));
            }
        }
        let Some(subject) = world.subjects.get(id) else {
            continue;
        };
        found.extend(in_the_end(subject, &lives).map(|how| (id.clone(), how)));
    }
    for subject in world.subjects.values().filter(|s| is_reused(s)) {
        let stored = stored(subject).into_iter();
        found.extend(stored.map(|how| (subject.id().clone(), how)));
    }
    found.extend(replaced(world));
    for (id, word) in &world.promised.reused {
        let there = world.subjects.get(id).and_then(serving).map(|s| s.word);
        if there != Some(*word) {
            let how =
                format!("submit {word} was the last that was acknowledged; {there:?} is there");
            found.push((id.clone(), how));
        }
    }
    found
}

/// Tasks whose id was given away while they lived. A submit that wrote over a live task need not be in
/// the feed: its handlers name it.
fn replaced(world: &World) -> Found {
    let mut found = Found::new();
    if world.feed.is_empty() {
        return found;
    }
    let changes = world.feed.iter().map(|c| ((c.seq, &c.task), Some(&c.what)));
    let mut told: BTreeMap<(u64, &TaskId), Option<&ChangeKind>> = changes.collect();
    for line in &world.witness {
        if let Said::Began { task, order, .. } = &line.said {
            told.entry((*order, task)).or_default();
        }
    }
    let mut live = BTreeMap::new();
    for ((seq, task), what) in told {
        match what {
            None | Some(ChangeKind::Submitted { .. }) => {
                if let Some(submit) = live.insert(task, seq) {
                    let how = format!("submit {seq} took its id while the task of {submit} lived");
                    found.push((task.clone(), how));
                }
            }
            Some(ChangeKind::Deleted | ChangeKind::Quarantined) => {
                live.remove(task);
            }
            Some(ChangeKind::Moved { to, .. }) if to.is_terminal() => {
                live.remove(task);
            }
            Some(ChangeKind::Retried) => {
                live.insert(task, seq);
            }
            Some(_) => {}
        }
    }
    found
}

fn is_reused(subject: &Subject) -> bool {
    KINDS.contains(&subject.record.task.kind.as_str())
}

fn serving(subject: &Subject) -> Option<Serving> {
    subject.record.task.props.get("props").ok()
}

fn lives<'a>(world: &'a World, found: &mut Found) -> BTreeMap<&'a TaskId, BTreeMap<u64, Life<'a>>> {
    let mut lives: BTreeMap<&TaskId, BTreeMap<u64, Life<'_>>> = BTreeMap::new();
    for line in &world.witness {
        match &line.said {
            Said::Began {
                task,
                fence,
                order,
                kind,
                word,
                found: data,
            } => {
                let life = lives.entry(task).or_default().entry(*order);
                let life = life.or_insert(Life {
                    kind,
                    word: *word,
                    saved: 0,
                    fences: (*fence, *fence),
                });
                let mut wrong = |how: String| found.push((task.clone(), how));
                if (life.kind, life.word) != (kind.as_str(), *word) {
                    let (old, of) = (life.word, life.kind);
                    wrong(format!(
                        "claim {fence} ran {kind} with word {word}; the task was {of} with {old}"
                    ));
                }
                if data.is_some_and(|(of, _)| of != life.word) {
                    wrong(format!(
                        "claim {fence} found {data:?} in a task of word {word}"
                    ));
                }
                let n = data.map_or(0, |(_, n)| n);
                if n < life.saved && *fence >= life.fences.1 {
                    let saved = life.saved;
                    wrong(format!("claim {fence} found {n}; {saved} was acknowledged"));
                }
                life.fences.0 = life.fences.0.min(*fence);
                life.fences.1 = life.fences.1.max(*fence);
            }
            Said::Saved { task, order, n, .. } => {
                if let Some(life) = lives.entry(task).or_default().get_mut(order) {
                    life.saved = life.saved.max(*n);
                }
            }
            _ => {}
        }
    }
    lives
}

/// Compares the task that has the id in the end with what its handlers saw.
fn in_the_end<'a>(
    subject: &'a Subject,
    lives: &'a BTreeMap<u64, Life<'a>>,
) -> impl Iterator<Item = String> + 'a {
    let record = &subject.record;
    let word = serving(subject).map(|s| s.word);
    let own = lives.get(&record.order);
    let other = own.filter(|l| Some(l.word) != word || l.kind != record.task.kind.as_str());
    let other = other.map(|life| {
        let (kind, ran) = (life.kind, life.word);
        format!("it ran as {kind} with word {ran}; its record has {word:?}")
    });
    let later = lives.keys().filter(|order| **order > record.order);
    let later = later.map(|order| format!("task {order} ran; the last submit is {}", record.order));
    other.into_iter().chain(later)
}

/// Compares data and result with the props.
fn stored(subject: &Subject) -> Vec<String> {
    let (Some(serving), Ok(state)) = (serving(subject), &subject.record.state) else {
        return vec!["it cannot be read".to_owned()];
    };
    let result = match &state.status {
        TaskStatus::Completed { result } => result.as_ref(),
        _ => None,
    };
    let mut wrong = Vec::new();
    for (what, json) in [("data", state.data.as_ref()), ("result", result)] {
        let served = json.map(|json: &Json| json.get::<Served>("data"));
        match served {
            Some(Ok(served)) if served.word != serving.word => {
                wrong.push(format!(
                    "its {what} is that of word {}, its props have {}",
                    served.word, serving.word
                ));
            }
            Some(Ok(served)) if what == "result" && served.n != serving.upto => {
                let (n, upto) = (served.n, serving.upto);
                wrong.push(format!("it completed at {n} of {upto}"));
            }
            Some(Err(e)) => wrong.push(format!("its {what} cannot be read: {e}")),
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;
    use crate::witness::Line;

    fn began(at: u64, number: u64, order: u64, word: u64, data: Option<(u64, u64)>) -> Line {
        let said = Said::Began {
            task: id(),
            fence: fence(number),
            order,
            kind: "reuse-a".into(),
            word,
            found: data,
        };
        line(at, 7, said)
    }

    fn saved(at: u64, number: u64, order: u64, n: u64) -> Line {
        let said = Said::Saved {
            task: id(),
            fence: fence(number),
            order,
            n,
        };
        line(at, 7, said)
    }

    /// A completed task of submit 4 with word 2, after one of submit 1 with word 1.
    fn sample() -> World {
        let history = vec![submitted(), claimed("a", 5), completed(5)];
        let mut task = subject(history);
        task.record.order = 4;
        task.record.task.kind = "reuse-a".parse().unwrap();
        let serving = Serving {
            word: 2,
            upto: 1,
            pace: 1,
        };
        task.record.task.props = Json::new("props", &serving).unwrap();
        let served = Some(Json::new("data", &Served { word: 2, n: 1 }).unwrap());
        let state = task.record.state.as_mut().unwrap();
        state.data = served.clone();
        state.status = TaskStatus::Completed { result: served };
        let mut world = world(task);
        world.promised.reused.insert(id(), 2);
        world.witness = vec![
            began(1, 2, 1, 1, None),
            saved(2, 2, 1, 1),
            began(3, 5, 4, 2, None),
            saved(4, 5, 4, 1),
        ];
        world
    }

    #[test]
    fn two_tasks_of_an_id_hold() {
        holds(check(&sample()));
    }

    #[test]
    fn a_task_that_runs_as_the_one_before_it_is_caught() {
        let mut world = sample();
        world.witness[2] = began(3, 5, 4, 1, None);
        caught(check(&world), "ran as reuse-a with word 1");
        let mut world = sample();
        world.witness.push(began(5, 6, 4, 1, None));
        caught(check(&world), "the task was reuse-a with 2");
        let mut world = sample();
        let of_the_other = began(3, 5, 4, 2, Some((1, 1)));
        world.witness[2] = of_the_other;
        caught(check(&world), "found Some((1, 1)) in a task of word 2");
    }

    #[test]
    fn what_the_old_owner_wrote_is_caught() {
        let mut world = sample();
        let subject = world.subjects.get_mut(&id()).unwrap();
        let state = subject.record.state.as_mut().unwrap();
        state.data = Some(Json::new("data", &Served { word: 1, n: 1 }).unwrap());
        caught(check(&world), "its data is that of word 1");
        let mut world = sample();
        world.promised.reused.insert(id(), 3);
        caught(check(&world), "submit 3 was the last");
    }

    #[test]
    fn a_live_task_that_is_replaced_is_caught() {
        let told = |whats: Vec<ChangeKind>| World {
            feed: subject(whats).history,
            ..World::default()
        };
        let ended = vec![submitted(), claimed("a", 2), completed(2), submitted()];
        holds(check(&told(ended)));
        holds(check(&told(vec![
            submitted(),
            ChangeKind::Deleted,
            submitted(),
        ])));
        let live = vec![submitted(), claimed("a", 2), submitted()];
        caught(check(&told(live)), "while the task of 1 lived");
        let retried = vec![submitted(), completed(2), ChangeKind::Retried, submitted()];
        caught(check(&told(retried)), "while the task of 3 lived");
    }

    #[test]
    fn a_live_task_that_is_written_over_without_a_submit_in_the_feed_is_caught() {
        let world = |history: Vec<ChangeKind>| World {
            feed: subject(history).history,
            witness: vec![began(1, 2, 1, 1, None), began(2, 5, 4, 2, None)],
            ..World::default()
        };
        let mut history = vec![submitted(), claimed("a", 2), completed(2)];
        history.extend([submitted(), claimed("a", 5)]);
        holds(check(&world(history.clone())));
        history[2] = ChangeKind::Dropped { fence: fence(2) };
        history[3] = claimed("a", 4);
        // Change 4 is no submit, and the task of change 1 has not ended.
        let mut written_over = world(history);
        written_over.feed.remove(3);
        let how = "submit 4 took its id while the task of 1 lived";
        caught(check(&written_over), how);
    }

    #[test]
    fn fences_that_start_again_are_caught() {
        let mut world = sample();
        world.witness[0] = began(1, 6, 1, 1, None);
        caught(check(&world), "claim 6 of an earlier task");
    }

    #[test]
    fn counts_that_are_lost_are_caught() {
        let mut world = sample();
        world.witness.push(began(5, 6, 4, 2, None));
        caught(check(&world), "claim 6 found 0; 1 was acknowledged");
        let mut world = sample();
        world.witness.push(began(5, 7, 9, 3, None));
        caught(check(&world), "task 9 ran");
    }
}
