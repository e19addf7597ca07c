//! Values of every persisted type, the absurd included.

use std::time::Duration;

use jiff::Timestamp;
use proptest::{collection::vec, option, prelude::*};
use windlass_statemachine::{
    ActionKind, Command, ErrorLog, Fence, Json, Kind, Message, Outcome, Progress, Retry, StateKind,
    Task, TaskId, TaskState, TaskStatus, state::LastCommand,
};

/// Any time there is.
pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> {
    let whole = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    (whole, 0..1_000_000_000i32).prop_map(|(second, nano)| {
        let nano = if second == Timestamp::MIN.as_second() {
            0
        } else {
            nano
        };
        Timestamp::new(second, nano).unwrap_or(Timestamp::MAX)
    })
}

/// Any document: numbers beyond 64 bits, odd spacing, odd text, null.
pub(crate) fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,60})",
        "-?[1-9][0-9]{0,3}\\.[0-9]{1,30}([eE][+-]?[0-9]{1,4})?",
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap());
        prop_oneof![
            (vec(inner.clone(), 0..4), " {0,2}").prop_map(|(items, space)| format!(
                "[{space}{}{space}]",
                items.join(&format!(",{space}"))
            )),
            (vec((key, inner), 0..4), " {0,2}").prop_map(|(items, space)| {
                let items: Vec<_> = items
                    .into_iter()
                    .map(|(k, v)| format!("{k}{space}:{space}{v}"))
                    .collect();
                format!("{{{}}}", items.join(","))
            }),
        ]
    })
    .prop_map(|text| super::json(&text))
}

pub(crate) fn code() -> impl Strategy<Value = StateKind> {
    prop::sample::select(StateKind::ALL.to_vec())
}

pub(crate) fn kind() -> impl Strategy<Value = ActionKind> {
    prop::sample::select(ActionKind::ALL.to_vec())
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (code(), code()).prop_map(|(from, to)| Outcome::Applied { from, to }),
        kind().prop_map(|by| Outcome::Overridden { by }),
        any::<String>().prop_map(|reason| Outcome::Rejected { reason }),
    ]
}

pub(crate) fn status() -> impl Strategy<Value = TaskStatus> {
    prop_oneof![
        Just(TaskStatus::Runnable),
        timestamp().prop_map(|until| TaskStatus::Sleeping { until }),
        Just(TaskStatus::Paused),
        Just(TaskStatus::Fault),
        option::of(json()).prop_map(|result| TaskStatus::Completed { result }),
        Just(TaskStatus::Failed),
        Just(TaskStatus::Killed),
    ]
}

fn progress() -> impl Strategy<Value = Progress> {
    let fraction = option::of(prop_oneof![0.0..=1.0f64, prop::num::f64::NORMAL]);
    (fraction, any::<String>()).prop_map(|(fraction, text)| Progress::new(fraction, text))
}

pub(crate) fn state() -> impl Strategy<Value = TaskState> {
    let counters = (
        any::<u32>(),
        option::of(any::<u32>()),
        any::<u64>(),
        any::<u32>(),
        prop_oneof![any::<u64>(), Just(u64::MAX)],
        any::<u64>(),
    );
    let last = option::of((any::<u64>(), outcome()));
    let errors = (vec((timestamp(), any::<String>()), 0..6), 1..6usize);
    (
        status(),
        timestamp(),
        (option::of(json()), any::<u32>()),
        errors,
        counters,
        last,
        option::of(progress()),
    )
        .prop_map(
            |(status, since, (data, data_version), (errors, keep), counters, last, progress)| {
                let mut state = TaskState::new(since);
                state.status = status;
                (state.data, state.data_version) = (data, data_version);
                let mut log = ErrorLog::default();
                for (at, text) in errors {
                    log.push(at, text, keep);
                }
                state.errors = log;
                (
                    state.attempts,
                    state.attempts_left,
                    state.claims,
                    state.incarnation,
                    state.version,
                    state.fence.0,
                ) = counters;
                state.last_command = last.map(|(order, outcome)| LastCommand::new(order, outcome));
                state.progress = progress;
                state
            },
        )
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        Just(Command::Run),
        timestamp().prop_map(|until| Command::Sleep { until }),
        Just(Command::Pause),
        Just(Command::Release),
        Just(Command::Checkpoint),
        option::of(json()).prop_map(|result| Command::Complete { result }),
        Just(Command::Kill),
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..1_000_000u64).prop_map(Duration::from_secs),
        (any::<u32>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s.into(), n)),
        Just(Duration::ZERO),
    ]
}

pub(crate) fn retry() -> impl Strategy<Value = Retry> {
    prop_oneof![
        (any::<u32>(), duration(), duration()).prop_map(|(errors, window, sleep)| {
            Retry::Strikes {
                errors,
                window,
                sleep,
            }
        }),
        (duration(), prop::num::f64::NORMAL, duration(), any::<u32>()).prop_map(
            |(base, factor, cap, attempts)| Retry::Exponential {
                base,
                factor,
                cap,
                attempts
            }
        ),
        Just(Retry::Never),
        Just(Retry::Abandoned),
    ]
}

fn id() -> impl Strategy<Value = TaskId> {
    prop_oneof!["[a-zA-Z0-9.:-]{1,40}", "\\PC{1,40}"]
        .prop_filter_map("not an id", |text| TaskId::new(text).ok())
}

pub(crate) fn task() -> impl Strategy<Value = Task> {
    (
        id(),
        id(),
        json(),
        option::of(timestamp()),
        any::<i32>(),
        prop::collection::btree_map(any::<String>(), any::<String>(), 0..4),
        option::of(retry()),
    )
        .prop_map(|(id, kind, props, start_at, priority, labels, retry)| {
            // A kind is a name that does not end with a star.
            let kind = Kind::new(format!("{kind}-"))
                .or_else(|_| Kind::new("k"))
                .unwrap();
            let mut task = Task::new(id, kind);
            task.props = props;
            task.start_at = start_at;
            task.priority = priority;
            task.labels = labels;
            task.retry = retry;
            task
        })
}

/// A message with or without data, near the start of the tests: legal or not is the table's.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let action = prop_oneof![
        Just(Message::run()),
        (-5..30i64).prop_map(|s| Message::sleep_until(super::t(s))),
        (0..30u64).prop_map(|s| Message::sleep_for(Duration::from_secs(s))),
        Just(Message::sleep_for(Duration::MAX)),
        Just(Message::pause()),
        Just(Message::wait_for_signal("approve")),
        (1..30i64).prop_map(|s| Message::wait_for_signal("approve").deadline(super::t(s))),
        (0..30u64).prop_map(|s| Message::wait_for_signal("approve").within(Duration::from_secs(s))),
        Just(Message::release()),
        Just(Message::checkpoint()),
        prop_oneof![Just(""), Just("no")].prop_map(Message::error),
        prop_oneof![Just(""), Just("never")].prop_map(Message::fail),
        Just(Message::complete()),
        (0..120usize).prop_map(|n| Message::complete_with("r".repeat(n))),
        Just(Message::kill()),
    ];
    (action, option::weighted(0.3, 0..120usize)).prop_map(|(message, data)| match data {
        Some(n) => message.with_data(&"d".repeat(n)),
        None => message,
    })
}

pub(crate) fn fence() -> impl Strategy<Value = Fence> {
    any::<u64>().prop_map(Fence)
}
