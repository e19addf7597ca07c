//! What stores keep, to the letter. A change here is a change of the format: old records must
//! still read.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

mod foreign;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use windlass_statemachine::{
    ActionKind, AwaitedSignal, Command, ErrorEntry, ErrorLog, Fence, Json, Message, Outcome,
    Progress, Retry, StateKind, Task, TaskState, TaskStatus, WaitOutcome, Waits,
    state::{LastCommand, Pause, Report},
};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn json(text: &str) -> Json {
    Json::parse("test", text).unwrap()
}

/// Writes as `text`, and reads back from it as the same value.
fn golden<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, text: &str) {
    assert_eq!(serde_json::to_string(value).unwrap(), text);
    assert_eq!(&serde_json::from_str::<T>(text).unwrap(), value);
    assert_eq!(
        &serde_json::from_slice::<T>(text.as_bytes()).unwrap(),
        value
    );
}

fn full(status: TaskStatus) -> TaskState {
    let mut errors = ErrorLog::default();
    for n in 1..=3 {
        errors.push(time("2030-01-01T00:00:00.5Z"), format!("no {n}"), 2);
    }
    let mut state = TaskState::new(time("2030-01-02T03:04:05.000000006Z"));
    state.status = status;
    let replaced = time("2030-01-01T00:00:00.000001Z");
    for data in [
        "\"".to_owned() + &"x".repeat(200) + "\"",
        "[1.10]".to_owned(),
    ] {
        state.replace_data(Some(json(&data)), replaced);
    }
    state.replace_data(
        Some(json(r#"{"page":123456789012345678901234567890,"f":1.10}"#)),
        replaced,
    );
    state.delivered(u64::MAX, replaced);
    state.data_version = 3;
    state.errors = errors;
    state.attempts = 2;
    state.attempts_left = Some(6);
    state.claims = 3;
    state.incarnation = 4;
    state.version = u64::MAX;
    state.fence = Fence(9_007_199_254_740_993);
    state.last_command = Some(LastCommand::new(
        18_446_744_073_709_551_615,
        Outcome::Applied {
            from: StateKind::Paused,
            to: StateKind::Runnable,
        },
    ));
    state.progress = Some(Progress::new(Some(0.1), "page 7"));
    state
}

const FULL_TAIL: &str = concat!(
    r#""data":{"page":123456789012345678901234567890,"f":1.10},"data_version":3,"#,
    r#""earlier_data":[[1893456000000001,0],[1893456000000001,202],[1893456000000001,6,[1.10]]],"#,
    r#""errors":[{"timestamp":"2030-01-01T00:00:00.5Z","error":"no 2"},"#,
    r#"{"timestamp":"2030-01-01T00:00:00.5Z","error":"no 3"}],"errors_total":3,"#,
    r#""attempts":2,"attempts_left":6,"claims":3,"incarnation":4,"version":18446744073709551615,"#,
    r#""fence":9007199254740993,"#,
    r#""last_command":{"order":18446744073709551615,"outcome":"applied","from":"paused","to":"runnable"},"#,
    r#""deliveries":[[18446744073709551615,1893456000000001]],"#,
    r#""progress":{"fraction":0.1,"text":"page 7"}}"#,
);

fn statuses() -> [(TaskStatus, &'static str, &'static str); 7] {
    let until = time("2031-01-01T00:00:00Z");
    [
        (TaskStatus::Runnable, "runnable", ""),
        (
            TaskStatus::Sleeping { until },
            "sleeping",
            r#""until":"2031-01-01T00:00:00Z","#,
        ),
        (TaskStatus::Paused, "paused", ""),
        (TaskStatus::Fault, "fault", ""),
        (
            TaskStatus::Completed {
                result: Some(json(r#"{"rows":[1,2]}"#)),
            },
            "completed",
            r#""result":{"rows":[1,2]},"#,
        ),
        (TaskStatus::Failed, "failed", ""),
        (TaskStatus::Killed, "killed", ""),
    ]
}

#[test]
fn the_state_of_a_waiting_task() {
    let mut waits = Waits::new("after", ["a", "b"]).unwrap().ok();
    waits.deadline = Some(time("2031-01-01T00:00:00Z"));
    let state = TaskState::new(time("2030-01-01T00:00:00Z")).waiting(waits);
    golden(
        &state,
        r#"{"state":"sleeping","until":"2031-01-01T00:00:00Z","since":"2030-01-01T00:00:00Z","waits":{"tasks":["a","b"],"ok":true,"deadline":"2031-01-01T00:00:00Z"}}"#,
    );
    let over = state.with_outcomes(
        vec![WaitOutcome::Completed, WaitOutcome::Unknown],
        time("2030-01-01T00:00:00Z"),
    );
    golden(
        &over,
        r#"{"state":"runnable","since":"2030-01-01T00:00:00Z","waits":{"tasks":["a","b"],"ok":true,"deadline":"2031-01-01T00:00:00Z","stage":"over","outcomes":["completed","unknown"]}}"#,
    );
}

#[test]
fn the_state_of_a_task_that_waits_for_a_signal() {
    let schema = Json::parse("schema", r#"{"type":"boolean"}"#).unwrap();
    let signal = AwaitedSignal::new("approve")
        .with_text("Deploy?")
        .with_schema(schema);
    let until = time("2031-01-01T00:00:00Z");
    let now = time("2030-01-01T00:00:00Z");
    let message = Message::wait_for_signal(signal).deadline(until);
    let state = windlass_statemachine::transition(&TaskState::new(now), &message, now).unwrap();
    golden(
        &state,
        r#"{"state":"sleeping","until":"2031-01-01T00:00:00Z","since":"2030-01-01T00:00:00Z","awaited_signal":{"name":"approve","text":"Deploy?","schema":{"type":"boolean"},"until":"2031-01-01T00:00:00Z"}}"#,
    );
    golden(
        &state.claimed(Default::default(), None, until),
        r#"{"state":"runnable","since":"2031-01-01T00:00:00Z","claims":1,"version":1,"awaited_signal":{"name":"approve","text":"Deploy?","schema":{"type":"boolean"},"until":"2031-01-01T00:00:00Z","over":true,"expired":true}}"#,
    );
}

#[test]
fn the_state_of_a_remote_workers_task() {
    let mut state = TaskState::new(time("2030-01-01T00:00:00Z"));
    state.version = 9;
    state.run = Some(7);
    let mut report = Report::new(u64::MAX);
    state.report = Some(Box::new(report.clone()));
    golden(
        &state,
        r#"{"state":"runnable","since":"2030-01-01T00:00:00Z","version":9,"run":7,"report":{"n":18446744073709551615}}"#,
    );
    (report.n, report.refused) = (2, Some("too much".into()));
    (state.run, state.report) = (None, Some(Box::new(report)));
    golden(
        &state,
        r#"{"state":"runnable","since":"2030-01-01T00:00:00Z","version":9,"report":{"n":2,"refused":"too much"}}"#,
    );
}

#[test]
fn states_with_every_field() {
    for (status, code, own) in statuses() {
        let (until, result) = if code == "sleeping" {
            (own, "")
        } else {
            ("", own)
        };
        let text = format!(
            r#"{{"state":"{code}",{until}"since":"2030-01-02T03:04:05.000000006Z",{result}{FULL_TAIL}"#
        );
        golden(&full(status), &text);
    }
}

#[test]
fn errors_of_handlers_and_of_lost_nodes() {
    let at = time("2030-01-01T00:00:00.5Z");
    golden(
        &ErrorEntry::new(at, "timed out"),
        r#"{"timestamp":"2030-01-01T00:00:00.5Z","error":"timed out"}"#,
    );
    golden(
        &ErrorEntry::abandoned(at, "n"),
        concat!(
            r#"{"timestamp":"2030-01-01T00:00:00.5Z","error":"the claim was abandoned: node n was lost "#,
            r#"while it had the task","abandoned":true,"node":"n"}"#,
        ),
    );
    let mut named = ErrorEntry::new(at, "timed out");
    (named.node, named.data_version) = ("n1".parse().ok(), Some(3));
    golden(
        &named,
        r#"{"timestamp":"2030-01-01T00:00:00.5Z","error":"timed out","node":"n1","data_version":3}"#,
    );
}

#[test]
fn states_with_the_least() {
    for (status, code, own) in statuses() {
        let (until, result) = if code == "sleeping" {
            (own, "")
        } else {
            ("", own)
        };
        let mut state = TaskState::new(time("2030-01-01T00:00:00Z"));
        state.status = status;
        let text =
            format!(r#"{{"state":"{code}",{until}"since":"2030-01-01T00:00:00Z",{result}}}"#)
                .replace(",}", "}");
        golden(&state, &text);
    }
    let mut done = TaskState::new(time("2030-01-01T00:00:00Z"));
    done.status = TaskStatus::Completed { result: None };
    golden(
        &done,
        r#"{"state":"completed","since":"2030-01-01T00:00:00Z"}"#,
    );
}

#[test]
fn a_null_that_was_given_is_not_the_same_as_nothing() {
    let mut state = TaskState::new(time("2030-01-01T00:00:00Z"));
    state.status = TaskStatus::Completed {
        result: Some(Json::null()),
    };
    state.data = Some(Json::null());
    golden(
        &state,
        r#"{"state":"completed","since":"2030-01-01T00:00:00Z","result":null,"data":null}"#,
    );
    golden(
        &Command::Complete {
            result: Some(Json::null()),
        },
        r#"{"message":"complete","result":null}"#,
    );
}

#[test]
fn progress_in_part() {
    golden(&Progress::default(), "{}");
    let half = Progress::new(Some(0.5), String::new());
    golden(&half, r#"{"fraction":0.5}"#);
    let endless = Progress::new(Some(f64::INFINITY), "x");
    assert_eq!(serde_json::to_string(&endless).unwrap(), r#"{"text":"x"}"#);
}

#[test]
fn who_paused_a_task_and_since_when_it_runs() {
    let mut state = TaskState::new(time("2030-01-02T03:04:05Z"));
    state.run_since = Some(time("2030-01-02T03:05:00Z"));
    golden(
        &state,
        r#"{"state":"runnable","since":"2030-01-02T03:04:05Z","run_since":"2030-01-02T03:05:00Z"}"#,
    );
    state.run_since = None;
    state.status = TaskStatus::Paused;
    for (paused, text) in [
        (Pause::by_handler(), "{}"),
        (
            serde_json::from_str(r#"{"command":7,"by":"alice","note":"it moves"}"#).unwrap(),
            r#"{"command":7,"by":"alice","note":"it moves"}"#,
        ),
        (
            serde_json::from_str(r#"{"command":7,"until":"2030-01-03T00:00:00Z","waited":true}"#)
                .unwrap(),
            r#"{"command":7,"until":"2030-01-03T00:00:00Z","waited":true}"#,
        ),
    ] {
        state.paused = Some(Box::new(paused));
        let text =
            format!(r#"{{"state":"paused","since":"2030-01-02T03:04:05Z","paused":{text}}}"#);
        golden(&state, &text);
    }
}

#[test]
fn last_commands_of_each_outcome() {
    for (outcome, text) in [
        (
            Outcome::Overridden {
                by: ActionKind::Complete,
            },
            r#"{"order":1,"outcome":"overridden","by":"complete"}"#,
        ),
        (
            Outcome::Rejected {
                reason: "no".into(),
            },
            r#"{"order":1,"outcome":"rejected","reason":"no"}"#,
        ),
    ] {
        golden(&LastCommand::new(1, outcome), text);
    }
}

#[test]
fn outcomes_as_people_read_them() {
    let applied = Outcome::Applied {
        from: StateKind::Runnable,
        to: StateKind::Paused,
    };
    let overridden = Outcome::Overridden {
        by: ActionKind::Complete,
    };
    let rejected = Outcome::Rejected {
        reason: "no".into(),
    };
    assert_eq!(applied.to_string(), "applied (runnable → paused)");
    assert_eq!(
        overridden.to_string(),
        "overridden (the handler returned complete)"
    );
    assert_eq!(rejected.to_string(), "rejected: no");
    assert!(applied.is_applied() && !overridden.is_applied() && !rejected.is_applied());
}

/// What a Metafora node (Go) writes: no `since`, times with an offset, none of our own fields.
#[test]
fn a_number_in_a_commands_result_is_not_rounded() {
    golden(
        &Command::Complete {
            result: Some(json("[123456789012345678901234567890, 1.10]")),
        },
        r#"{"message":"complete","result":[123456789012345678901234567890, 1.10]}"#,
    );
}

#[test]
fn a_task_with_every_policy() {
    let mut task = Task::new("a b".parse().unwrap(), "k".parse().unwrap());
    task.props = json(r#"[9007199254740993]"#);
    for (retry, text) in [
        (
            Retry::strikes(),
            r#"{"policy":"strikes","errors":8,"window":"4h","sleep":"10m"}"#,
        ),
        (
            Retry::exponential(3, std::time::Duration::from_millis(1500)),
            r#"{"policy":"exponential","base":"1s","factor":2.0,"cap":"1s 500ms","attempts":3}"#,
        ),
        (
            Retry::default(),
            r#"{"policy":"exponential","base":"1s","factor":2.0,"cap":"5m","attempts":8}"#,
        ),
        (Retry::Never, r#"{"policy":"never"}"#),
        (Retry::Abandoned, r#"{"policy":"abandoned"}"#),
    ] {
        task.retry = Some(retry);
        golden(
            &task,
            &format!(r#"{{"id":"a b","kind":"k","props":[9007199254740993],"retry":{text}}}"#),
        );
    }
}
