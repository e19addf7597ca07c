//! A schedule writes as much at once as the store accepts, and the rest in the next write.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Command;

use super::{
    budget::Budget,
    data::{Data, FOLLOWED},
    overlap::Overlap,
    spec::Schedule,
    step::{Next, Planner, RunState, Step},
    times::Times,
};
use crate::{NewTask, schedule::Missed, store::Limits};

const LIVE: RunState = RunState::Live { is_paused: false };

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn minutes(n: usize) -> SignedDuration {
    SignedDuration::from_mins(n as i64)
}

/// A schedule of minutes that makes up for all of them.
fn spec(overlap: Overlap) -> Schedule {
    Schedule::new(NewTask::new("k"))
        .cron("* * * * *")
        .missed(Missed::All, std::time::Duration::from_secs(7 * 24 * 3600))
        .overlap(overlap)
}

/// Makes the steps for `due` times while `live` runs stay live, until one of them sleeps.
fn steps(spec: &Schedule, limits: Limits, (live, due): (usize, usize)) -> Vec<Step> {
    let times = Times::new("s", spec).unwrap();
    let runs = (0..live).map(|n| start() - minutes(live - 1 - n));
    let mut data = Data {
        last: Some(start()),
        runs: runs.collect(),
        ..Data::default()
    };
    let mut steps = Vec::new();
    loop {
        let planner = Planner::new(&times, data, start() + minutes(due));
        let states = vec![LIVE; planner.followed().len()];
        let step = planner.step(&states, Budget::of(&limits)).unwrap();
        data = step.data.clone();
        let has_more = step.next == Next::Again;
        steps.push(step);
        assert!(steps.len() <= 10_000, "{:?} never ends", spec.overlap);
        if !has_more {
            return steps;
        }
    }
}

fn limits(max_operations: usize) -> Limits {
    Limits {
        max_operations,
        ..Limits::default()
    }
}

#[test]
fn each_write_of_a_schedule_is_one_that_its_store_takes() {
    let policies = [
        (Overlap::Cancel, 1),
        (Overlap::Kill, 1),
        (Overlap::Pause, 40),
        (Overlap::QueueAll, 40),
        (Overlap::Allow(u32::MAX), 40),
    ];
    for (overlap, fired) in policies {
        for most in [1, 5, 57, 10_000] {
            for live in [0, 56, 57, 140] {
                let steps = steps(&spec(overlap), limits(most), (live, 40));
                let case = format!("{overlap:?}, {most} operations, {live} live");
                let writes = steps.iter().map(|step| step.submit.len() + step.send.len());
                let largest = writes.max();
                assert!(
                    largest.is_some_and(|has| has <= most),
                    "{case}: {largest:?}"
                );
                let last = steps.last().unwrap();
                assert_eq!(last.data.counts.fired, fired, "{case}");
                assert_eq!(last.data.counts.overlapped, 40 - fired, "{case}");
                assert_eq!(last.data.last, Some(start() + minutes(40)), "{case}");
                assert!(last.data.stopping.is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn each_earlier_run_gets_its_command_once_however_many_writes_send_it() {
    for (overlap, command) in [
        (Overlap::Kill, Command::Kill),
        (Overlap::Cancel, Command::Complete { result: None }),
        (Overlap::Pause, Command::Pause),
    ] {
        let steps = steps(&spec(overlap), limits(57), (200, 1));
        let mut sent: BTreeMap<_, usize> = BTreeMap::new();
        for send in steps.iter().flat_map(|step| &step.send) {
            assert_eq!(send.command, command);
            *sent.entry(send.task.clone()).or_default() += 1;
        }
        assert_eq!(sent.len(), 200, "{overlap:?}");
        assert!(sent.values().all(|times| *times == 1), "{overlap:?}");
        // The last step submits the run, which waits for all earlier ones.
        let (last, before) = steps.split_last().unwrap();
        assert!(before.iter().all(|step| step.submit.is_empty()));
        let waits = last.submit[0]
            .waits
            .as_ref()
            .map_or(0, |waits| waits.tasks.len());
        assert_eq!(waits, if overlap == Overlap::Pause { 0 } else { 200 });
    }
}

#[test]
fn a_write_has_no_more_runs_than_bytes_for_them() {
    let props = "x".repeat(100_000);
    let large = Schedule::new(NewTask::new("k").props(&props))
        .cron("* * * * *")
        .missed(Missed::All, std::time::Duration::from_secs(7 * 24 * 3600))
        .overlap(Overlap::Allow(u32::MAX));
    let steps = steps(&large, limits(57), (0, 12));
    let submits: Vec<usize> = steps.iter().map(|step| step.submit.len()).collect();
    assert_eq!(submits, [5, 5, 2]);
    // One run that is larger than half of the limit gets its own write.
    let small = Limits {
        max_bytes: 150_000,
        ..limits(57)
    };
    let one_by_one = self::steps(&large, small, (0, 3));
    assert!(one_by_one.iter().all(|step| step.submit.len() == 1));
}

#[test]
fn a_schedule_follows_a_thousand_runs_at_most() {
    // Data as another program might have written it: the wait for these runs would be refused.
    for overlap in [Overlap::Kill, Overlap::Cancel, Overlap::Pause] {
        let steps = steps(&spec(overlap), limits(10_000), (FOLLOWED + 400, 1));
        let last = steps.last().unwrap();
        assert_eq!(last.data.counts.fired, 1, "{overlap:?}");
        assert_eq!(last.data.runs.len(), FOLLOWED, "{overlap:?}");
        assert_eq!(last.data.runs.last(), Some(&(start() + minutes(1))));
    }
}
