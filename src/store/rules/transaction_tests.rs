//! Tests of the rule of transactions.

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{
    Command, Fence, Json, Kind, StateKind, Task, TaskId, TaskState, TaskStatus,
    message::SendCommand,
};

use std::sync::Arc;

use super::{super::retry::Counted, *};
use crate::store::{ChangeKind, IfExists, Reason, Require, Reschedule, Submit};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn later() -> Timestamp {
    NOW + SignedDuration::from_secs(1)
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

fn task(name: &str) -> Task {
    Task::new(id(name), "k".parse().unwrap())
}

fn present(status: TaskStatus) -> Present {
    let state = TaskState {
        status,
        version: 7,
        ..TaskState::new(NOW)
    };
    Present {
        task: Ok(Arc::new(task("a"))),
        order: 5,
        has_ended: state.code().is_terminal(),
        state: Ok(state),
        quarantine: None,
        is_claimed: false,
        is_lost: false,
        last: Counted {
            version: 7,
            fence: Fence(40),
        },
        props: 4,
    }
}

fn claimed() -> Present {
    Present {
        is_claimed: true,
        ..present(TaskStatus::Runnable)
    }
}

fn quarantined() -> Present {
    Present {
        state: Err("no JSON".into()),
        quarantine: Some("no JSON".into()),
        ..present(TaskStatus::Runnable)
    }
}

fn facts(present: Option<Present>) -> Facts {
    let mut facts = Facts::default();
    facts
        .tasks
        .extend(present.map(|present| (id("a"), present)));
    let known = ("c".parse().unwrap(), (id("a"), 5));
    facts.commands.extend([known]);
    facts
}

const BOUNDS: Bounds = Bounds {
    max_bytes: 20,
    now: NOW,
};

/// Returns the reason of each refusal, in their order.
fn reasons(transaction: &Transaction, facts: &Facts) -> Vec<Reason> {
    let mut facts = facts.clone();
    match decide(transaction, &mut facts, BOUNDS) {
        Ok(_) => Vec::new(),
        Err(Error::Refused(refusals)) => refusals.iter().map(|one| one.reason.clone()).collect(),
        Err(other) => panic!("{other:?}"),
    }
}

fn guarded(require: Require, present: Option<Present>) -> Option<Reason> {
    let transaction = Transaction::new().require(id("a"), require);
    let mut reasons = reasons(&transaction, &facts(present));
    assert!(reasons.len() < 2);
    reasons.pop()
}

fn state_differs(is: StateKind, required: &[StateKind]) -> Option<Reason> {
    let required = required.to_vec();
    Some(Reason::State { is, required })
}

#[test]
fn every_guard_meets_every_task() {
    use Require::{Absent, Exists, Unclaimed};
    let unreadable = || Some(Reason::Unreadable("no JSON".into()));
    let kind = |text: &str| Require::Kind(text.parse::<Kind>().unwrap());
    let runnable = || Some(present(TaskStatus::Runnable));
    let failed = || Some(present(TaskStatus::Failed));
    let (state, fence) = (Require::State, |n| Require::Fence(Fence(n)));
    for (require, present, refused) in [
        (Exists, None, Some(Reason::Missing)),
        (Exists, runnable(), None),
        (Exists, failed(), None),
        (Exists, Some(quarantined()), None),
        (Absent, None, None),
        (Absent, runnable(), Some(Reason::exists())),
        (Absent, failed(), Some(Reason::exists())),
        (Absent, Some(quarantined()), Some(Reason::exists())),
        (state(StateKind::Failed), None, Some(Reason::Missing)),
        (state(StateKind::Failed), failed(), None),
        (
            state(StateKind::Failed),
            runnable(),
            state_differs(StateKind::Runnable, &[StateKind::Failed]),
        ),
        (
            state(StateKind::Runnable),
            Some(quarantined()),
            unreadable(),
        ),
        (Require::Version(7), None, Some(Reason::Missing)),
        (Require::Version(7), runnable(), None),
        (
            Require::Version(6),
            runnable(),
            Some(Reason::Version { is: 7, required: 6 }),
        ),
        (Require::Version(7), Some(quarantined()), unreadable()),
        (fence(40), None, Some(Reason::Missing)),
        (fence(40), Some(quarantined()), None),
        (
            fence(39),
            failed(),
            Some(Reason::Fence {
                is: Fence(40),
                required: Fence(39),
            }),
        ),
        (Require::Order(5), None, Some(Reason::Missing)),
        (Require::Order(5), Some(quarantined()), None),
        (
            Require::Order(4),
            failed(),
            Some(Reason::Order { is: 5, required: 4 }),
        ),
        (kind("k"), None, Some(Reason::Missing)),
        (kind("k"), Some(quarantined()), None),
        (
            kind("l"),
            runnable(),
            Some(Reason::Kind {
                is: "k".parse().unwrap(),
                required: "l".parse().unwrap(),
            }),
        ),
        (Unclaimed, None, Some(Reason::Missing)),
        (Unclaimed, runnable(), None),
        (Unclaimed, failed(), None),
        (Unclaimed, Some(claimed()), Some(Reason::Claimed)),
    ] {
        let text = format!("{require:?} {present:?}");
        assert_eq!(guarded(require, present), refused, "{text}");
    }
}

/// Returns the step of one operation as a word, or the reason of its refusal.
fn stepped(operation: Operation, present: Option<Present>) -> Result<String, Reason> {
    let transaction = Transaction::new().with(operation);
    let mut facts = facts(present);
    match decide(&transaction, &mut facts, BOUNDS) {
        Ok(steps) => Ok(match steps.as_slice() {
            [Step::Known(done)] => format!("{done:?}"),
            [Step::Submit { replaces, .. }] => format!("submit, replaces: {replaces}"),
            [Step::Send(_)] => "send".into(),
            [Step::Delete(_)] => "delete".into(),
            [Step::Retry { state, .. }] => format!("retry as {}", state.code()),
            [
                Step::Reschedule {
                    what: ChangeKind::Rescheduled { from, .. },
                    state,
                    ..
                },
            ] => {
                format!("{from} to {}", state.code())
            }
            other => panic!("{other:?}"),
        }),
        Err(Error::Refused(refusals)) => Err(refusals.iter().next().unwrap().reason.clone()),
        Err(other) => panic!("{other:?}"),
    }
}

fn submit(if_exists: IfExists) -> Operation {
    let task = task("a");
    Operation::Submit(Submit { task, if_exists })
}

fn send(command_id: &str, command: Command) -> Operation {
    Operation::Send(SendCommand::new(
        id("a"),
        command_id.parse().unwrap(),
        command,
    ))
}

#[test]
fn every_operation_meets_every_task() {
    let ended = [StateKind::Completed, StateKind::Failed, StateKind::Killed];
    let waiting = [StateKind::Runnable, StateKind::Sleeping];
    let runnable = || Some(present(TaskStatus::Runnable));
    let sleeping = || Some(present(TaskStatus::Sleeping { until: later() }));
    let paused = || Some(present(TaskStatus::Paused));
    let failed = || Some(present(TaskStatus::Failed));
    let unreadable = || Reason::Unreadable("no JSON".into());
    let pause = || send("d", Command::Pause);
    let forced = Operation::Delete(windlass_statemachine::Delete::new(id("a")).forced());
    let (delete, retry) = (
        Operation::Delete(id("a").into()),
        Operation::Retry(id("a").into()),
    );
    let due = |at| Operation::Reschedule(Reschedule::new(id("a")).due(at));
    let priority = Operation::Reschedule(Reschedule::new(id("a")).priority(3));
    let differs = |is, required: &[StateKind]| {
        let required = required.to_vec();
        Err(Reason::State { is, required })
    };
    let ok = |text: &str| Ok(text.to_owned());
    for (operation, present, expected) in [
        (
            submit(IfExists::Refuse),
            None,
            ok("submit, replaces: false"),
        ),
        (submit(IfExists::Refuse), runnable(), Err(Reason::exists())),
        (submit(IfExists::Refuse), failed(), Err(Reason::finished())),
        (
            submit(IfExists::Same),
            runnable(),
            ok("Submitted(Existing(Runnable))"),
        ),
        (
            submit(IfExists::Same),
            Some(quarantined()),
            Err(unreadable()),
        ),
        (
            submit(IfExists::Skip),
            failed(),
            ok("Submitted(Existing(Failed))"),
        ),
        (
            submit(IfExists::ReplaceFinished),
            failed(),
            ok("submit, replaces: true"),
        ),
        (
            submit(IfExists::ReplaceFinished),
            runnable(),
            Err(Reason::exists()),
        ),
        (pause(), None, Err(Reason::Missing)),
        (pause(), runnable(), ok("send")),
        (pause(), Some(claimed()), ok("send")),
        (pause(), Some(quarantined()), ok("send")),
        (pause(), failed(), Err(Reason::finished())),
        (send("c", Command::Pause), failed(), ok("Sent(5)")),
        (delete.clone(), None, Err(Reason::Missing)),
        (delete.clone(), Some(claimed()), Err(Reason::Claimed)),
        (forced, Some(claimed()), ok("delete")),
        (delete, Some(quarantined()), ok("delete")),
        (retry.clone(), None, Err(Reason::Missing)),
        (retry.clone(), failed(), ok("retry as runnable")),
        (retry.clone(), Some(quarantined()), ok("retry as runnable")),
        (retry, sleeping(), differs(StateKind::Sleeping, &ended)),
        (due(later()), None, Err(Reason::Missing)),
        (due(later()), runnable(), ok("runnable to sleeping")),
        (due(later()), sleeping(), ok("sleeping to sleeping")),
        (due(NOW), sleeping(), ok("sleeping to runnable")),
        (due(later()), paused(), differs(StateKind::Paused, &waiting)),
        (due(later()), failed(), Err(Reason::finished())),
        (due(later()), Some(claimed()), Err(Reason::Claimed)),
        (due(later()), Some(quarantined()), Err(unreadable())),
        (priority.clone(), paused(), ok("paused to paused")),
        (priority, Some(claimed()), Err(Reason::Claimed)),
    ] {
        let text = format!("{operation:?} {present:?}");
        assert_eq!(stepped(operation, present), expected, "{text}");
    }
}

#[test]
fn a_wrong_operation_names_the_field() {
    let until = NOW;
    let field = |operation, present| match stepped(operation, present) {
        Err(Reason::Invalid(invalid)) => invalid.field().to_owned(),
        Err(Reason::TooLarge { field, .. }) => field.to_owned(),
        other => panic!("{other:?}"),
    };
    let runnable = || Some(present(TaskStatus::Runnable));
    assert_eq!(
        field(send("d", Command::Sleep { until }), runnable()),
        "until"
    );
    let result = Some(Json::new("result", &"x".repeat(20)).unwrap());
    assert_eq!(
        field(send("d", Command::Complete { result }), runnable()),
        "result"
    );
    let nothing = Operation::Reschedule(Reschedule::new(id("a")));
    assert_eq!(field(nothing, runnable()), "reschedule");
    let mut large = task("a");
    large.props = Json::new("props", &"x".repeat(20)).unwrap();
    let if_exists = IfExists::Refuse;
    assert_eq!(
        field(
            Operation::Submit(Submit {
                task: large,
                if_exists
            }),
            None
        ),
        "props"
    );
    let mut facts = facts(runnable());
    facts.commands.insert("c".parse().unwrap(), (id("b"), 5));
    let transaction = Transaction::new().with(send("c", Command::Pause));
    let reasons = reasons(&transaction, &facts);
    assert!(matches!(&reasons[..], [Reason::Invalid(i)] if i.field() == "command id"));
}

#[test]
fn every_refusal_is_listed_with_its_place() {
    let transaction = Transaction::new()
        .require(id("a"), Require::Exists)
        .require(id("x"), Require::Exists)
        .delete(id("y"))
        .delete(id("a"))
        .retry(id("z"));
    let mut facts = facts(Some(present(TaskStatus::Runnable)));
    let Err(Error::Refused(refusals)) = decide(&transaction, &mut facts, BOUNDS) else {
        panic!("three tasks do not exist");
    };
    let places: Vec<_> = refusals
        .iter()
        .map(|one| (one.part, one.task.as_str()))
        .collect();
    let expected = [
        (Part::Guard(1), "x"),
        (Part::Operation(0), "y"),
        (Part::Operation(2), "z"),
    ];
    assert_eq!(places, expected);
}

#[test]
fn the_form_is_checked_before_anything_is_read() {
    let text = |transaction: &Transaction| match check(transaction, "memory", 2) {
        Ok(()) => String::new(),
        Err(Error::Invalid(invalid)) => {
            assert_eq!(invalid.field(), "operations");
            invalid.reason().to_owned()
        }
        Err(other) => panic!("{other:?}"),
    };
    let two = Transaction::new().delete(id("a")).delete(id("b"));
    assert_eq!(text(&two), "");
    assert!(text(&Transaction::new()).starts_with("are empty"));
    let three = two.require(id("a"), Require::Exists);
    assert_eq!(
        text(&three),
        "are 3 with the guards; the memory store takes at most 2 in one transaction; split it"
    );
    let twice = Transaction::new()
        .delete(id("a"))
        .with(submit(IfExists::Refuse));
    assert!(text(&twice).starts_with("name task 'a' twice"));
    let other = SendCommand::new(id("b"), "c".parse().unwrap(), Command::Run);
    let one_id = Transaction::new()
        .with(send("c", Command::Pause))
        .send(other);
    assert!(text(&one_id).starts_with("give two commands the id 'c'"));
}

#[path = "transaction_tests/alone.rs"]
mod alone;
