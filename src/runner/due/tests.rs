//! Tests of the due index.

mod fair_share;

use super::*;

fn view(id: &str, due: Option<i64>, priority: i32, order: u64) -> TaskView {
    TaskView {
        id: id.parse().unwrap(),
        kind: "k".parse().unwrap(),
        labels: None,
        data_version: 1,
        priority,
        order,
        due: due.map(|s| Timestamp::from_second(s).unwrap()),
        deadline: None,
        sleeping: false,
        claimed_by: None,
        commanded: false,
        fair_key: None,
    }
}

fn sleeper(id: &str, due: i64, order: u64) -> TaskView {
    TaskView {
        sleeping: true,
        ..view(id, Some(due), 0, order)
    }
}

/// Returns the clock's second, and as many seconds since the index was made.
fn at(index: &DueIndex, second: u64) -> Moment {
    Moment {
        clock: Timestamp::from_second(second as i64).unwrap(),
        at: after(index, second),
    }
}

fn after(index: &DueIndex, second: u64) -> Instant {
    index.made + Duration::from_secs(second)
}

fn next(index: &DueIndex, second: u64) -> Option<u64> {
    let left = index.next_due_in(at(index, second))?;
    // A deferred task is due at the end of a millisecond.
    Some(left.as_millis() as u64 / 1000)
}

fn drain(index: &mut DueIndex) -> Vec<String> {
    std::iter::from_fn(|| index.take(|_, _| true))
        .map(|t| t.id.to_string())
        .collect()
}

#[test]
fn the_order_is_priority_then_due_then_submit() {
    let mut index = DueIndex::default();
    for (id, due, priority, order) in [
        ("d", 1, 0, 4),
        ("c", 1, 0, 3),
        ("b", 0, 0, 9),
        ("a", 1, 5, 10),
    ] {
        index.upsert(view(id, Some(due), priority, order), at(&index, 2));
    }
    assert_eq!(drain(&mut index), ["a", "b", "c", "d"]);
    assert_eq!(index.len(), 0);
}

#[test]
fn a_sleeper_is_ready_when_it_is_due_and_not_before() {
    let mut index = DueIndex::default();
    index.upsert(sleeper("a", 10, 1), at(&index, 0));
    index.upsert(view("b", None, 0, 2), at(&index, 0));
    assert_eq!(next(&index, 0), Some(10));
    assert_eq!(index.advance(at(&index, 9)), 0);
    assert_eq!(index.advance(at(&index, 10)), 1);
    assert_eq!(drain(&mut index), ["a"]);
    assert_eq!(index.len(), 1, "the paused one stays");
}

#[test]
fn a_runnable_task_is_ready_whatever_its_time_says() {
    let mut index = DueIndex::default();
    index.upsert(view("ahead", Some(3600), 0, 1), at(&index, 0));
    index.upsert(view("now", Some(0), 0, 2), at(&index, 0));
    index.upsert(sleeper("sleeper", 3600, 3), at(&index, 0));
    assert_eq!((index.ready_len(), next(&index, 0)), (2, Some(3600)));
    assert_eq!(drain(&mut index), ["now", "ahead"]);
    let ahead = view("ahead", Some(3600), 0, 1);
    index.put_off(ahead, after(&index, 1), at(&index, 0));
    assert_eq!(index.advance(at(&index, 2)), 1, "put off, and ready then");
}

#[test]
fn setting_the_clock_moves_wake_ups_and_nothing_that_is_put_off() {
    let mut index = DueIndex::default();
    let start = at(&index, 7200);
    index.put_off(
        view("a", Some(0), 0, 1),
        start.at + Duration::from_secs(2),
        start,
    );
    index.upsert(sleeper("b", 7205, 2), start);
    let set = |second: u64, passed: u64| Moment {
        clock: at(&index, second).clock,
        at: start.at + Duration::from_secs(passed),
    };
    let (back, then, forward) = (set(3600, 1), set(3601, 3), set(7205, 3));
    assert_eq!(index.advance(back), 0);
    assert!(index.next_due_in(back) <= Some(Duration::from_millis(1001)));
    assert_eq!(index.advance(then), 1);
    assert_eq!(drain(&mut index), ["a"]);
    assert_eq!(index.next_due_in(then), Some(Duration::from_secs(3604)));
    assert_eq!(index.advance(forward), 1);
    assert_eq!(drain(&mut index), ["b"]);
}

#[test]
fn a_command_makes_a_paused_task_ready() {
    let mut index = DueIndex::default();
    index.upsert(view("a", None, 0, 1), at(&index, 0));
    assert_eq!(index.ready_len(), 0);
    index.upsert(
        TaskView {
            commanded: true,
            ..view("a", None, 0, 1)
        },
        at(&index, 0),
    );
    assert_eq!(drain(&mut index), ["a"]);
}

#[test]
fn one_that_is_put_off_waits_though_it_is_due_or_commanded() {
    let mut index = DueIndex::default();
    let now = at(&index, 1);
    index.put_off(view("a", Some(0), 0, 1), after(&index, 5), now);
    let commanded = TaskView {
        commanded: true,
        ..view("b", None, 0, 2)
    };
    index.put_off(commanded, after(&index, 6), now);
    assert_eq!((index.ready_len(), next(&index, 1)), (0, Some(4)));
    assert_eq!(index.advance(at(&index, 7)), 2);
    assert_eq!(drain(&mut index), ["b", "a"], "the commanded one first");
}

#[test]
fn a_kind_without_room_is_passed_over() {
    let mut index = DueIndex::default();
    index.upsert(view("a", Some(0), 9, 1), at(&index, 1));
    index.upsert(
        TaskView {
            kind: "other".parse().unwrap(),
            ..view("b", Some(0), 0, 2)
        },
        at(&index, 1),
    );
    let taken = index.take(|kind, _| kind.as_str() == "other").unwrap();
    assert_eq!(taken.id.as_str(), "b");
    assert!(index.take(|kind, _| kind.as_str() == "other").is_none());
}

#[test]
fn a_task_comes_out_with_the_version_of_its_data() {
    let mut index = DueIndex::default();
    for (id, data_version) in [("a", 1), ("b", 7), ("c", 1)] {
        let of_version = TaskView {
            data_version,
            ..view(id, Some(0), 0, u64::from(data_version))
        };
        index.upsert(of_version, at(&index, 1));
    }
    let mut taken: Vec<_> = std::iter::from_fn(|| index.take(|_, _| true))
        .map(|view| (view.id.to_string(), view.data_version))
        .collect();
    taken.sort();
    assert_eq!(taken, [("a".into(), 1), ("b".into(), 7), ("c".into(), 1)]);
    assert_eq!(index.kinds.len(), 0);
}

#[test]
fn a_kind_is_forgotten_with_its_last_task() {
    let mut index = DueIndex::default();
    let of = |kind: u32, id: u32, due: Option<i64>| TaskView {
        kind: format!("kind{kind}").parse().unwrap(),
        ..view(&format!("t{id}"), due, 0, u64::from(id))
    };
    for n in 0..10_000 {
        index.upsert(of(n, 0, Some(0)), at(&index, 1));
        index.upsert(of(n, 1, None), at(&index, 1));
        let taken = index.take(|_, _| true).unwrap();
        assert_eq!(taken.kind.as_str(), format!("kind{n}"));
        assert_eq!(index.kinds.len(), 1, "the other task has it");
        assert!(index.remove(&"t1".parse().unwrap()).is_some());
    }
    assert_eq!((index.kinds.len(), index.ready.kinds()), (0, 0));
    assert!(index.kinds.numbers() < 3, "numbers are used again");
    // Another view of a task may have another kind.
    for n in 0..100 {
        index.upsert(of(n, 0, Some(0)), at(&index, 1));
    }
    assert_eq!((index.kinds.len(), index.ready.kinds()), (1, 1));
    assert_eq!(drain(&mut index), ["t0"]);
}

#[test]
fn nothing_is_left_of_what_was_removed() {
    let mut index = DueIndex::default();
    for n in 0..1000 {
        index.upsert(
            view(&format!("t{n}"), Some(n % 7), 0, n as u64),
            at(&index, 3),
        );
    }
    for n in 0..1000 {
        assert!(
            index.remove(&format!("t{n}").parse().unwrap()).is_some(),
            "t{n}"
        );
    }
    assert_eq!(
        (index.len(), index.ready_len(), next(&index, 3)),
        (0, 0, None)
    );
    index.upsert(view("again", Some(0), 0, 1), at(&index, 3));
    assert_eq!(index.entries.len(), 1000, "places are used again");
}

#[test]
fn a_wake_up_within_a_millisecond_is_due_at_its_end() {
    let mut index = DueIndex::default();
    let mut view = sleeper("a", 10, 1);
    view.due = view.due.map(|due| due + Duration::from_nanos(1));
    index.upsert(view, at(&index, 0));
    let clock = |ms: i64| Moment {
        clock: Timestamp::from_millisecond(ms).unwrap(),
        at: index.made,
    };
    let (early, due) = (clock(10_000), clock(10_001));
    assert_eq!(index.advance(early), 0);
    assert_eq!(index.advance(due), 1);
}

#[test]
fn priorities_hold_across_kinds() {
    let mut index = DueIndex::default();
    for priority in [3, 7, 1, 5, 0, 6, 2, 4] {
        let of_kind = TaskView {
            kind: format!("kind{priority}").parse().unwrap(),
            ..view(&format!("t{priority}"), Some(0), priority, 1)
        };
        index.upsert(of_kind, at(&index, 1));
    }
    let expected: Vec<_> = (0..8).rev().map(|n| format!("t{n}")).collect();
    assert_eq!(drain(&mut index), expected);
}

#[test]
fn a_sleeper_or_a_task_put_off_that_is_removed_is_waited_for_no_more() {
    let mut index = DueIndex::default();
    let now = at(&index, 0);
    index.upsert(sleeper("a", 10, 1), now);
    index.put_off(view("b", Some(0), 0, 2), after(&index, 5), now);
    index.upsert(view("c", None, 0, 3), now);
    for id in ["a", "b", "c"] {
        assert!(index.remove(&id.parse().unwrap()).is_some());
    }
    assert_eq!(index.next_due_in(now), None);
    assert!(index.waiting.is_empty() && index.put_off.is_empty());
}

#[test]
fn the_order_of_a_task_is_known_until_the_index_is_cleared() {
    let mut index = DueIndex::default();
    let id = "a".parse().unwrap();
    assert_eq!(index.order(&id), None);
    index.upsert(view("a", Some(0), 0, 7), at(&index, 1));
    assert_eq!(index.order(&id), Some(7));
    index.clear();
    assert_eq!((index.order(&id), index.len()), (None, 0));
}

#[test]
fn the_oldest_of_each_kind_is_the_first_that_is_due() {
    let mut index = DueIndex::default();
    let now = at(&index, 100);
    let mut put = |id: &str, kind: &str, due, priority, change: fn(&mut TaskView)| {
        let mut view = view(id, Some(due), priority, 1);
        view.kind = kind.parse().unwrap();
        change(&mut view);
        index.upsert(view, now);
    };
    put("late", "a", 50, 0, |_| ());
    put("first", "a", 40, -3, |_| ());
    put("urgent", "a", 60, i32::MAX, |_| ());
    put("version", "a", 45, i32::MIN, |view| view.data_version = 2);
    put("fair", "b", 30, 0, |view| view.fair_key = Some("x".into()));
    put("fair-too", "b", 20, 1, |view| {
        view.fair_key = Some("y".into());
    });
    put("told", "c", 10, 0, |view| view.commanded = true);
    put("asleep", "d", 200, 0, |view| view.sleeping = true);
    let oldest = index.oldest_due();
    let oldest: Vec<_> = oldest
        .iter()
        .map(|(kind, due)| (kind.as_str(), due.as_second()))
        .collect();
    assert_eq!(oldest, [("a", 40), ("b", 20)]);
}

#[test]
fn a_task_whose_deadline_has_come_counts_as_commanded() {
    let mut index = DueIndex::default();
    let start = at(&index, 0);
    let late = |view: TaskView, second: i64| TaskView {
        deadline: Timestamp::from_second(second).ok(),
        ..view
    };
    // One task that could be claimed but finds no room, one that is paused, and one that sleeps
    // longer.
    index.upsert(late(view("ready", Some(0), 0, 1), 5), start);
    index.upsert(late(view("paused", None, 0, 2), 6), start);
    index.upsert(late(sleeper("asleep", 100, 3), 7), start);
    index.upsert(late(sleeper("woken", 2, 4), 50), start);
    let room_for_commands = |_: &Kind, commanded: bool| commanded;
    assert_eq!(index.next_due_in(start), Some(Duration::from_secs(2)));
    for (second, id) in [
        (4, None),
        (5, Some("ready")),
        (6, Some("paused")),
        (7, Some("asleep")),
    ] {
        let now = at(&index, second);
        index.advance(now);
        let taken = index.take(room_for_commands);
        let taken = taken.map(|view| (view.id.to_string(), view.commanded));
        assert_eq!(taken, id.map(|id| (id.to_owned(), true)), "{second}");
    }
    // A deferred task stays deferred.
    let now = at(&index, 60);
    index.put_off(
        late(view("ready", Some(0), 0, 1), 5),
        now.at + Duration::from_secs(1),
        now,
    );
    index.remove(&"woken".parse().unwrap());
    index.advance(now);
    assert!(index.take(room_for_commands).is_none());
    let now = at(&index, 62);
    index.advance(now);
    assert!(
        index
            .take(room_for_commands)
            .is_some_and(|view| view.deadline.is_some())
    );
    assert!(index.late.is_empty() && index.deadlines.is_empty());
}
