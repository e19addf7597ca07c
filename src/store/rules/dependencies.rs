//! Waiting for other tasks: what a claim reads, what a watch reports, and which circles are refused.

use jiff::Timestamp;
use windlass_statemachine::{
    Invalid, StateKind, Task, TaskId, TaskState, WaitOutcome, Waits, waits,
};

use crate::store::{Error, TaskView};

/// What a claim reads of a task that the claimed one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) code: StateKind,
    /// When it ended; `None` for a live task.
    pub(crate) ended_at: Option<Timestamp>,
}

/// The state of a task that is about to be claimed.
#[derive(Debug)]
pub(crate) struct LookedAt {
    /// The state, with the outcomes of the tasks that it waits for.
    pub(crate) state: TaskState,
    /// Since when it can be claimed ([`Claimed::ready`](crate::store::Claimed::ready)).
    pub(crate) ready: Option<Timestamp>,
}

/// Returns the state of a task that is about to be claimed, with the outcomes of the tasks that it waits for.
/// Calls `read` for each of those tasks, which returns `None` for a task that does not exist;
/// never for a task that does not wait.
///
/// # Errors
///
/// The errors of `read`.
pub(crate) fn looked_at<E>(
    state: TaskState,
    now: Timestamp,
    mut read: impl FnMut(&TaskId) -> Result<Option<Seen>, E>,
) -> Result<LookedAt, E> {
    let ready = state.ready();
    let Some(waits) = state.waits.as_deref().filter(|_| state.is_waiting()) else {
        return Ok(LookedAt { state, ready });
    };
    let seen = waits.tasks.iter().map(&mut read);
    let seen: Vec<Option<Seen>> = seen.collect::<Result<_, E>>()?;
    let over = over_since(&state, seen.iter().flatten().map(|seen| seen.ended_at));
    let outcomes = seen
        .iter()
        .map(|seen| WaitOutcome::of(seen.map(|seen| seen.code)));
    let state = state.with_outcomes(outcomes.collect(), now);
    let ready = match state.is_waiting() {
        true => ready,
        false => over,
    };
    Ok(LookedAt { state, ready })
}

/// Returns since when a waiting task can be claimed because none of the tasks that it waits for is live: since the end of the
/// last of those that exist, but not before its own wait began, nor after its deadline. `None` when one of them is live, or when
/// none exists any more.
pub(crate) fn over_since(
    state: &TaskState,
    ends: impl IntoIterator<Item = Option<Timestamp>>,
) -> Option<Timestamp> {
    let ends: Option<Vec<Timestamp>> = ends.into_iter().collect();
    let last = ends?.into_iter().max()?.max(state.since);
    Some(state.due().map_or(last, |deadline| last.min(deadline)))
}

/// Returns the tasks that a live task waits for. Retention and purges spare them, because the claim of the
/// waiting task reads their outcomes.
pub(crate) fn waited_for(state: &TaskState) -> &[TaskId] {
    let waits = state.waits.as_deref().filter(|_| state.is_waiting());
    waits.map_or(&[], |waits| &waits.tasks)
}

/// Returns the index of the one live task that a waiting task watches, among the `len` tasks that it waits for.
/// `None` when none of them is live.
///
/// The last task is checked first, because tasks often end in the order of the list. The others follow in an
/// order that depends on `seed`. So many tasks that wait for the same ones watch different ones, and the end of
/// a task moves only a few watches, in whatever order the tasks end.
///
/// # Errors
///
/// The errors of `is_live`.
#[cfg(any(test, feature = "sqlite-system"))]
pub(crate) fn watched<E>(
    len: usize,
    seed: u64,
    mut is_live: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let Some(last) = len.checked_sub(1) else {
        return Ok(None);
    };
    if is_live(last)? {
        return Ok(Some(last));
    }
    // A step of about this fraction of the list spreads neighbouring positions.
    let divides = |step: &usize| gcd(*step, len) != 1;
    let step = (len * 5 / 8..len).find(|step| !divides(step)).unwrap_or(1);
    // Seeds are often consecutive numbers.
    let first = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut place = (first % len as u64) as usize;
    for _ in 0..len {
        if is_live(place)? {
            return Ok(Some(place));
        }
        place = (place + step) % len;
    }
    Ok(None)
}

#[cfg(any(test, feature = "sqlite-system"))]
fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// A task that waits for others, as a watch reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// Whether one of the tasks that it waits for is live.
    pub(crate) is_blocked: bool,
    /// The wake-up of the task: its deadline, or the time that stands for no deadline.
    pub(crate) until: Timestamp,
    /// Since when it waits.
    pub(crate) since: Timestamp,
}

impl Waiter {
    /// Changes the view into that of a waiting task: asleep until its deadline while it is blocked,
    /// otherwise claimable.
    pub(crate) fn apply(self, view: &mut TaskView) {
        view.sleeping = self.is_blocked;
        view.due = match self.is_blocked {
            true => Some(self.until).filter(|until| *until < no_deadline()),
            false => Some(self.since),
        };
    }
}

/// Returns the wake-up of a task without a deadline, as stores with whole microseconds keep it.
fn no_deadline() -> Timestamp {
    let micros = waits::NO_DEADLINE.as_microsecond();
    Timestamp::from_microsecond(micros).unwrap_or(waits::NO_DEADLINE)
}

/// Refuses tasks of one write that wait for each other in a circle.
///
/// # Errors
///
/// [`Error::Invalid`] (field `after`) with the ids of the circle.
pub(crate) fn check_circle<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Result<(), Error> {
    check_circle_with_submitter(None, tasks)
}

/// Like [`check_circle`], for tasks that are submitted by a task, `own`, which may wait itself.
pub(crate) fn check_circle_with_submitter<'a>(
    own: Option<(&'a TaskId, &'a Waits)>,
    tasks: impl IntoIterator<Item = &'a Task>,
) -> Result<(), Error> {
    let waiting = |task: &'a Task| {
        let waits = task.waits.as_deref();
        waits.map(|waits| (&task.id, &waits.tasks[..]))
    };
    let own = own.map(|(id, waits)| (id, &waits.tasks[..]));
    match waits::cycle(tasks.into_iter().filter_map(waiting).chain(own)) {
        None => Ok(()),
        Some(circle) => {
            let circle = waits::circle_text(&circle);
            let reason =
                format!("lets tasks wait for each other in a circle: {circle}; remove one wait");
            Err(Invalid::new("after", reason).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: &str, after: &[&str]) -> Task {
        let mut task = Task::new(id.parse().unwrap(), "k".parse().unwrap());
        let after = after.iter().copied();
        task.waits = Some(Box::new(Waits::new("after", after).unwrap()));
        task
    }

    #[test]
    fn a_circle_names_its_tasks() {
        let tasks = [
            waiting("a", &["b"]),
            waiting("b", &["c"]),
            waiting("c", &["a"]),
        ];
        assert!(check_circle(&tasks[..2]).is_ok());
        let text = check_circle(&tasks).unwrap_err().to_string();
        assert!(
            ["a → b → c → a", "b → c → a → b", "c → a → b → c"]
                .iter()
                .any(|circle| text
                    == format!(
                        "after: lets tasks wait for each other in a circle: {circle}; remove one wait"
                    )),
            "{text}"
        );
    }

    fn never(live: bool) -> Result<bool, std::convert::Infallible> {
        Ok(live)
    }

    /// Ends the tasks of lists in an order, and returns how often a waiting task starts to watch another
    /// one.
    fn moves(len: usize, order: impl Iterator<Item = usize>) -> f64 {
        const WAITERS: u64 = 50;
        let mut live = vec![true; len];
        let watched = |live: &[bool], seed| watched(len, seed, |place| never(live[place])).unwrap();
        let mut watches: Vec<_> = (0..WAITERS).map(|seed| watched(&live, seed)).collect();
        let mut moves = 0;
        for end in order {
            live[end] = false;
            for (seed, watch) in (0..).zip(&mut watches) {
                if *watch == Some(end) {
                    *watch = watched(&live, seed);
                    moves += 1;
                    assert!(watch.is_none_or(|place| live[place]));
                }
            }
        }
        assert!(watches.iter().all(Option::is_none), "no task is live");
        f64::from(moves) / WAITERS as f64
    }

    #[test]
    fn a_waiting_task_watches_a_live_task_and_seldom_another_one() {
        assert!(moves(1, 0..1) <= 1.0);
        for len in [2, 3, 8, 60, 100, 1000] {
            assert!(moves(len, 0..len) <= 1.0, "in their order");
            let limit = 3.0 * (len as f64).ln() + 3.0;
            let backwards = moves(len, (0..len).rev());
            assert!(backwards <= limit, "{backwards} moves of {len}");
            let stride = (0..len).map(|n| n * 7919 % len);
            let mixed = moves(len, stride);
            assert!(mixed <= limit, "{mixed} moves of {len}");
        }
        assert_eq!(watched(0, 7, |_| never(true)), Ok(None));
        assert_eq!(watched(3, 7, |_| Err("a read")), Err("a read"));
    }

    #[test]
    fn many_waiting_tasks_watch_different_tasks() {
        let places = (0..1000).map(|seed| watched(100, seed, |place| never(place != 99)).unwrap());
        let mut watches = vec![0; 100];
        places.flatten().for_each(|place| watches[place] += 1);
        assert!(watches.iter().all(|of| *of <= 30), "{watches:?}");
    }

    #[test]
    fn a_task_that_waits_for_none_reads_none() {
        let now = Timestamp::UNIX_EPOCH;
        let read = |_: &TaskId| Err("a read");
        let looked_at = |state, now, read| looked_at(state, now, read).map(|read| read.state);
        assert_eq!(
            looked_at(TaskState::new(now), now, read),
            Ok(TaskState::new(now))
        );
        let over = TaskState::first(&waiting("a", &["b"]), now)
            .with_outcomes(vec![WaitOutcome::Unknown], now);
        assert_eq!(looked_at(over.clone(), now, read), Ok(over));
        let state = TaskState::first(&waiting("a", &["b"]), now);
        assert_eq!(looked_at(state, now, read), Err("a read"));
    }

    /// Regression: the lateness of its start counted its whole wait.
    #[test]
    fn a_task_can_be_claimed_since_the_last_end_of_those_that_it_waits_for() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seen = |code, end: Option<i64>| {
            Some(Seen {
                code,
                ended_at: end.map(at),
            })
        };
        let done = |end| seen(StateKind::Completed, Some(end));
        let mut limited = waiting("a", &["b", "c"]);
        limited.waits.as_mut().unwrap().deadline = Some(at(50));
        let unlimited = waiting("a", &["b", "c"]);
        for (task, seen, expected) in [
            (&unlimited, [done(20), done(30)], Some(at(30))),
            (&unlimited, [done(20), None], Some(at(20))),
            // They had ended before it was submitted.
            (&unlimited, [done(2), done(3)], Some(at(10))),
            (&unlimited, [None, None], None),
            (&limited, [done(20), done(60)], Some(at(50))),
            (
                &limited,
                [done(20), seen(StateKind::Runnable, None)],
                Some(at(50)),
            ),
        ] {
            let state = TaskState::first(task, at(10));
            let mut left = seen.into_iter();
            let read = |_: &TaskId| Ok::<_, std::convert::Infallible>(left.next().unwrap());
            let ready = looked_at(state, at(99), read).unwrap().ready;
            assert_eq!(ready, expected, "{seen:?}");
        }
        let released =
            TaskState::new(at(10)).claimed(windlass_statemachine::Fence(1), None, at(20));
        let released = released.unclaimed(at(70));
        let read = |_: &TaskId| Err("a read");
        assert_eq!(
            looked_at(released, at(99), read).unwrap().ready,
            Some(at(70))
        );
    }
}
