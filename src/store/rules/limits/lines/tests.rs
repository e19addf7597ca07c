use super::*;

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

fn slots(slots: u32) -> impl Fn(&Limit) -> Free {
    move |_| Free { slots, until: None }
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
    assert_eq!(lines.get(2).unwrap().report, Report::Now);
    assert_eq!(lines.get(4).unwrap().report, Report::Silent);
    assert_eq!(lines.leave(2), Some(pool.clone()));
    assert_eq!(lines.refill(&pool, When::changed(at(2)), slots(3)), [4]);
    for order in [1, 3, 4] {
        lines.leave(order);
    }
    assert!(lines.is_empty() && lines.lines.is_empty());
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
    let free = |limit: &Limit| Free {
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
        move |_: &Limit| Free {
            slots: 0,
            until: Some(at(until)),
        }
    };
    assert_eq!(lines.refill(&pool, When::changed(at(0)), full(500)), [1]);
    assert_eq!(lines.get(1).unwrap().report, Report::At(at(500)));
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
    assert_eq!(lines.get(3).unwrap().report, Report::At(at(900)));
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
    // One of them is claimed and ends: one is reported for its slot.
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
