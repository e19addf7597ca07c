//! The machine under random inputs, beside a model of everything around it: the store, the
//! handler, the timers, the operator. What the crate promises of it is checked at each effect.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

mod adopt;
mod check;
mod event;
mod settle;
mod world;

use proptest::{collection::vec, prelude::*};
use windlass_statemachine::{
    StopReason, TaskState,
    machine::{Config, End, Input},
};

use self::{
    event::{Event, configs, early, event, starts, without_faults},
    world::World,
};

fn play(config: Config, start: (TaskState, bool), early: Vec<Event>, events: Vec<Event>) -> World {
    let mut world = World::new(config, start.0, start.1);
    for event in early {
        world.event(event);
    }
    world.begun = true;
    world.feed(Input::Begin);
    for event in events {
        world.event(event);
    }
    world.settle_down();
    let outcomes = world.fed.len() - world.waiting.len();
    assert_eq!(
        outcomes, world.settled,
        "each command has one outcome or waits"
    );
    if world.done.is_none() {
        assert!(world.waiting.is_empty(), "{:#?}", world.log);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_keeps_the_promises(
        config in configs(), start in starts(), early in early(), events in vec(event(), 0..60),
    ) {
        play(config, start, early, events);
    }

    /// Without faults and stops: longer lives.
    #[test]
    fn a_task_that_is_left_alone_lives_on(
        config in configs(), start in starts(), early in early(),
        events in vec(event(), 0..150).prop_map(without_faults),
    ) {
        let world = play(config, start, early, events);
        prop_assert_ne!(world.done, Some(End::Lost));
    }

    #[test]
    fn a_stop_is_heeded_whenever_it_comes(
        config in configs(), start in starts(), events in vec(event(), 0..30),
        at in any::<prop::sample::Index>(),
    ) {
        let mut events = events;
        events.insert(at.index(events.len() + 1), Event::Stop(StopReason::Shutdown));
        let world = play(config, start, vec![], events);
        prop_assert!(world.done.is_some(), "the claim is released or lost");
    }
}
