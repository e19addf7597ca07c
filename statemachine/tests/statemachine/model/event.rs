//! What happens around the machine, at random.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use windlass_statemachine::{
    Command, Decision, Failure, Message, Outcome, Retry, RetryPolicy, TaskState, TaskStatus, Wake,
    machine::{Config, StopReason, Timer},
    state::LastCommand,
};

use crate::common::{arbitrary, config, json, t, t0};

/// Something that happens around the machine. What makes no sense at the time is fed all the
/// same where a runner could feed it late, and skipped where it never would.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Command(Command),
    /// A command that was fed before, once more.
    Again(prop::sample::Index),
    Return(Message),
    Checkpoint(usize),
    Progress,
    /// The handler that is being aborted has ended.
    Ended,
    Stored,
    Refused,
    Fenced,
    Stop(StopReason),
    /// Time passes; timers that are due go off.
    Pass(u64),
    /// The clock is set forward or back: no time passes.
    SetClock(i64),
    /// A timer that goes off too early, or was disarmed too late.
    Stale(Timer),
    /// The process of the machine is lost, and another continues the claim of the remote worker. `applied`: the write
    /// that was under way is durable. `delivered`: a handler that was to start did start.
    Adopt {
        applied: bool,
        delivered: bool,
    },
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let command = prop_oneof![
        3 => Just(Command::Run),
        2 => (-5..40i64).prop_map(|s| Command::Sleep { until: t(s) }),
        3 => Just(Command::Pause),
        2 => Just(Command::Release),
        4 => Just(Command::Checkpoint),
        1 => Just(Command::Complete { result: None }),
        1 => (0..120usize).prop_map(|n| Command::Complete {
            result: Some(json(&format!("\"{}\"", "c".repeat(n)))),
        }),
        1 => Just(Command::Kill),
    ];
    prop_oneof![
        8 => command.prop_map(Event::Command),
        1 => any::<prop::sample::Index>().prop_map(Event::Again),
        6 => (arbitrary::message(), any::<bool>()).prop_map(|(message, acts)| {
            Event::Return(if acts { message.and_send("c", "id", Command::Run) } else { message })
        }),
        3 => (0..120usize).prop_map(Event::Checkpoint),
        1 => Just(Event::Progress),
        4 => Just(Event::Ended),
        12 => Just(Event::Stored),
        3 => Just(Event::Refused),
        1 => Just(Event::Fenced),
        1 => prop::sample::select(vec![StopReason::Shutdown, StopReason::Drain, StopReason::StopTask])
            .prop_map(Event::Stop),
        6 => prop_oneof![0..12u64, Just(30), Just(31)].prop_map(Event::Pass),
        2 => prop_oneof![-3..40i64, Just(-3600), Just(3600)].prop_map(Event::SetClock),
        1 => prop::sample::select(vec![Timer::Wake, Timer::Grace]).prop_map(Event::Stale),
        4 => any::<(bool, bool)>().prop_map(|(applied, delivered)| Event::Adopt { applied, delivered }),
    ]
}

/// The answer of a policy, fixed: at once, soon, an endless sleep, giving up.
#[derive(Debug, Clone)]
pub(super) struct Fixed(Decision);

impl RetryPolicy for Fixed {
    fn decide(&self, _: &Failure<'_>) -> Decision {
        self.0
    }
    fn keeps(&self) -> usize {
        0
    }
}

pub(super) fn configs() -> impl Strategy<Value = Config> {
    let policies = prop_oneof![
        Just(config(Retry::default())),
        Just(config(Retry::exponential(3, Duration::from_secs(8)))),
        Just(config(Retry::Never)),
        Just(config(Fixed(Decision::Run))),
        Just(config(Fixed(Decision::Sleep(Wake::After(Duration::MAX))))),
    ];
    let most = prop_oneof![1..5usize, Just(1000)];
    let named = any::<(bool, bool)>();
    (policies, most, 1..4u32, named).prop_map(
        |(config, max_outcomes, idle_runs, (named_runs, claim_per_attempt))| Config {
            max_outcomes,
            idle_runs,
            named_runs,
            claim_per_attempt,
            ..config
        },
    )
}

pub(super) fn starts() -> impl Strategy<Value = (TaskState, bool)> {
    let status = prop_oneof![
        4 => Just(TaskStatus::Runnable),
        2 => (-5..30i64).prop_map(|s| TaskStatus::Sleeping { until: t(s) }),
        1 => Just(TaskStatus::Paused),
        1 => Just(TaskStatus::Fault),
        1 => Just(TaskStatus::Completed { result: None }),
        1 => Just(TaskStatus::Failed),
    ];
    let last = prop::option::of(1..5u64);
    (
        status,
        0..4u32,
        last,
        prop::option::of(0..150usize),
        any::<bool>(),
    )
        .prop_map(|(status, attempts, last, data, abandoned)| {
            let mut state = TaskState::new(t0());
            state.status = status;
            state.attempts = attempts;
            state.version = 3;
            state.last_command = last.map(|order| {
                LastCommand::new(
                    order,
                    Outcome::Rejected {
                        reason: "no".into(),
                    },
                )
            });
            state.data = data.map(|n| json(&format!("\"{}\"", "o".repeat(n))));
            (state, abandoned)
        })
}

/// What a node sees of a task before it has begun with it: no faults, no stop.
pub(super) fn early() -> impl Strategy<Value = Vec<Event>> {
    vec(event(), 0..5).prop_map(without_faults)
}

pub(super) fn without_faults(mut events: Vec<Event>) -> Vec<Event> {
    events.retain(|e| !matches!(e, Event::Fenced | Event::Stop(_) | Event::Refused));
    events
}
