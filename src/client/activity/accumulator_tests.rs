//! The counts of changes.

use jiff::SignedDuration;
use proptest::prelude::*;
use windlass_statemachine::{ActionKind, Fence, NodeName, TaskState};

use super::*;

fn time(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_millis(ms)
}

fn id(n: usize) -> TaskId {
    format!("t{n}").parse().unwrap_or_else(|e| panic!("{e}"))
}

fn node() -> NodeName {
    "n".parse().unwrap_or_else(|e| panic!("{e}"))
}

fn change(task: usize, ms: i64, what: ChangeKind) -> Change {
    Change::new(1, time(ms), id(task), what)
}

fn submitted(state: StateKind) -> ChangeKind {
    ChangeKind::Submitted { state }
}

fn claimed(fence: u64) -> ChangeKind {
    ChangeKind::Claimed {
        node: node(),
        fence: Fence(fence),
        abandoned: false,
    }
}

fn moved(from: StateKind, to: StateKind) -> ChangeKind {
    ChangeKind::Moved {
        message: ActionKind::Run,
        from,
        to,
        fence: Fence(1),
        command: None,
    }
}

fn record(task: usize, kind: &str, status: TaskStatus, since: i64) -> TaskRecord {
    let kind = kind.parse().unwrap_or_else(|e| panic!("{e}"));
    let task = windlass_statemachine::Task::new(id(task), kind);
    let state = TaskState {
        status,
        ..TaskState::new(time(since))
    };
    TaskRecord::new(task, Ok(state), 1, time(since))
}

fn of<'a>(window: &'a Window, kind: &str) -> Option<&'a KindActivity> {
    let is_it = |of: &&KindActivity| of.kind.as_ref().is_some_and(|k| k.as_str() == kind);
    window.kinds.iter().find(is_it)
}

/// Returns the window of the last minute.
fn minute(accumulator: &Accumulator, at: Duration) -> Window {
    let summary = accumulator.summary(at, time(0));
    summary.window("1m").unwrap_or_else(|| panic!("1m")).clone()
}

const SOON: Duration = Duration::from_millis(1500);

#[test]
fn a_run_that_fails_once_is_counted_at_each_step() {
    use StateKind::{Completed, Fault, Runnable, Sleeping};
    let mut counts = Accumulator::new(time(0));
    counts.take(
        Duration::ZERO,
        &[
            change(1, 0, submitted(Runnable)),
            change(1, 200, claimed(1)),
            change(1, 300, moved(Runnable, Fault)),
            change(1, 300, moved(Fault, Sleeping)),
            change(1, 300, ChangeKind::Dropped { fence: Fence(1) }),
        ],
    );
    assert_eq!(counts.wanted(10), [id(1)]);
    let asleep = TaskStatus::Sleeping { until: time(1000) };
    counts.learn(&[record(1, "mail", asleep, 300)]);
    counts.take(
        SOON,
        &[
            change(1, 1400, claimed(2)),
            change(1, 1500, moved(Sleeping, Completed)),
        ],
    );
    let window = minute(&counts, SOON);
    let numbers = [
        window.started,
        window.completed,
        window.failed_attempts,
        window.failed,
        window.lost,
    ];
    assert_eq!(numbers, [2, 1, 1, 0, 0]);
    assert_eq!(window.seconds, 1.5);
    assert_eq!(window.per_second.started, 2.0 / 1.5);
    let of = of(&window, "mail").unwrap();
    assert_eq!((of.started, of.completed, of.failed_attempts), (2, 1, 1));
    assert_eq!(window.kinds.len(), 1);
    assert_eq!(window.lateness.measured, 2);
    let p50 = window.lateness.p50_seconds.unwrap();
    let p99 = window.lateness.p99_seconds.unwrap();
    assert!(
        (p50 - 0.2).abs() <= 0.008 && (p99 - 0.4).abs() <= 0.016,
        "{p50} {p99}"
    );
    // The task has ended, and is not remembered.
    assert_eq!(counts.tasks.len(), (0, 0));
}

/// A claim whose due time is not known is measured when the task is read, unless the task has moved.
#[test]
fn the_wake_up_of_a_claimed_task_is_read_later() {
    let mut counts = Accumulator::new(time(0));
    counts.take(
        Duration::ZERO,
        &[change(1, 5000, claimed(7)), change(2, 5000, claimed(8))],
    );
    assert_eq!(counts.wanted(1), [id(1)]);
    assert_eq!(counts.wanted(9), [id(2)]);
    assert!(!counts.wants());
    let asleep = TaskStatus::Sleeping { until: time(4000) };
    let mut same = record(1, "mail", asleep.clone(), 1000);
    (same.node, same.fence) = (Some(node()), Fence(7));
    let mut next = record(2, "mail", asleep, 1000);
    (next.node, next.fence) = (Some(node()), Fence(9));
    counts.learn(&[same, next]);
    let late = minute(&counts, SOON).lateness;
    assert_eq!(late.measured, 1);
    assert!((late.p50_seconds.unwrap() - 1.0).abs() <= 0.04);
}

/// A backlog from before the start had no lateness.
#[test]
fn the_tasks_that_are_claimed_next_are_known() {
    let mut counts = Accumulator::new(time(0));
    assert!(counts.takes_backlog() && !counts.takes_backlog());
    counts.backlog(&[
        record(1, "mail", TaskStatus::Runnable, 1000),
        record(2, "mail", TaskStatus::Sleeping { until: time(2000) }, 0),
        record(3, "mail", TaskStatus::Paused, 0),
    ]);
    let claims = [1, 2, 3].map(|n| change(n, 3000, claimed(1)));
    counts.take(Duration::ZERO, &claims);
    let window = minute(&counts, SOON);
    assert_eq!(window.lateness.measured, 2);
    assert!((window.lateness.p99_seconds.unwrap() - 2.0).abs() <= 0.08);
    // The claim of the paused task may be for a command.
    assert_eq!(of(&window, "mail").unwrap().started, 2);
    assert!(!counts.takes_backlog());
    // A task of a backlog that was not read is measured if it still runs when it is.
    counts.take(Duration::ZERO, &[change(4, 3000, claimed(2))]);
    assert!(counts.takes_backlog());
    assert_eq!(counts.wanted(9), [id(4)]);
    let mut running = record(4, "mail", TaskStatus::Runnable, 2000);
    (running.node, running.fence) = (Some(node()), Fence(2));
    counts.learn(&[running]);
    assert_eq!(minute(&counts, SOON).lateness.measured, 3);
}

#[test]
fn a_claim_for_a_command_is_not_late() {
    use StateKind::{Paused, Runnable, Sleeping};
    let mut counts = Accumulator::new(time(0));
    counts.take(
        Duration::ZERO,
        &[
            change(1, 0, submitted(Sleeping)),
            change(2, 0, submitted(Paused)),
        ],
    );
    assert_eq!(counts.wanted(9), [id(1)]);
    counts.learn(&[record(
        1,
        "k",
        TaskStatus::Sleeping { until: time(9000) },
        0,
    )]);
    counts.take(
        Duration::ZERO,
        &[change(1, 100, claimed(1)), change(2, 100, claimed(2))],
    );
    let started = |counts: &Accumulator| {
        let window = minute(counts, SOON);
        (window.started, window.lateness.measured)
    };
    assert_eq!(started(&counts), (0, 0));
    // Nothing has followed: handlers run.
    counts.settle(Duration::from_secs(2));
    assert_eq!(started(&counts), (2, 0));
    // A clock that is behind that of the submit makes no negative lateness.
    counts.take(
        Duration::ZERO,
        &[
            change(3, 50, submitted(Runnable)),
            change(3, 20, claimed(3)),
        ],
    );
    let late = minute(&counts, SOON).lateness;
    assert!(late.measured == 1 && late.p99_seconds.unwrap() < 0.001);
}

#[test]
fn a_lost_claim_makes_the_task_due_again() {
    let mut counts = Accumulator::new(time(0));
    counts.take(
        Duration::ZERO,
        &[
            change(1, 0, submitted(StateKind::Runnable)),
            change(1, 0, claimed(1)),
            change(1, 60_000, ChangeKind::Lost { fence: Fence(1) }),
            change(1, 60_100, claimed(2)),
        ],
    );
    let window = minute(&counts, SOON);
    assert_eq!((window.lost, window.lateness.measured), (1, 2));
    assert!((window.lateness.p99_seconds.unwrap() - 0.1).abs() <= 0.004);
}

#[test]
fn an_id_that_is_used_again_has_the_kind_of_the_new_task() {
    use StateKind::{Fault, Runnable};
    let mut counts = Accumulator::new(time(0));
    let fails = [
        change(1, 0, submitted(Runnable)),
        change(1, 0, moved(Runnable, Fault)),
    ];
    for kind in ["old", "new"] {
        counts.take(Duration::ZERO, &fails);
        assert_eq!(counts.wanted(9), [id(1)]);
        counts.learn(&[record(1, kind, TaskStatus::Fault, 0)]);
    }
    let window = minute(&counts, SOON);
    for kind in ["old", "new"] {
        assert_eq!(of(&window, kind).unwrap().failed_attempts, 1);
    }
}

#[test]
fn the_tasks_that_failed_are_read_first() {
    use StateKind::{Fault, Runnable};
    let mut counts = Accumulator::new(time(0));
    let starts: Vec<_> = (0..2000).map(|n| change(n, 0, claimed(1))).collect();
    counts.take(Duration::ZERO, &starts);
    counts.take(Duration::ZERO, &[change(5000, 0, moved(Runnable, Fault))]);
    assert_eq!(counts.wanted(2), [id(5000), id(0)]);
}

#[test]
fn the_memory_is_bounded() {
    use StateKind::{Fault, Runnable};
    let mut counts = Accumulator::new(time(0));
    for n in 0..100_000 {
        let changes = [
            change(n, 0, submitted(StateKind::Sleeping)),
            change(n, 0, claimed(1)),
            change(n, 0, moved(Runnable, Fault)),
        ];
        counts.take(SOON, &changes);
        if n % 50 == 0 {
            let kind = format!("kind-{n}");
            let asked = counts.wanted(256);
            let records = asked.iter().map(|id| {
                let n = id.as_str()[1..].parse().unwrap();
                record(n, &kind, TaskStatus::Fault, 0)
            });
            counts.learn(&records.collect::<Vec<_>>());
        }
        let (known, queued) = counts.tasks.len();
        assert!(known <= 20_000 && queued <= 2_000, "{known} {queued}");
    }
    let window = minute(&counts, SOON);
    assert_eq!(window.kinds.len(), MOST_KINDS + 1);
    assert_eq!(window.failed_attempts, 100_000);
    // A kind without a count in the last hour makes room.
    let later = SOON + LONGEST + MINUTE;
    counts.take(later, &[change(7, 0, moved(Runnable, Fault))]);
    let asked = counts.wanted(2000);
    assert!(asked.contains(&id(7)));
    counts.learn(&[record(7, "fresh", TaskStatus::Fault, 0)]);
    assert_eq!(
        of(&minute(&counts, later), "fresh")
            .unwrap()
            .failed_attempts,
        1
    );
}

#[derive(Debug, Clone)]
enum Step {
    Changes(Vec<(usize, u8)>),
    Read(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let changes = proptest::collection::vec((0..30_usize, 0..7_u8), 1..20);
    let step = prop_oneof![
        4 => changes.prop_map(Step::Changes),
        2 => (0..40_usize).prop_map(Step::Read),
        2 => (0..90_000_u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..60)
}

fn what(code: u8) -> ChangeKind {
    use StateKind::{Completed, Failed, Fault, Runnable, Sleeping};
    match code {
        0 => submitted(Runnable),
        1 => claimed(1),
        2 => moved(Runnable, Completed),
        3 => moved(Runnable, Fault),
        4 => moved(Fault, Failed),
        5 => ChangeKind::Lost { fence: Fence(1) },
        _ => moved(Runnable, Sleeping),
    }
}

proptest! {
    /// Whenever tasks are read, the counts of the kinds add up to those of the window, which are exact except for starts.
    #[test]
    fn the_counts_of_the_kinds_add_up(steps in steps()) {
        let mut counts = Accumulator::new(time(0));
        let (mut at, mut all) = (Duration::ZERO, Vec::new());
        for step in steps {
            match step {
                Step::Changes(changes) => {
                    all.extend(changes.iter().map(|(_, code)| (at, *code)));
                    let changes: Vec<_> = changes.into_iter().map(|(n, code)| change(n, 0, what(code))).collect();
                    counts.take(at, &changes);
                }
                Step::Read(most) => {
                    let records: Vec<_> = counts.wanted(most).iter().map(|id| {
                        let n: usize = id.as_str()[1..].parse().unwrap();
                        record(n, &format!("k{}", n % 3), TaskStatus::Runnable, 0)
                    }).collect();
                    counts.learn(&records);
                }
                Step::Pass(ms) => at += Duration::from_millis(ms),
            }
            for window in counts.summary(at, time(0)).windows {
                let start = at.saturating_sub(Duration::from_secs_f64(window.seconds));
                let numbers = |of: &KindActivity| [of.started, of.completed, of.failed_attempts, of.failed, of.lost];
                let totals = [window.started, window.completed, window.failed_attempts, window.failed, window.lost];
                let sums = window.kinds.iter().map(numbers).fold([0; 5], |mut sums, more| {
                    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                    sums
                });
                prop_assert_eq!(sums, totals, "{}", &window.name);
                for (code, total) in (1..=5).zip(totals) {
                    let exact = all.iter().filter(|(then, one)| *one == code && *then + Duration::from_nanos(9) >= start);
                    let exact = exact.count() as u64;
                    // A claim that may be for a command is a start only once that is decided.
                    prop_assert!(total == exact || (code == 1 && total < exact), "{} {code}: {total} of {exact}", &window.name);
                }
                prop_assert_eq!(window.per_second.started, window.started as f64 / window.seconds);
            }
        }
    }
}
