use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{
    Command, CommandId, Fence, IfExists, Limit, Require, Reschedule, Retry, Signal, StateKind,
    Submit, Task, TaskId, TransactionId, Unique, Waits, message::SendCommand, task::Labels,
};

use super::*;

fn id() -> TaskId {
    "a".parse().unwrap()
}

fn json(text: &str) -> Json {
    Json::parse("props", text).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn new() -> Transaction {
    Transaction::new().with_id(TransactionId::new("t").unwrap())
}

fn send(command: Command) -> Transaction {
    sent_as("c", command)
}

fn sent_as(command_id: &str, command: Command) -> Transaction {
    new().send(SendCommand::new(
        id(),
        CommandId::new(command_id).unwrap(),
        command,
    ))
}

fn submit(change: impl Fn(&mut Submit)) -> Transaction {
    let mut submit = Submit::from(Task::new(id(), "k".parse().unwrap()));
    change(&mut submit);
    new().submit(submit)
}

fn waits(of: &[&str]) -> Waits {
    Waits::new("after", of.iter().copied()).unwrap()
}

/// Returns a transaction for each value of each field of each operation. If a type gets a new field or variant,
/// this does not compile until the list includes it.
fn operations() -> Vec<Transaction> {
    let name_each = |operation: &Operation| match operation {
        Operation::Submit(Submit { task, if_exists }) => {
            let Task {
                id: _,
                kind: _,
                props: _,
                start_at: _,
                priority: _,
                labels: _,
                retry: _,
                waits: _,
                limits: _,
                start_by: _,
                end_by: _,
                unique: _,
                // Ignored: `what_a_program_computes_again_does_not_count`.
                meta: _,
                free_id: _,
                paused: _,
            } = task;
            match if_exists {
                IfExists::Refuse
                | IfExists::Same
                | IfExists::ReplaceFinished
                | IfExists::ReplaceWaiting
                | IfExists::Skip => {}
            }
        }
        Operation::Send(SendCommand {
            task: _,
            id: _,
            command,
            note: _,
            ..
        }) => match command {
            Command::Run
            | Command::Sleep { until: _ }
            | Command::Pause
            | Command::Release
            | Command::Checkpoint
            | Command::Complete { result: _ }
            | Command::Kill
            | Command::Signal(_) => {}
        },
        // The wire form of a reschedule names each of its fields.
        Operation::Delete(_) | Operation::Retry(_) | Operation::Reschedule(_) => {}
    };
    let mut all = vec![
        submit(|_| {}),
        submit(|s| s.task.id = "b".parse().unwrap()),
        submit(|s| s.task.kind = "k2".parse().unwrap()),
        submit(|s| s.task.props = json("1")),
        submit(|s| s.task.props = json("12345678901234567890123")),
        submit(|s| s.task.props = json("12345678901234567890124")),
        submit(|s| s.task.start_at = Some(at(1))),
        submit(|s| s.task.priority = 1),
        submit(|s| s.task.labels = Labels::from([("team".into(), "a".into())])),
        submit(|s| s.task.labels = Labels::from([("team".into(), "b".into())])),
        submit(|s| s.task.retry = Some(Retry::Never)),
        submit(|s| s.task.retry = Some(Retry::Abandoned)),
        submit(|s| s.task.retry = Some(Retry::exponential(3, Duration::from_secs(1)))),
        submit(|s| s.task.retry = Some(Retry::exponential(4, Duration::from_secs(1)))),
        submit(|s| s.task.waits = Some(Box::new(waits(&["b"])))),
        submit(|s| s.task.waits = Some(Box::new(waits(&["b", "c"])))),
        submit(|s| s.task.waits = Some(Box::new(waits(&["b"]).ok()))),
        submit(|s| {
            let mut waits = waits(&["b"]);
            waits.deadline = Some(at(1));
            s.task.waits = Some(Box::new(waits));
        }),
        submit(|s| s.task.limits = vec![Limit::at_once("api", 1).unwrap()]),
        submit(|s| s.task.limits = vec![Limit::at_once("api", 2).unwrap()]),
        submit(|s| s.task.limits = vec![Limit::starts("api", 2, Duration::from_secs(1)).unwrap()]),
        submit(|s| s.task.limits = vec![Limit::starts("api", 2, Duration::from_secs(2)).unwrap()]),
        submit(|s| s.task.start_by = Some(at(1))),
        submit(|s| s.task.end_by = Some(at(1))),
        submit(|s| s.task.unique = Some(Unique::new("u", Duration::from_secs(1)).unwrap())),
        submit(|s| s.task.unique = Some(Unique::new("u", Duration::from_secs(2)).unwrap())),
        submit(|s| s.task.free_id = true),
        submit(|s| s.task.paused = true),
        submit(|s| s.if_exists = IfExists::Same),
        submit(|s| s.if_exists = IfExists::ReplaceFinished),
        submit(|s| s.if_exists = IfExists::ReplaceWaiting),
        submit(|s| s.if_exists = IfExists::Skip),
        send(Command::Run),
        send(Command::Sleep { until: at(1) }),
        send(Command::Pause),
        send(Command::Release),
        send(Command::Checkpoint),
        send(Command::Kill),
        send(Command::Complete { result: None }),
        send(Command::Complete {
            result: Some(json("null")),
        }),
        send(Command::Complete {
            result: Some(json("1")),
        }),
        send(Command::Signal(Signal::new("go"))),
        send(Command::Signal(Signal::new("stop"))),
        send(Command::Signal(Signal::new("go").with_json(json("1")))),
        new().delete(id()),
        new().delete("b".parse().unwrap()),
        new().delete(id()).delete("b".parse().unwrap()),
        new().delete("b".parse().unwrap()).delete(id()),
        new().retry(id()),
        new().reschedule(Reschedule::new(id())),
        new().reschedule(Reschedule::new(id()).due(at(1))),
        new().reschedule(Reschedule::new(id()).priority(1)),
        new().reschedule(Reschedule::new(id()).priority(2)),
        new().reschedule(Reschedule::new(id()).limits([])),
        new().reschedule(Reschedule::new(id()).limits([Limit::at_once("k", 1).unwrap()])),
        new().reschedule(Reschedule::new(id()).limits([Limit::at_once("k", 2).unwrap()])),
        new().reschedule(Reschedule::new(id()).data(json("null"))),
        new().reschedule(Reschedule::new(id()).data(json("1"))),
        new().reschedule(Reschedule::new(id()).data(json("2"))),
    ];
    let given = all.iter().flat_map(Transaction::operations);
    given.for_each(name_each);
    all.extend(
        requires()
            .into_iter()
            .map(|require| new().require(id(), require)),
    );
    all
}

/// Returns a guard for each value of each variant. Like [`operations`], it does not compile without
/// a new one.
fn requires() -> Vec<Require> {
    let all = vec![
        Require::Exists,
        Require::Absent,
        Require::State(StateKind::Paused),
        Require::State(StateKind::Sleeping),
        Require::Version(1),
        Require::Version(2),
        Require::Fence(Fence(1)),
        Require::Fence(Fence(2)),
        Require::Order(1),
        Require::Order(2),
        Require::Kind("k".parse().unwrap()),
        Require::Kind("k2".parse().unwrap()),
        Require::Unclaimed,
        Require::Data(None),
        Require::Data(Some(json("1"))),
    ];
    all.iter().for_each(|require| match require {
        Require::Exists
        | Require::Absent
        | Require::State(_)
        | Require::Version(_)
        | Require::Fence(_)
        | Require::Order(_)
        | Require::Kind(_)
        | Require::Unclaimed
        | Require::Data(_) => {}
    });
    all
}

#[test]
fn every_field_of_every_operation_and_guard_counts() {
    let all = operations();
    let fingerprints: Vec<_> = all.iter().map(Transaction::fingerprint).collect();
    for (n, one) in all.iter().enumerate() {
        for (m, other) in fingerprints.iter().enumerate() {
            let checked = one.check_repeats(other);
            assert_eq!(checked.is_ok(), n == m, "{one:?} {:?}", all[m]);
        }
        let another = "1-00112233445566ff";
        assert!(one.check_repeats(another).is_ok(), "of another version");
    }
    let refused = all[0].check_repeats(&fingerprints[1]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "transaction id: 't' was applied with other operations or guards; give each transaction an id of its own"
    );
}

#[test]
fn what_a_program_computes_again_does_not_count() {
    let later = |second| {
        let with_waits = submit(|s| {
            let mut waits = waits(&["b"]);
            waits.deadline = Some(at(second));
            s.task.waits = Some(Box::new(waits));
        });
        [
            submit(|s| s.task.start_at = Some(at(second))),
            submit(|s| s.task.start_by = Some(at(second))),
            submit(|s| s.task.end_by = Some(at(second))),
            submit(|s| s.task.meta = [("trace".into(), second.to_string())].into()),
            with_waits,
            new().reschedule(Reschedule::new(id()).due(at(second))),
            sent_as(&format!("c{second}"), Command::Sleep { until: at(second) }),
        ]
        .map(|one| one.fingerprint())
    };
    assert_eq!(later(1), later(2));
    let props = |text| submit(|s| s.task.props = json(text)).fingerprint();
    assert_eq!(props(r#"{"a":1,"b":2}"#), props(r#"{ "b": 2, "a": 1 }"#));
    assert_eq!(
        new().delete(id()).never().fingerprint(),
        new().delete(id()).fingerprint()
    );
    // What a transaction was compared with may be another state when it is repeated.
    assert_eq!(
        new()
            .compared(id(), Require::Absent)
            .delete(id())
            .fingerprint(),
        new().delete(id()).fingerprint()
    );
}

#[test]
fn a_stored_fingerprint_is_that_of_every_version() {
    let mut requires = requires();
    // The first versions have no such guard.
    requires.retain(|require| !matches!(require, Require::Order(_)));
    // Data that is null is as good as none.
    let last = requires.len() - 1;
    requires.insert(last, Require::Data(Some(json("null"))));
    let stored = [
        submit(|s| {
            s.task.props = json(r#"{"n":1}"#);
            s.task.retry = Some(Retry::Never);
            s.if_exists = IfExists::ReplaceFinished;
        }),
        send(Command::Signal(Signal::new("go").with_json(json("1")))),
        new().delete(id()).retry("b".parse().unwrap()),
        new().reschedule(Reschedule::new(id()).due(at(1)).priority(1).data(json("1"))),
        requires
            .into_iter()
            .fold(new(), |all, require| all.require(id(), require)),
    ]
    .map(|one| one.fingerprint());
    assert_eq!(
        stored,
        [
            "3-19aaace5f214ab06",
            "3-975c82eb120c60ba",
            "3-ea276b05f1815f21",
            "3-d711002fa0c4dada",
            "3-d776a93185617bec"
        ]
    );
}
