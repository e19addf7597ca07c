use jiff::SignedDuration;

use super::*;
use crate::{
    NewTask,
    schedule::{Counts, Schedule},
    store::Limits,
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn hourly() -> Schedule {
    Schedule::new(NewTask::new("k")).cron("@hourly")
}

/// The room of a store that takes this many operations.
fn room(max_operations: usize) -> Budget {
    Budget::of(&Limits {
        max_operations,
        ..Limits::default()
    })
}

const LIVE: RunState = RunState::Live { is_paused: false };

/// A schedule whose time 01:00 is due, 00:00 was submitted, and has become `state`.
fn step(spec: &Schedule, data: Data, state: RunState) -> Step {
    let times = Times::new("s", spec).unwrap();
    let data = Data {
        last: Some(at("2030-01-01T00:00:00Z")),
        runs: vec![at("2030-01-01T00:00:00Z")],
        ..data
    };
    let planner = Planner::new(&times, data, at("2030-01-01T01:00:00Z"));
    let states = vec![state; planner.followed().len()];
    planner.step(&states, room(usize::MAX)).unwrap()
}

fn submitted(step: &Step) -> Vec<&str> {
    step.submit.iter().map(|task| task.id.as_str()).collect()
}

fn sent(step: &Step) -> Vec<String> {
    let sent = step.send.iter();
    sent.map(|send| format!("{} to {}", send.command.kind(), send.task))
        .collect()
}

#[test]
fn a_time_submits_its_run_and_sleeps_until_the_next() {
    let step = step(&hourly(), Data::default(), RunState::Ended);
    assert_eq!(submitted(&step), ["s@2030-01-01T01:00:00Z"]);
    assert_eq!(step.submit[0].labels["schedule"], "s");
    assert_eq!(step.next, Next::Sleep(at("2030-01-01T02:00:00Z")));
    assert_eq!(step.data.last, Some(at("2030-01-01T01:00:00Z")));
    assert_eq!(step.data.runs, [at("2030-01-01T01:00:00Z")]);
    assert_eq!((step.data.counts.fired, step.data.counts.late), (1, 0));
}

#[test]
fn each_overlap_policy_does_what_it_says() {
    let new = "s@2030-01-01T01:00:00Z";
    let command = |name: &str| vec![format!("{name} to s@2030-01-01T00:00:00Z")];
    for (overlap, runs, commands, overlapped) in [
        (Overlap::Skip, vec![], vec![], 1),
        (Overlap::Allow(1), vec![], vec![], 1),
        (Overlap::Allow(2), vec![new], vec![], 0),
        (Overlap::QueueOne, vec![new], vec![], 0),
        (Overlap::QueueAll, vec![new], vec![], 0),
        (Overlap::Cancel, vec![new], command("complete"), 0),
        (Overlap::Kill, vec![new], command("kill"), 0),
        (Overlap::Pause, vec![new], command("pause"), 0),
    ] {
        let step = step(&hourly().overlap(overlap), Data::default(), LIVE);
        assert_eq!(submitted(&step), runs, "{overlap:?}");
        assert_eq!(sent(&step), commands, "{overlap:?}");
        assert_eq!(step.data.counts.overlapped, overlapped, "{overlap:?}");
        assert_eq!(step.next, Next::Sleep(at("2030-01-01T02:00:00Z")));
        let waits = matches!(
            overlap,
            Overlap::QueueOne | Overlap::QueueAll | Overlap::Cancel | Overlap::Kill
        );
        let earlier = step.submit.iter().filter_map(|run| run.waits.as_ref());
        let earlier: Vec<_> = earlier.flat_map(|waits| &waits.tasks).collect();
        let expected: &[&str] = if waits {
            &["s@2030-01-01T00:00:00Z"]
        } else {
            &[]
        };
        let earlier: Vec<&str> = earlier.iter().map(|id| id.as_str()).collect();
        assert_eq!(earlier, expected, "{overlap:?}");
    }
    let paused = RunState::Live { is_paused: true };
    let step = step(&hourly().overlap(Overlap::Pause), Data::default(), paused);
    assert!(step.send.is_empty(), "it is paused already");
    assert_eq!(step.data.runs.len(), 2, "a paused run is live");
}

#[test]
fn runs_of_the_same_moment_overlap_each_other() {
    let times = |spec: &Schedule| Times::new("s", spec).unwrap();
    let seconds = |overlap| {
        Schedule::new(NewTask::new("k"))
            .cron("* * * * * *")
            .overlap(overlap)
    };
    let data = || Data {
        last: Some(at("2030-01-01T00:00:00Z")),
        ..Data::default()
    };
    let now = at("2030-01-01T00:00:10Z");
    for (overlap, first, runs) in [
        (Overlap::Skip, "s@2030-01-01T00:00:01Z", 1),
        (Overlap::Allow(4), "s@2030-01-01T00:00:01Z", 4),
        (Overlap::QueueOne, "s@2030-01-01T00:00:01Z", 2),
        (Overlap::QueueAll, "s@2030-01-01T00:00:01Z", 10),
        (Overlap::Kill, "s@2030-01-01T00:00:10Z", 1),
        (Overlap::Pause, "s@2030-01-01T00:00:01Z", 10),
    ] {
        let times = times(&seconds(overlap));
        let step = Planner::new(&times, data(), now)
            .step(&[], room(usize::MAX))
            .unwrap();
        assert_eq!(submitted(&step)[0], first, "{overlap:?}");
        assert_eq!(step.submit.len(), runs, "{overlap:?}");
        let counts = step.data.counts;
        assert_eq!(counts.fired + counts.overlapped, 10, "{overlap:?}");
    }
}

#[test]
fn a_failed_run_pauses_a_schedule_that_asks_for_it() {
    let failed = RunState::Failed;
    let paused = step(
        &hourly().pause_on_failure(true),
        Data::default(),
        failed.clone(),
    );
    assert_eq!((paused.next, paused.submit.len()), (Next::Pause, 0));
    let note = paused.data.note.as_deref().unwrap();
    assert_eq!(note, "run 's@2030-01-01T00:00:00Z' failed");
    assert!(
        paused.data.runs.is_empty(),
        "it does not pause a second time for it"
    );
    assert_eq!(
        paused.data.last,
        Some(at("2030-01-01T00:00:00Z")),
        "no time is lost"
    );
    assert_eq!(step(&hourly(), Data::default(), failed).submit.len(), 1);
}

#[test]
fn a_skipped_time_submits_nothing_and_is_forgotten() {
    let skipped = Data {
        skip: vec![at("2030-01-01T01:00:00Z"), at("2030-01-01T05:00:00Z")],
        ..Data::default()
    };
    let step = step(&hourly(), skipped, RunState::Ended);
    assert_eq!((step.submit.len(), step.data.counts.skipped), (0, 1));
    assert_eq!(step.data.skip, [at("2030-01-01T05:00:00Z")]);
}

#[test]
fn the_last_run_of_a_count_or_before_the_end_ends_the_schedule() {
    let mut data = Data::default();
    data.counts.fired = 1;
    assert_eq!(
        step(&hourly().count(2), data, RunState::Ended).next,
        Next::End
    );
    let end = hourly().end(at("2030-01-01T01:30:00Z"));
    let step = step(&end, Data::default(), RunState::Ended);
    assert_eq!((step.submit.len(), step.next), (1, Next::End));
}

#[test]
fn a_clock_that_is_a_little_behind_repeats_no_time() {
    let spec = hourly();
    let times = Times::new("s", &spec).unwrap();
    let data = Data {
        last: Some(at("2030-01-01T05:00:00Z")),
        ..Data::default()
    };
    let planner = Planner::new(&times, data, at("2030-01-01T04:59:00Z"));
    let step = planner.step(&[], room(usize::MAX)).unwrap();
    assert!(step.submit.is_empty());
    assert_eq!(step.next, Next::Sleep(at("2030-01-01T06:00:00Z")));
}

#[test]
fn a_clock_that_was_ahead_does_not_silence_a_schedule() {
    let spec = hourly();
    let now = at("2030-01-01T02:30:00Z");
    let decided = |last: &str| {
        let last = Some(at(last));
        let data = Data {
            last,
            ..Data::default()
        };
        (spec.clone(), data)
    };
    // A clock that was ahead created the schedule, which has decided no time.
    let created = Schedule {
        since: Some(at("2030-01-01T05:30:00Z")),
        ..spec.clone()
    };
    for (spec, data) in [
        decided("2030-01-01T05:00:00Z"),
        decided("2035-01-01T05:00:00Z"),
        (created, Data::default()),
    ] {
        let times = Times::new("s", &spec).unwrap();
        let step = Planner::new(&times, data, now)
            .step(&[], room(usize::MAX))
            .unwrap();
        assert!(step.submit.is_empty());
        assert_eq!(step.next, Next::Sleep(at("2030-01-01T03:00:00Z")));
        let later = now + SignedDuration::from_mins(30);
        // 03:00 has a run, because it was decided ahead of its time.
        let planner = Planner::new(&times, step.data.clone(), later).with_taken(Taken {
            runs: vec![at("2030-01-01T03:00:00Z")],
            ..Taken::default()
        });
        let taken = planner.step(&[], room(usize::MAX)).unwrap();
        assert_eq!((taken.submit.len(), taken.data.counts.fired), (0, 0));
        let step = Planner::new(&times, step.data, later)
            .step(&[], room(usize::MAX))
            .unwrap();
        assert_eq!(submitted(&step), ["s@2030-01-01T03:00:00Z"]);
    }
}

#[test]
fn times_after_the_last_run_are_not_passed() {
    let within = std::time::Duration::from_secs(3 * 3600);
    let spec = hourly()
        .count(1)
        .missed(crate::schedule::Missed::All, within);
    let times = Times::new("s", &spec).unwrap();
    let data = Data {
        last: Some(at("2030-01-01T00:00:00Z")),
        ..Data::default()
    };
    let planner = Planner::new(&times, data, at("2030-01-01T02:00:00Z"));
    let step = planner.step(&[], room(usize::MAX)).unwrap();
    assert_eq!(submitted(&step), ["s@2030-01-01T01:00:00Z"]);
    assert_eq!(step.data.last, Some(at("2030-01-01T01:00:00Z")));
}

fn spans(data: &Data) -> Vec<String> {
    let span = |entry: &LeftOut| {
        let hour = |at: Timestamp| at.strftime("%H").to_string();
        let (first, last) = (hour(entry.first), hour(entry.last));
        format!("{} {first}-{last} x{}", entry.why, entry.times)
    };
    data.left_out.iter().map(span).collect()
}

#[test]
fn times_without_a_run_are_kept_with_their_reason() {
    // Each step decides one time, and the run of 00:00 is live until 04:00.
    let spec = hourly();
    let times = Times::new("s", &spec).unwrap();
    let mut data = Data {
        last: Some(at("2030-01-01T00:00:00Z")),
        runs: vec![at("2030-01-01T00:00:00Z")],
        skip: vec![at("2030-01-01T05:00:00Z")],
        ..Data::default()
    };
    for (hour, state) in [(1, LIVE), (2, LIVE), (3, LIVE), (4, RunState::Ended)] {
        let planner = Planner::new(&times, data, at(&format!("2030-01-01T0{hour}:00:00Z")));
        let states = vec![state; planner.followed().len()];
        data = planner.step(&states, room(usize::MAX)).unwrap().data;
    }
    assert_eq!(spans(&data), ["overlapped 01-03 x3"]);
    assert_eq!(data.last_run, Some(at("2030-01-01T04:00:00Z")));

    // 05:00 is skipped, 06:00 to 09:00 are missed, 10:00 is late, and another task has the id of 11:00.
    for now in ["05:00", "10:30", "11:00"] {
        let planner = Planner::new(&times, data, at(&format!("2030-01-01T{now}:00Z")));
        let taken = at("2030-01-01T11:00:00Z");
        let refused = planner.wanted().contains(&taken).then(|| RefusedTime {
            nominal: taken,
            reason: "taken".to_owned(),
        });
        let planner = planner.with_taken(Taken {
            refused: refused.into_iter().collect(),
            ..Taken::default()
        });
        let states = vec![RunState::Ended; planner.followed().len()];
        data = planner.step(&states, room(usize::MAX)).unwrap().data;
    }
    let expected = [
        "overlapped 01-03 x3",
        "skipped 05-05 x1",
        "missed 06-09 x4",
        "refused 11-11 x1",
    ];
    assert_eq!(spans(&data), expected);
    assert_eq!(data.last_run, Some(at("2030-01-01T10:00:00Z")));
    let Counts {
        overlapped,
        skipped,
        missed,
        refused,
        ..
    } = data.counts;
    assert_eq!((overlapped, skipped, missed, refused), (3, 1, 4, 1));
}

#[test]
fn each_time_that_a_later_one_replaces_is_overlapped() {
    for overlap in [Overlap::Cancel, Overlap::Kill] {
        let spec = Schedule::new(NewTask::new("k")).cron("* * * * * *");
        let times = Times::new("s", &spec.overlap(overlap)).unwrap();
        let data = Data {
            last: Some(at("2030-01-01T00:00:00Z")),
            ..Data::default()
        };
        // No run is live. The run of the third second was requested; the others were not.
        let requested = at("2030-01-01T00:00:03Z");
        let planner = Planner::new(&times, data, at("2030-01-01T00:00:10Z"));
        let planner = planner.with_taken(Taken {
            runs: vec![requested],
            ..Taken::default()
        });
        let step = planner.step(&[], room(usize::MAX)).unwrap();
        assert_eq!(submitted(&step), ["s@2030-01-01T00:00:10Z"], "{overlap:?}");
        let counts = step.data.counts;
        assert_eq!((counts.fired, counts.overlapped), (1, 8), "{overlap:?}");
    }
}
