//! Every state × every message, against the table as the design states it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{
    Action, ActionKind, Command, ErrorLog, Fence, Json, Message, Outcome, Progress, Signal,
    StateKind, TaskState, TaskStatus, Wake,
    state::{LastCommand, Pause},
    transition,
    transition::{SIGNAL, TABLE},
};

/// The table of the design: rows are states, columns Run, Sleep, Pause, Release, Checkpoint, Error,
/// Complete, Kill. A dash is not a transition.
#[rustfmt::skip] // It reads as a table.
const DESIGN: [(&str, [&str; 8]); 7] = [
    ("runnable",  ["runnable", "sleeping", "paused", "runnable", "runnable", "fault",  "completed", "killed"]),
    ("sleeping",  ["runnable", "sleeping", "paused", "sleeping", "sleeping", "fault",  "completed", "killed"]),
    ("paused",    ["runnable", "sleeping", "paused", "paused",   "paused",   "-",      "completed", "killed"]),
    ("fault",     ["runnable", "sleeping", "paused", "fault",    "-",        "failed", "-",         "killed"]),
    ("completed", ["-"; 8]),
    ("failed",    ["-"; 8]),
    ("killed",    ["-"; 8]),
];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse("test", text).unwrap()
}

fn status(code: StateKind) -> TaskStatus {
    match code {
        StateKind::Runnable => TaskStatus::Runnable,
        StateKind::Sleeping => TaskStatus::Sleeping { until: at(5000) },
        StateKind::Paused => TaskStatus::Paused,
        StateKind::Fault => TaskStatus::Fault,
        StateKind::Completed => TaskStatus::Completed {
            result: Some(json("7")),
        },
        StateKind::Failed => TaskStatus::Failed,
        StateKind::Killed => TaskStatus::Killed,
    }
}

/// A state in which no field has its default.
fn full(code: StateKind) -> TaskState {
    let mut errors = ErrorLog::default();
    errors.push(at(1), "older", 8);
    let mut state = TaskState::new(at(100));
    state.status = status(code);
    state.data = Some(json(r#"{"old":true}"#));
    state.errors = errors;
    state.attempts = 3;
    state.claims = 4;
    state.incarnation = 5;
    state.version = 6;
    state.fence = Fence(7);
    state.last_command = Some(LastCommand::new(
        8,
        Outcome::Overridden {
            by: ActionKind::Sleep,
        },
    ));
    state.progress = Some(Progress::new(Some(0.5), "half"));
    state
}

fn message(kind: ActionKind) -> Message {
    match kind {
        ActionKind::Run => Message::run(),
        ActionKind::Sleep => Message::sleep_until(at(9000)),
        ActionKind::Pause => Message::pause(),
        ActionKind::Release => Message::release(),
        ActionKind::Checkpoint => Message::checkpoint(),
        ActionKind::Error => Message::error("newer"),
        ActionKind::Complete => Message::complete_with(42),
        ActionKind::Kill => Message::kill(),
        ActionKind::Signal => Command::Signal(Signal::new("n")).to_message(),
    }
}

/// What belongs to the state that follows.
fn status_after(from: StateKind, kind: ActionKind, to: StateKind) -> TaskStatus {
    match (to, kind) {
        (StateKind::Sleeping, ActionKind::Sleep) => TaskStatus::Sleeping { until: at(9000) },
        (StateKind::Sleeping, _) => status(from), // the old wake-up time stays
        (StateKind::Completed, _) => TaskStatus::Completed {
            result: Some(json("42")),
        },
        (code, _) => status(code),
    }
}

fn refusal(from: StateKind, kind: ActionKind) -> String {
    match (from, kind) {
        (StateKind::Paused, ActionKind::Error) => {
            "a paused task does not take `error`: only a running handler returns it".into()
        }
        (StateKind::Fault, ActionKind::Checkpoint) => {
            "a task in fault does not take `checkpoint`: its retry policy decides first".into()
        }
        (StateKind::Fault, ActionKind::Complete) => {
            "a task in fault does not take `complete`: its retry policy decides first".into()
        }
        _ => {
            format!("a {from} task does not take `{kind}`: {from} is final (retry starts it again)")
        }
    }
}

#[test]
fn a_signal_wakes_as_run_does_wherever_it_wakes() {
    for code in StateKind::ALL {
        let run = TABLE[code as usize][ActionKind::Run as usize];
        let signal = SIGNAL[code as usize];
        match code {
            StateKind::Fault => assert_eq!(signal, Some(StateKind::Fault)),
            _ => assert_eq!(signal, run, "{code}"),
        }
    }
    assert_eq!(message(ActionKind::Signal), Message::run());
}

#[test]
fn all_56_cells_are_those_of_the_design() {
    let now = at(200);
    let mut illegal = 0;
    for (row, from) in DESIGN.iter().zip(StateKind::ALL) {
        assert_eq!(row.0, from.as_str());
        for (cell, kind) in row.1.iter().zip(ActionKind::ALL) {
            let before = full(from);
            for data in [None, Some(json(r#"{"new":1}"#))] {
                let mut message = message(kind);
                if let Some(data) = &data {
                    message = message.with_json(data.clone());
                }
                let after = transition(&before, &message, now);
                assert_eq!(before, full(from), "the state itself stays");
                let cell_name = format!("{from} + {kind}");
                if *cell == "-" {
                    illegal += 1;
                    let refused = after.expect_err(&cell_name);
                    assert_eq!(refused.to_string(), refusal(from, kind));
                    continue;
                }
                let to: StateKind = cell.parse().unwrap();
                let mut expected = full(from);
                expected.status = status_after(from, kind, to);
                if to != from {
                    expected.since = now;
                }
                // The handler runs again; of a task that has become runnable, since its new state.
                let runs_again = to == from && to == StateKind::Runnable;
                expected.run_since = runs_again.then_some(now);
                let is_pause = kind == ActionKind::Pause;
                let mut pause = Pause::by_handler();
                if let TaskStatus::Sleeping { until } = before.status {
                    pause.until = Some(until);
                }
                expected.paused = is_pause.then(|| Box::new(pause));
                if let Some(data) = data {
                    expected.replace_data(Some(data), now);
                }
                if kind == ActionKind::Error {
                    expected.errors.push(now, "newer", 64);
                }
                assert_eq!(after.as_ref(), Ok(&expected), "{cell_name}");
            }
        }
    }
    assert_eq!(illegal, 2 * 27);
}

#[test]
fn the_public_table_is_that_of_the_design() {
    for (from, (name, row)) in DESIGN.iter().enumerate() {
        assert_eq!(
            StateKind::ALL[from] as usize,
            from,
            "{name}: rows are found by code"
        );
        for (kind, cell) in row.iter().enumerate() {
            assert_eq!(
                ActionKind::ALL[kind] as usize,
                kind,
                "columns are found by kind"
            );
            let expected = (*cell != "-").then(|| cell.parse::<StateKind>().unwrap());
            assert_eq!(
                TABLE[from][kind],
                expected,
                "{name} + {}",
                ActionKind::ALL[kind]
            );
        }
    }
}

#[test]
fn names_read_back() {
    for code in StateKind::ALL {
        assert_eq!(code.as_str().parse(), Ok(code));
        assert_eq!(format!("{code:>10}").trim(), code.as_str());
    }
    for kind in ActionKind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert_eq!(
        "Running".parse::<StateKind>().unwrap_err().to_string(),
        "state: 'Running' is not one of runnable, sleeping, paused, fault, completed, failed, killed"
    );
    assert_eq!(
        "stop".parse::<ActionKind>().unwrap_err().to_string(),
        "message: 'stop' is not one of run, sleep, pause, release, checkpoint, error, complete, kill, signal"
    );
}

#[test]
fn a_sleep_is_counted_from_when_it_is_applied() {
    let message = Message::sleep_for(Duration::from_millis(1500));
    let asleep = transition(&TaskState::new(at(0)), &message, at(10)).unwrap();
    let until = Timestamp::from_millisecond(11_500).unwrap();
    assert_eq!(asleep.status, TaskStatus::Sleeping { until });
    // A time that is past is kept as it is: the task is due.
    let past = transition(&asleep, &Message::sleep_until(at(-5)), at(10)).unwrap();
    assert_eq!(past.due(), Some(at(-5)));
}

#[test]
fn a_sleep_beyond_the_year_9999_is_refused_and_names_the_field() {
    for wait in [Duration::MAX, Duration::from_secs(300_000_000_000)] {
        for from in [
            StateKind::Runnable,
            StateKind::Sleeping,
            StateKind::Paused,
            StateKind::Fault,
        ] {
            let refused = transition(&full(from), &Message::sleep_for(wait), at(200)).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "until: is beyond 9999-12-30T22:00:00Z; sleep for a shorter time"
            );
        }
    }
    assert_eq!(
        Wake::At(Timestamp::MAX).resolve(at(0)),
        Ok(Timestamp::MAX),
        "the last time there is can be slept to"
    );
}

#[test]
fn an_error_without_a_text_is_still_an_entry_but_giving_up_is_not() {
    let fault = transition(&TaskState::new(at(0)), &Message::error(""), at(1)).unwrap();
    assert_eq!(
        fault.errors.last().unwrap().error,
        "(an error without a text)"
    );
    let failed = transition(&fault, &Message::error(""), at(2)).unwrap();
    assert_eq!(
        (failed.code(), failed.errors.total()),
        (StateKind::Failed, 1)
    );
}

#[test]
fn an_error_may_bring_data_and_a_completion_may_bring_no_result() {
    let message = Message::error("no").with_data(&1);
    let fault = transition(&TaskState::new(at(0)), &message, at(1)).unwrap();
    assert_eq!(fault.data, Some(json("1")));
    let done = transition(
        &full(StateKind::Paused),
        &Action::Complete { result: None }.into(),
        at(1),
    );
    assert_eq!(done.unwrap().status, TaskStatus::Completed { result: None });
}
