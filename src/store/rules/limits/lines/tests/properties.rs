//! After any events, with any readings of the clock, a line moves on once the clock is right.

use proptest::prelude::*;
use windlass_statemachine::Bound;

use super::*;

/// One event of a line for which no slot is free until a time.
#[derive(Debug, Clone)]
enum Event {
    Join {
        priority: i32,
        order: u64,
        limit: bool,
    },
    Leave(u64),
    /// The clock shows this time, right or wrong.
    Clock(i64),
    Slots(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (-1..2_i32, 1..8_u64, any::<bool>()).prop_map(|(priority, order, limit)| Event::Join {
            priority,
            order,
            limit
        }),
        (1..8_u64).prop_map(Event::Leave),
        prop_oneof![0..20_000_i64, 0..9_000_000_000_i64].prop_map(Event::Clock),
        (0..3_u32).prop_map(Event::Slots),
    ]
}

fn limit(is_small: bool) -> Limit {
    rate(if is_small { 1 } else { 2 }, 3600)
}

proptest! {
    #[test]
    fn after_any_events_a_line_with_a_right_clock_reports_its_first(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let mut lines = Lines::default();
        let pool = Pool::of(&limit(true));
        let (mut now, mut free) = (at(0), 1);
        for event in events {
            match event {
                Event::Join { priority, order, limit: is_small } => {
                    lines.join(&limit(is_small), Place::new(priority, Some(at(0)), order));
                }
                Event::Leave(order) => drop(lines.leave(order)),
                Event::Clock(millis) => now = at(millis),
                Event::Slots(slots) => free = slots,
            }
            lines.refill(&pool, When::changed(now), slots(free));
        }
        // The clock is right from now on, and no slot is free.
        let now = at(1_000);
        let full = |limit: &Limit, _: bool| full_until(match limit.bound() {
            Bound::Starts { most, .. } => 1_000 + 1_800_000 / i64::from(most),
            Bound::AtOnce(_) => 0,
        })(limit, false);
        for _ in 0..3 {
            for pool in lines.stuck(now) {
                lines.refill(&pool, When::stuck(now), full);
            }
        }
        let shown: Vec<_> = (1..8)
            .filter_map(|order| lines.get(order))
            .map(|held| (held.limit.clone(), held.report()))
            .collect();
        for (limit, report) in shown {
            if let Report::At(until) = report {
                let Bound::Starts { within, .. } = limit.bound() else { continue };
                let last = now + SignedDuration::try_from(within).unwrap() * 2;
                prop_assert!(until <= last, "{until} {limit:?}");
            }
        }
        // With a slot, the line empties: no task is held back by another one for longer than the
        // patience.
        let mut left: Vec<u64> = (1..8).filter(|order| lines.get(*order).is_some()).collect();
        let mut now = at(1_000);
        while !left.is_empty() {
            lines.refill(&pool, When::changed(now), slots(1));
            for pool in lines.stuck(now) {
                lines.refill(&pool, When::stuck(now), slots(1));
            }
            let ready = |order: &u64| matches!(
                lines.get(*order).map(crate::store::rules::limits::lines_in_memory::Held::report),
                Some(Report::Now)
            ) || matches!(
                lines.get(*order).map(crate::store::rules::limits::lines_in_memory::Held::report),
                Some(Report::At(until)) if until <= now
            );
            let first = left.iter().copied().find(ready);
            prop_assert!(first.is_some(), "none is reported of {left:?}");
            if let Some(order) = first {
                lines.leave(order);
                left.retain(|one| *one != order);
            }
            now += SignedDuration::from_millis(10);
        }
    }
}
