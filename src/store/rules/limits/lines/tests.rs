use std::time::Duration;

use super::*;
use crate::store::rules::limits::{Free, Pool, lines_in_memory::Lines};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn three() -> Limit {
    Limit::at_once("k", 3).unwrap()
}

fn place(order: u64) -> Place {
    Place::new(0, Some(at(0)), order)
}

/// Returns lines in which these tasks wait for a slot of `limit`.
fn lines(limit: &Limit, orders: &[u64]) -> Lines {
    let mut lines = Lines::default();
    for order in orders {
        assert!(lines.join(limit, place(*order)));
    }
    lines
}

fn slots(slots: u32) -> impl Fn(&Limit, bool) -> Free {
    move |_, _| Free { slots, until: None }
}

#[test]
fn one_task_is_reported_for_each_free_slot() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = lines(&limit, &[1, 2, 3, 4]);
    assert!(
        lines
            .refill(&pool, When::changed(at(0)), slots(0))
            .is_empty()
    );
    assert_eq!(lines.refill(&pool, When::changed(at(0)), slots(1)), [1]);
    assert!(
        lines
            .refill(&pool, When::changed(at(0)), slots(1))
            .is_empty(),
        "task 1 may take it"
    );
    assert_eq!(lines.refill(&pool, When::changed(at(1)), slots(3)), [2, 3]);
    assert_eq!(lines.get(2).unwrap().report(), Report::Now);
    assert_eq!(lines.get(4).unwrap().report(), Report::Silent);
    assert_eq!(lines.leave(2), Some(pool.clone()));
    assert_eq!(lines.refill(&pool, When::changed(at(2)), slots(3)), [4]);
    for order in [1, 3, 4] {
        lines.leave(order);
    }
    assert!(lines.is_empty() && lines.pools() == 0);
}

#[test]
fn a_line_is_in_the_order_of_priority_due_time_and_submit() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = Lines::default();
    for (priority, due, order) in [(0, 5, 1), (0, 4, 2), (0, 4, 3), (7, 9, 4), (-1, 0, 5)] {
        lines.join(&limit, Place::new(priority, Some(at(due)), order));
    }
    assert_eq!(
        lines.refill(&pool, When::changed(at(10)), slots(9)),
        [4, 2, 3, 1, 5]
    );
}

#[test]
fn a_reported_task_that_finds_no_slot_is_silent_again() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = lines(&limit, &[1, 2]);
    lines.refill(&pool, When::changed(at(0)), slots(1));
    assert!(lines.join(&limit, place(1)), "nodes see it in another way");
    assert!(!lines.join(&limit, place(1)), "it was silent");
    assert_eq!(
        lines.refill(&pool, When::changed(at(1)), slots(1)),
        [1],
        "it is the first again"
    );
}

#[test]
fn a_task_that_finds_another_limit_full_is_in_that_line() {
    let (one, other) = (three(), Limit::at_once("other", 1).unwrap());
    let mut lines = lines(&one, &[1, 2]);
    lines.refill(&Pool::of(&one), When::changed(at(0)), slots(1));
    assert!(lines.join(&other, place(1)));
    assert_eq!(
        lines.refill(&Pool::of(&one), When::changed(at(0)), slots(1)),
        [2]
    );
    assert_eq!(
        lines.refill(&Pool::of(&other), When::changed(at(0)), slots(1)),
        [1]
    );
}

#[test]
fn a_full_limit_of_a_smaller_number_does_not_hold_back_a_greater_one() {
    let (small, great) = (Limit::at_once("k", 1).unwrap(), three());
    let pool = Pool::of(&great);
    let mut lines = Lines::default();
    lines.join(&small, place(1));
    lines.join(&great, place(2));
    let free = |limit: &Limit, _: bool| Free {
        slots: u32::from(*limit == three()),
        until: None,
    };
    assert_eq!(lines.refill(&pool, When::changed(at(0)), free), [2]);
}

#[test]
fn the_first_of_a_line_of_starts_is_reported_in_advance() {
    let limit = Limit::starts("k", 2, Duration::from_secs(60)).unwrap();
    let pool = Pool::of(&limit);
    let mut lines = lines(&limit, &[1, 2, 3, 4]);
    let full = |until| {
        move |_: &Limit, _: bool| Free {
            slots: 0,
            until: Some(at(until)),
        }
    };
    assert_eq!(lines.refill(&pool, When::changed(at(0)), full(500)), [1]);
    assert_eq!(lines.get(1).unwrap().report(), Report::At(at(500)));
    assert!(
        lines
            .refill(&pool, When::changed(at(400)), full(500))
            .is_empty()
    );
    // It is claimed, and another slot is free.
    lines.leave(1);
    assert_eq!(lines.refill(&pool, When::changed(at(500)), slots(1)), [2]);
    lines.leave(2);
    assert_eq!(lines.refill(&pool, When::changed(at(501)), full(900)), [3]);
    assert_eq!(lines.get(3).unwrap().report(), Report::At(at(900)));
}

#[test]
fn tasks_that_no_node_claims_do_not_block_those_behind_them() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let orders: Vec<u64> = (1..=10).collect();
    let mut lines = lines(&limit, &orders);
    assert_eq!(lines.refill(&pool, When::changed(at(0)), slots(1)), [1]);
    assert!(lines.stuck(at(4_999)).is_empty());
    assert_eq!(lines.stuck(at(5_000)), std::slice::from_ref(&pool));
    assert!(
        lines
            .refill(&pool, When::stuck(at(5_000)), slots(0))
            .is_empty(),
        "no slot is free"
    );
    assert_eq!(lines.refill(&pool, When::stuck(at(5_000)), slots(1)), [2]);
    assert!(lines.stuck(at(9_999)).is_empty());
    assert_eq!(
        lines.refill(&pool, When::stuck(at(10_000)), slots(1)),
        [3, 4]
    );
    assert_eq!(
        lines.refill(&pool, When::stuck(at(15_000)), slots(1)),
        [5, 6, 7, 8]
    );
    // One of them is claimed and ends: one task is reported for its slot.
    lines.leave(5);
    assert!(
        lines
            .refill(&pool, When::changed(at(15_001)), slots(1))
            .is_empty(),
        "3 others were just reported"
    );
    assert_eq!(
        lines.refill(&pool, When::changed(at(20_000)), slots(1)),
        [9]
    );
}

/// Returns a limit on starts with this number and period.
fn rate(most: u32, seconds: u64) -> Limit {
    Limit::starts("k", most, Duration::from_secs(seconds)).unwrap()
}

fn full_until(until: i64) -> impl Fn(&Limit, bool) -> Free {
    move |_, _| Free {
        slots: 0,
        until: Some(at(until)),
    }
}

#[test]
fn a_time_that_a_wrong_clock_has_reported_is_revised() {
    let limit = rate(1, 60);
    let pool = Pool::of(&limit);
    let mut lines = lines(&limit, &[1]);
    let hour = 3_600_000;
    let ahead = When::changed(at(hour));
    assert_eq!(lines.refill(&pool, ahead, full_until(hour + 60_000)), [1]);
    assert!(lines.stuck(at(hour)).is_empty(), "as it should be");
    // The clock is set right: no other task, and no slot, changes.
    assert_eq!(lines.stuck(at(0)), std::slice::from_ref(&pool));
    assert_eq!(lines.refill(&pool, When::stuck(at(0)), slots(1)), [1]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Now);
    assert!(lines.stuck(at(0)).is_empty());
}

#[test]
fn a_task_that_was_reported_by_a_wrong_clock_keeps_none_back() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = lines(&limit, &[1, 2]);
    lines.refill(&pool, When::changed(at(3_600_000)), slots(1));
    assert_eq!(lines.stuck(at(0)), std::slice::from_ref(&pool));
    assert_eq!(lines.refill(&pool, When::stuck(at(0)), slots(1)), [2]);
}

#[test]
fn a_clock_that_steps_back_a_little_is_no_reason_to_report_another_task() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = lines(&limit, &[1, 2]);
    lines.refill(&pool, When::changed(at(2_000)), slots(1));
    assert!(lines.stuck(at(0)).is_empty());
    let again = lines.refill(&pool, When::changed(at(0)), slots(1));
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_task_that_goes_before_the_one_reported_in_advance_takes_its_place() {
    let limit = rate(1, 60);
    let pool = Pool::of(&limit);
    let mut lines = lines(&limit, &[1]);
    lines.refill(&pool, When::changed(at(0)), full_until(500));
    lines.join(&limit, Place::new(7, Some(at(0)), 2));
    let changed = lines.refill(&pool, When::changed(at(1)), full_until(500));
    assert_eq!(changed, [1, 2]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Silent);
    assert_eq!(lines.get(2).unwrap().report(), Report::At(at(500)));
    let again = lines.refill(&pool, When::changed(at(2)), full_until(500));
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_task_of_a_higher_priority_takes_the_place_of_one_just_reported() {
    let (limit, pool) = (three(), Pool::of(&three()));
    let mut lines = lines(&limit, &[1, 2]);
    assert_eq!(lines.refill(&pool, When::changed(at(0)), slots(2)), [1, 2]);
    lines.join(&limit, Place::new(7, Some(at(0)), 3));
    let changed = lines.refill(&pool, When::changed(at(1)), slots(2));
    assert_eq!(changed, [2, 3]);
    assert_eq!(lines.get(2).unwrap().report(), Report::Silent);
    lines.join(&limit, Place::new(0, None, 9));
    let changed = lines.refill(&pool, When::changed(at(2)), slots(2));
    assert!(changed.is_empty(), "one that is only older: {changed:?}");
    lines.leave(9);
    // A task that no node claims stays reported, and holds back no other task.
    lines.join(&limit, Place::new(9, Some(at(0)), 4));
    let changed = lines.refill(&pool, When::changed(at(6_000)), slots(1));
    assert_eq!(changed, [4]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Now);
}

#[test]
fn the_limit_whose_slot_is_free_first_is_reported_in_advance() {
    let (one, two) = (rate(1, 3600), rate(2, 3600));
    let pool = Pool::of(&one);
    let mut lines = Lines::default();
    lines.join(&one, Place::new(7, Some(at(0)), 1));
    let hour = 3_600_000;
    // The second slot is free before the first one.
    let free = |limit: &Limit, _: bool| {
        let until = if *limit == rate(2, 3600) { 5_000 } else { hour };
        full_until(until)(limit, false)
    };
    assert_eq!(lines.refill(&pool, When::changed(at(0)), free), [1]);
    lines.join(&two, place(2));
    assert_eq!(lines.refill(&pool, When::changed(at(1)), free), [1, 2]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Silent);
    assert_eq!(lines.get(2).unwrap().report(), Report::At(at(5_000)));
    lines.leave(2);
    assert_eq!(lines.refill(&pool, When::changed(at(5_000)), free), [1]);
    assert_eq!(lines.get(1).unwrap().report(), Report::At(at(hour)));
}

#[test]
fn a_time_in_advance_that_is_no_longer_right_is_corrected() {
    let limit = rate(1, 60);
    let pool = Pool::of(&limit);
    let mut lines = lines(&limit, &[1, 2]);
    lines.refill(&pool, When::changed(at(0)), full_until(500));
    let changed = lines.refill(&pool, When::changed(at(1)), full_until(900));
    assert_eq!(changed, [1]);
    assert_eq!(lines.get(1).unwrap().report(), Report::At(at(900)));
    assert_eq!(lines.refill(&pool, When::changed(at(2)), slots(1)), [1]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Now);
}

/// Lets the turn of task 1 come this often while the limit of the other line is full.
fn turns_pass(lines: &mut Lines, times: u32) {
    let limits = [three(), Limit::at_once("other", 1).unwrap()];
    lines.join(&limits[0], place(1));
    for turn in 0..times {
        let line = Pool::of(&limits[turn as usize % 2]);
        lines.refill(&line, When::changed(at(0)), slots(1));
        assert_eq!(lines.get(1).unwrap().report(), Report::Now);
        lines.join(&limits[(turn as usize + 1) % 2], place(1));
    }
}

#[test]
fn a_task_reserves_after_its_turns_and_the_oldest_alone_does() {
    let mut lines = Lines::default();
    turns_pass(&mut lines, 2);
    assert_eq!(lines.reserver(), None);
    lines.leave(1);
    turns_pass(&mut lines, 3);
    assert_eq!(lines.reserver(), Some(1));
    let older = place(0);
    let limits = [three(), Limit::at_once("third", 1).unwrap()];
    lines.join(&limits[0], older);
    for turn in 0..3 {
        let (line, next) = (&limits[turn % 2], &limits[(turn + 1) % 2]);
        lines.refill(&Pool::of(line), When::changed(at(0)), slots(2));
        lines.join(next, older);
    }
    assert_eq!(lines.reserver(), Some(0));
    lines.leave(0);
    assert_eq!(lines.reserver(), Some(1));
    lines.leave(1);
    assert_eq!(lines.reserver(), None);
}

#[test]
fn the_reserver_goes_before_others_and_takes_no_slot_of_theirs() {
    let mut lines = Lines::default();
    turns_pass(&mut lines, 4);
    let pool = Pool::of(&three());
    for order in [2, 3] {
        lines.join(&three(), Place::new(7, Some(at(0)), order));
    }
    let full = lines.refill(&pool, When::changed(at(0)), slots(0));
    assert!(full.is_empty(), "{full:?}");
    // One slot is free, and it is kept for the reserver.
    let kept = |limit: &Limit, for_reserver: bool| slots(u32::from(for_reserver))(limit, false);
    assert_eq!(lines.refill(&pool, When::changed(at(0)), kept), [1]);
    // Another slot is free: the next task of the line gets it.
    let kept = |limit: &Limit, for_reserver: bool| slots(1 + u32::from(for_reserver))(limit, false);
    assert_eq!(lines.refill(&pool, When::changed(at(1)), kept), [2]);
    assert_eq!(lines.get(1).unwrap().report(), Report::Now);
}

#[test]
fn a_reserver_that_no_node_claims_starts_over() {
    let mut lines = Lines::default();
    turns_pass(&mut lines, 4);
    assert!(
        lines.give_up(at(60_000)).is_empty(),
        "it could not be claimed"
    );
    lines.refill(&Pool::of(&three()), When::changed(at(60_000)), slots(1));
    assert!(lines.give_up(at(64_999)).is_empty());
    assert_eq!(lines.give_up(at(65_000)), [1]);
    assert_eq!(lines.reserver(), None);
    // A report by a clock that was ahead.
    turns_pass(&mut lines, 4);
    lines.refill(&Pool::of(&three()), When::changed(at(9_000_000)), slots(1));
    assert_eq!(lines.give_up(at(0)), [1]);
}

mod properties;

#[test]
fn a_task_that_is_held_back_counts_as_commanded_only_with_a_command_that_needs_no_slot() {
    for (report, due) in [(Report::Silent, None), (Report::At(at(9)), Some(at(9)))] {
        for has_order in [false, true] {
            let mut view = TaskView {
                commanded: true,
                due: Some(at(1)),
                ..TaskView::new("t".parse().unwrap(), "k".parse().unwrap(), 1)
            };
            report.apply(&mut view, || has_order);
            assert_eq!((view.sleeping, view.due), (true, due), "{report:?}");
            assert_eq!(view.commanded, has_order, "{report:?}");
        }
    }
    let mut view = TaskView {
        commanded: true,
        ..TaskView::new("t".parse().unwrap(), "k".parse().unwrap(), 1)
    };
    Report::Now.apply(&mut view, || false);
    assert!(view.commanded && !view.sleeping);
}
