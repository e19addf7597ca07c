//! What holds for every state, every document and every order of messages.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

use crate::common::{
    arbitrary, config, json,
    stored::{read_everything, round_trip},
    t, t0,
};
use proptest::{collection::vec, prelude::*};
use windlass_statemachine::{
    ActionKind, Command, CommandId, Invalid, Json, Kind, Machine, Message, NodeName, QueuedCommand,
    Retry, StateKind, TaskId, TaskState, TaskStatus,
    machine::{Env, Input, StopReason, Timer},
    transition,
    transition::{TABLE, TransitionError},
};

/// Feeds one of every input to a machine of this state: it must answer, whatever the state is.
fn run_a_machine(state: TaskState, now: jiff::Timestamp) {
    let mut machine = Machine::new(config(Retry::default()), state, true);
    let env = Env {
        now,
        elapsed: std::time::Duration::ZERO,
        jitter: 0.5,
    };
    let mut out = Vec::new();
    let command = |order, command| {
        Input::Command(QueuedCommand::new(
            CommandId::new("c").unwrap(),
            order,
            command,
        ))
    };
    for input in [
        Input::Begin,
        Input::Timer(Timer::Wake),
        Input::Stored,
        Input::Checkpoint {
            ticket: 1,
            data: Json::null(),
        },
        Input::Stored,
        Input::Returned(Message::error("no")),
        Input::Refused {
            reason: "no".into(),
            retryable: true,
        },
        Input::Stored,
        command(u64::MAX, Command::Kill),
        Input::Stop(StopReason::Drain),
        Input::Timer(Timer::Grace),
        Input::Aborted,
        Input::Stored,
        Input::Fenced(StopReason::LeaseLost),
    ] {
        machine.input(input, env, &mut out);
    }
    assert!(machine.is_done());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn states_round_trip(state in arbitrary::state()) {
        round_trip(&state);
    }

    #[test]
    fn tasks_round_trip(task in arbitrary::task()) {
        round_trip(&task);
    }

    #[test]
    fn commands_round_trip(command in arbitrary::command()) {
        round_trip(&command);
        prop_assert_eq!(command.kind(), command.to_message::<windlass_statemachine::Untyped>().kind());
    }

    #[test]
    fn outcomes_round_trip(outcome in arbitrary::outcome()) {
        round_trip(&outcome);
    }

    /// Integers beyond 64 bits, and the digits of a fraction, come out as they went in.
    #[test]
    fn no_number_is_rounded(digits in "-?[1-9][0-9]{0,80}(\\.[0-9]{1,40})?") {
        let mut state = TaskState::new(t0());
        state.data = Some(json(&format!("{{\"n\":{digits}}}")));
        state.status = TaskStatus::Completed { result: Some(json(&digits)) };
        let text = serde_json::to_string(&state).unwrap();
        let back: TaskState = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back.data, state.data);
        prop_assert_eq!(back.status, TaskStatus::Completed { result: Some(json(&digits)) });
        let command = Command::Complete { result: Some(json(&digits)) };
        let text = serde_json::to_string(&command).unwrap();
        prop_assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    /// Documents that are nearly right: cut, with a byte changed, with a piece of another inside.
    #[test]
    fn damaged_records_are_read_or_refused(
        state in arbitrary::state(), task in arbitrary::task(), command in arbitrary::command(),
        at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(),
        len in 0..20usize, byte in any::<u8>(), how in 0..3,
    ) {
        let texts = [
            serde_json::to_vec(&state).unwrap(),
            serde_json::to_vec(&task).unwrap(),
            serde_json::to_vec(&command).unwrap(),
        ];
        for (n, text) in texts.iter().enumerate() {
            let mut bytes = text.clone();
            let place = at.index(bytes.len());
            match how {
                0 => bytes.truncate(place),
                1 => bytes[place] = byte,
                _ => {
                    let other = &texts[(n + 1) % 3];
                    let start = from.index(other.len());
                    let piece = other[start..].iter().copied().take(len);
                    bytes.splice(place..place, piece);
                }
            }
            read_everything(&bytes);
        }
    }

    /// The right names with the wrong values.
    #[test]
    fn fields_of_a_wrong_type_are_read_or_refused(
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "state", "until", "since", "result", "data", "data_version", "errors", "errors_total", "attempts",
                "claims", "incarnation", "version", "fence", "last_command", "progress", "message",
                "id", "kind", "props", "start_at", "priority", "labels", "retry", "policy", "base",
                "factor", "cap", "sleep", "window", "outcome", "by", "order", "reason",
            ]),
            prop_oneof![
                arbitrary::json().prop_map(|j| j.as_str().to_owned()),
                prop::sample::select(vec![
                    "\"sleeping\"", "\"fault\"", "\"sleep\"", "\"2030-01-02T03:04:05Z\"",
                    "\"exponential\"", "\"strikes\"", "\"applied\"", "{\"policy\":\"never\"}",
                    "{\"order\":1,\"outcome\":\"rejected\",\"reason\":\"\"}", "\"7d\"", "\"99999999999999y\"",
                    "[{\"timestamp\":\"2030-01-02T03:04:05Z\",\"error\":\"\"}]",
                ]).prop_map(str::to_owned),
            ],
            0..8,
        ),
    ) {
        let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        read_everything(format!("{{{}}}", fields.join(",")).as_bytes());
    }

    #[test]
    fn a_machine_takes_any_stored_state(state in arbitrary::state(), now in arbitrary::timestamp()) {
        run_a_machine(state, now);
    }

    #[test]
    fn claims_and_retries_take_any_stored_state(
        state in arbitrary::state(), now in arbitrary::timestamp(), fence in arbitrary::fence(),
    ) {
        let claimed = state.clone().claimed(fence, Some("n"), now);
        prop_assert_eq!(claimed.fence, fence);
        prop_assert_eq!(claimed.claims, state.claims.saturating_add(1));
        prop_assert_eq!(claimed.version, state.version.saturating_add(1));
        prop_assert_eq!(claimed.errors.total(), state.errors.total() + 1);
        let due = matches!(state.status, TaskStatus::Sleeping { until } if until <= now);
        prop_assert_eq!(claimed.code(), if due { StateKind::Runnable } else { state.code() });
        let retried = claimed.clone().retried(now);
        prop_assert_eq!(retried.code(), StateKind::Runnable);
        prop_assert_eq!(retried.attempts, 0);
        prop_assert_eq!(retried.incarnation, state.incarnation.saturating_add(1));
        prop_assert_eq!(&retried.data, &state.data);
        prop_assert_eq!(&retried.errors, &claimed.errors);
    }

    #[test]
    fn names_are_made_or_refused(text in any::<String>()) {
        let ok = TaskId::new(&text).is_ok();
        // A kind may be a path: without its slashes it is a name.
        let parts_are_names = !text.ends_with('*') && text.split('/').all(|part| !["", ".", ".."].contains(&part));
        let is_path = TaskId::new(text.replace('/', "-")).is_ok() && parts_are_names;
        prop_assert_eq!(Kind::new(&text).is_ok(), is_path);
        prop_assert_eq!(NodeName::new(&text).is_ok(), ok);
        prop_assert_eq!(CommandId::new(&text).is_ok(), ok);
        if ok {
            prop_assert!((1..=256).contains(&text.len()) && !text.contains('/'));
            round_trip(&TaskId::new(&text).unwrap());
        }
        let _: Result<StateKind, Invalid> = text.parse();
        let _: Result<ActionKind, Invalid> = text.parse();
        let _ = windlass_statemachine::time::parse("until", &text);
        if let Ok(document) = Json::parse("props", &text) {
            round_trip(&document);
        }
    }

    /// Whatever is said in whatever order: each step is in the table or leaves everything as it
    /// was, and the first terminal state is the last.
    #[test]
    fn sequences_of_messages_follow_the_table(
        start in arbitrary::state(), messages in vec(arbitrary::message(), 1..30),
    ) {
        let mut state = start;
        let mut finished: Option<TaskState> = None;
        for (n, message) in messages.iter().enumerate() {
            let now = t(n as i64);
            let (from, kind) = (state.code(), message.kind());
            match (transition(&state, message, now), TABLE[from as usize][kind as usize]) {
                (Ok(next), Some(to)) => {
                    prop_assert_eq!(next.code(), to);
                    prop_assert_eq!(next.since, if to == from { state.since } else { now });
                    prop_assert_eq!(next.data.as_ref(), message.data().or(state.data.as_ref()));
                    prop_assert!(next.errors.total() >= state.errors.total());
                    prop_assert_eq!(next.version, state.version);
                    state = next;
                }
                (Err(TransitionError::NotInTable { from: f, message: m }), None) => {
                    prop_assert_eq!((f, m), (from, kind));
                }
                (Err(TransitionError::Invalid(why)), Some(_)) => {
                    prop_assert_eq!(kind, ActionKind::Sleep);
                    prop_assert_eq!(why.field(), "until");
                }
                (result, cell) => prop_assert!(false, "{from} + {kind}: {result:?}, not {cell:?}"),
            }
            if let Some(finished) = &finished {
                prop_assert_eq!(&state, finished, "terminal is final");
            } else if state.code().is_terminal() {
                finished = Some(state.clone());
            }
        }
    }

    #[test]
    fn an_error_log_is_bounded_and_counts_them_all(
        texts in vec(any::<String>(), 0..100), keep in 0..200usize,
    ) {
        let mut state = TaskState::new(t0());
        for text in &texts {
            state.errors.push(t0(), text.as_str(), keep);
        }
        prop_assert_eq!(state.errors.total(), texts.len() as u64);
        prop_assert_eq!(state.errors.entries().len(), texts.len().min(keep.clamp(1, 64)));
        prop_assert_eq!(
            state.errors.last().map(|e| e.error.as_str()),
            texts.last().map(String::as_str)
        );
    }
}
