//! No live task has missed a deadline, no task starts or completes after its deadline, and a failure for a
//! deadline says which and is not early.
//!
//! A retry counts as a start and drops what has passed, so tasks that were retried are left out. A node decides by its own clock:
//! where one was wrong by more than a second, starts and ends prove nothing.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use windlass::{
    Fence, StateKind, TaskId,
    store::{Change, ChangeKind},
};

use super::{
    Found,
    missed::{START, has_deadline, missed, missed_deadline},
};
use crate::{
    exec_lines::ExecSaid,
    witness::Said,
    world::{Subject, World},
};

/// How long after a deadline a parked task may be live: a node claims it and writes its failure.
const MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// How far the wall clocks of a machine that were never set differ at most, in microseconds: as they were read one after the other.
const SET: u64 = 10_000;

/// How much the stored time of a change may be rounded down.
const ROUNDED: SignedDuration = SignedDuration::from_millis(1);

/// Checks that in the end no live task has missed a deadline.
pub(super) fn check_none_late(world: &World) -> Found {
    let mut found = Found::new();
    let Some(settled) = world.settled_at else {
        return found;
    };
    for (id, subject) in &world.subjects {
        let state = subject.record.state.as_ref().ok();
        let deadline = state.and_then(|state| state.deadline());
        if let Some(at) = deadline.filter(|at| *at + MARGIN < settled) {
            let code = subject.code();
            let how = format!("its deadline {at} has passed, and it is {code:?}");
            found.push((id.clone(), how));
        }
    }
    found
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let runs = first_runs(world);
    let retried = |change: &Change| change.what == ChangeKind::Retried;
    let has_wrong_clocks = world.has_wrong_clocks();
    let were_clocks_set = world.had_clocks_wrong_by(SET);
    for (id, subject) in world.subjects.iter().filter(|(_, s)| has_deadline(s)) {
        if has_wrong_clocks {
            continue;
        }
        let mut wrong = failed_wrongly(subject, were_clocks_set);
        if !subject.history.iter().any(retried) {
            wrong.extend(completed_late(world, subject));
            if let Some(run) = runs.get(id) {
                wrong.extend(started_late(world, subject, *run));
                wrong.extend(started_at_all(subject, *run));
            }
        }
        found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
    }
    found
}

/// A run that was witnessed: when, on which claim, and in which process if it said so.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: u64,
    fence: Fence,
    pid: Option<u32>,
}

/// The first run of each task.
fn first_runs(world: &World) -> BTreeMap<&TaskId, Run> {
    let mut runs: BTreeMap<&TaskId, Run> = BTreeMap::new();
    let handlers = world.witness.iter().filter_map(|line| match &line.said {
        Said::Start { task, fence, .. } => {
            let (at, fence, pid) = (line.at, *fence, Some(line.pid));
            Some((task, Run { at, fence, pid }))
        }
        _ => None,
    });
    let commands = world.exec.iter().filter_map(|line| {
        let (at, fence, pid) = (line.at, line.fence, None);
        matches!(line.said, ExecSaid::Start(_)).then_some((&line.task, Run { at, fence, pid }))
    });
    for (task, run) in handlers.chain(commands) {
        let first = runs.entry(task).or_insert(run);
        *first = if run.at < first.at { run } else { *first };
    }
    runs
}

/// How much later than a deadline a node may write or start what it decided before: as long as a lease, and as its write may wait
/// for a member of etcd that stands still.
fn allowed(world: &World) -> SignedDuration {
    let allowed = world.ttl + world.silence();
    SignedDuration::from_micros(i64::try_from(allowed).unwrap_or(i64::MAX))
}

/// The first run of a task that began after `start_by`, if no claim before it was lost.
fn started_late(world: &World, subject: &Subject, run: Run) -> Option<String> {
    let start_by = subject.record.task.start_by?;
    let began = world.wall(run.at)?;
    let latest = start_by + allowed(world);
    if began <= latest || counts_as_started(subject, run.fence) || paused(world, subject, run) {
        return None;
    }
    let fence = run.fence;
    Some(format!(
        "claim {fence} began its first run at {began}, after its start_by {start_by}"
    ))
}

/// Whether a claim before this one was lost: it counts as a run.
fn counts_as_started(subject: &Subject, by: Fence) -> bool {
    let mut earlier = subject.history.iter().take_while(
        |change| !matches!(change.what, ChangeKind::Claimed { fence, .. } if fence > by),
    );
    earlier.any(|change| match change.what {
        ChangeKind::Lost { fence } => fence < by,
        ChangeKind::Claimed { abandoned, .. } => abandoned,
        _ => false,
    })
}

/// Whether the process of a run was stopped before it said that it runs: it may have decided in time.
fn paused(world: &World, subject: &Subject, run: Run) -> bool {
    let node = || world.claimant(subject.id(), run.fence);
    let pid = run
        .pid
        .or_else(|| world.process(node()?, run.at))
        .map(|pid| world.pauses(pid));
    let mut pauses = pid.into_iter().flatten();
    let before = run.at.saturating_sub(world.ttl);
    pauses.any(|(from, to)| from <= run.at && to >= before && to - from > world.margin())
}

/// A task that ran, and failed because it did not start.
fn started_at_all(subject: &Subject, run: Run) -> Option<String> {
    let text = missed(subject).filter(|text| text.starts_with(START))?;
    let fence = run.fence;
    Some(format!("claim {fence} ran it, and it failed: {text}"))
}

/// A task that completed after its `end_by`. The state has the time at which its node decided that: a cluster without a
/// quorum may write it much later.
fn completed_late(world: &World, subject: &Subject) -> Option<String> {
    let end_by = subject.record.task.end_by?;
    let ends = subject.history.iter().find(
        |change| matches!(change.what, ChangeKind::Moved { to, .. } if to == StateKind::Completed),
    )?;
    let state = subject.record.state.as_ref().ok();
    let state = state.filter(|state| state.code() == StateKind::Completed);
    let at = state.map_or(ends.at, |state| state.since.min(ends.at));
    (at > end_by + allowed(world))
        .then(|| format!("it completed at {at}, after its end_by {end_by}"))
}

/// A failure for a deadline that is not one of the task, or before it.
/// A failure for a deadline that it does not have, or before the deadline.
fn failed_wrongly(subject: &Subject, were_clocks_set: bool) -> Vec<String> {
    let Some(text) = missed(subject) else {
        return Vec::new();
    };
    let Some(deadline) = missed_deadline(subject) else {
        return vec![format!("it failed: {text}; it has no such deadline")];
    };
    let failed = subject.history.iter().rev().find(
        |change| matches!(change.what, ChangeKind::Moved { to, .. } if to == StateKind::Failed),
    );
    let state = subject.record.state.as_ref().ok();
    // The clock of its node may have been set back between its decision and its write.
    let since = state.map(|state| state.since).filter(|_| were_clocks_set);
    let at = |change: &Change| since.map_or(change.at, |since| since.max(change.at));
    let early = failed.filter(|change| at(change) + ROUNDED < deadline);
    let early = early.map(|change| format!("it failed at {}: {text}", change.at));
    early.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass::{ActionKind, TaskStatus, statemachine::state::Deadlines};

    use super::super::{
        missed::{END, timed},
        sample::*,
    };
    use super::*;

    /// When the deadlines of the samples pass, in seconds.
    const DEADLINE: i64 = 100;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A task whose changes happen at these seconds; both deadlines are at 100 s, and leases last 2 s. The wall
    /// clock starts with the monotonic one.
    fn timed_task(history: Vec<(i64, ChangeKind)>) -> World {
        let (times, whats): (Vec<i64>, Vec<ChangeKind>) = history.into_iter().unzip();
        let mut task = subject(whats);
        for (change, second) in task.history.iter_mut().zip(times) {
            change.at = at(second);
            task.record.state.as_mut().unwrap().since = at(second);
        }
        task.record.task.start_by = Some(at(DEADLINE));
        task.record.task.end_by = Some(at(DEADLINE));
        let mut world = world(task);
        world.ttl = 2_000_000;
        world.witness.push(line(0, 1, Said::Clock { wall: 0 }));
        world
    }

    fn failing(from: StateKind) -> [ChangeKind; 2] {
        [
            moved(2, ActionKind::Error, from, StateKind::Fault),
            moved(2, ActionKind::Error, StateKind::Fault, StateKind::Failed),
        ]
    }

    /// A task that fails at this second with this error.
    fn fails(second: i64, error: &str) -> World {
        let [fault, failed] = failing(StateKind::Runnable);
        let mut world = timed_task(vec![
            (1, submitted()),
            (second, claimed("a", 2)),
            (second, fault),
            (second, failed),
        ]);
        let state = world.subjects.get_mut("t").unwrap();
        let state = state.record.state.as_mut().unwrap();
        state.errors.push(at(second), error, 8);
        world
    }

    #[test]
    fn a_claim_that_is_abandoned_after_the_deadline_hides_no_miss() {
        let mut world = fails(100, &format!("{END}{}", at(DEADLINE)));
        let task = world.subjects.get_mut("t").unwrap();
        let before = missed(task).map(str::to_owned);
        let claimed = task.record.state.clone().unwrap();
        let claimed = claimed.claimed(windlass::Fence(3), Some("a"), at(101));
        task.record.state = Ok(claimed);
        assert!(before.is_some());
        assert_eq!(missed(task).map(str::to_owned), before);
    }

    fn begins(world: &mut World, second: u64, number: u64) {
        world.witness.push(start(second * 1_000_000, 7, number, 0));
    }

    #[test]
    fn failures_for_deadlines_hold() {
        for error in [
            "did not start by 1970-01-01T00:01:40Z",
            "did not end by 1970-01-01T00:01:40Z",
        ] {
            holds(check(&fails(100, error)));
        }
        holds(check(&fails(3, "some other error")));
        let world = fails(100, "did not start by 1970-01-01T00:01:40Z");
        let counted = timed(&world);
        assert_eq!((counted.starts, counted.ends, counted.asleep), (1, 0, 0));
    }

    #[test]
    fn an_early_failure_and_one_for_another_deadline_are_caught() {
        let text = "did not end by 1970-01-01T00:01:40Z";
        caught(check(&fails(99, text)), "it failed at 1970-01-01T00:01:39Z");
        let other = "did not end by 1970-01-01T00:01:41Z";
        caught(check(&fails(101, other)), "it has no such deadline");
        // The time of a change before that of its decision is right only where a clock was set back.
        let mut world = fails(99, text);
        let task = world.subjects.get_mut("t").unwrap();
        task.record.state.as_mut().unwrap().since = at(101);
        caught(check(&world), "it failed at 1970-01-01T00:01:39Z");
        let wall = 50_200_000;
        world
            .witness
            .push(line(50_000_000, 7, Said::Clock { wall }));
        holds(check(&world));
    }

    #[test]
    fn a_first_run_after_the_start_has_passed_is_caught() {
        let late = |second, before: Vec<(i64, ChangeKind)>| {
            let mut history = vec![(1, submitted())];
            history.extend(before);
            history.push((second, claimed("a", 9)));
            let mut world = timed_task(history);
            begins(&mut world, u64::try_from(second).unwrap(), 9);
            world
        };
        holds(check(&late(99, vec![])));
        holds(check(&late(101, vec![])));
        caught(check(&late(103, vec![])), "claim 9 began its first run");
        // A claim that was released began no run. One that was lost counts as one.
        let dropped = vec![(2, claimed("a", 2)), (3, dropped(2))];
        caught(check(&late(103, dropped)), "claim 9 began its first run");
        let lost = vec![(2, claimed("a", 2)), (3, lost(2))];
        holds(check(&late(103, lost)));
        holds(check(&late(103, vec![(50, ChangeKind::Retried)])));
        let mut world = late(103, vec![]);
        world.witness.insert(1, line(99_000_000, 7, Said::Stopped));
        world
            .witness
            .insert(2, line(102_900_000, 7, Said::Continued));
        holds(check(&world));
    }

    #[test]
    fn a_wrong_clock_excuses_a_late_start() {
        let world = |wall| {
            let mut world = timed_task(vec![(1, submitted()), (103, claimed("a", 9))]);
            begins(&mut world, 103, 9);
            world
                .witness
                .push(line(104_000_000, 7, Said::Clock { wall }));
            world
        };
        caught(check(&world(103_500_000)), "claim 9 began its first run");
        holds(check(&world(4_000_000)));
    }

    #[test]
    fn a_command_of_the_kind_exec_that_starts_late_is_caught() {
        let mut world = timed_task(vec![(1, submitted()), (110, claimed("a", 2))]);
        world.exec.push(crate::exec_lines::ExecLine {
            at: 110_000_000,
            task: id(),
            fence: fence(2),
            said: ExecSaid::Start(0),
        });
        caught(check(&world), "claim 2 began its first run");
    }

    #[test]
    fn a_task_that_ran_and_fails_for_its_start_is_caught() {
        let mut world = fails(100, "did not start by 1970-01-01T00:01:40Z");
        begins(&mut world, 50, 1);
        caught(
            check(&world),
            "claim 1 ran it, and it failed: did not start",
        );
    }

    #[test]
    fn an_end_after_the_deadline_is_caught() {
        let ends = |second| {
            timed_task(vec![
                (1, submitted()),
                (2, claimed("a", 2)),
                (second, completed(2)),
            ])
        };
        holds(check(&ends(101)));
        assert_eq!(timed(&ends(101)).met, 1);
        caught(check(&ends(103)), "it completed at");
        // Decided in time, and written by a cluster that had lost its quorum in the meantime.
        let mut written_late = ends(110);
        let task = written_late.subjects.get_mut("t").unwrap();
        task.record.state.as_mut().unwrap().since = at(99);
        holds(check(&written_late));
    }

    #[test]
    fn a_live_task_after_its_deadline_is_caught() {
        let mut world = timed_task(vec![(1, submitted())]);
        let state = world.subjects.get_mut("t").unwrap();
        let state = state.record.state.as_mut().unwrap();
        state.status = TaskStatus::Paused;
        state.deadlines = Some(Box::new(Deadlines {
            start_by: None,
            end_by: Some(at(DEADLINE)),
        }));
        holds(check_none_late(&world));
        world.settled_at = Some(at(104));
        holds(check_none_late(&world));
        world.settled_at = Some(at(106));
        caught(check_none_late(&world), "its deadline 1970-01-01T00:01:40Z");
    }
}
