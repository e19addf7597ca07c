//! Tests of the rule of effects.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{
    Command, Effects, Guard, IfExists, Json, Kind, Require, Reschedule, StateKind, Submit, Task,
    TaskState, TaskStatus, message::SendCommand,
};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

fn task(name: &str) -> Task {
    Task::new(id(name), "k".parse::<Kind>().unwrap())
}

fn submit(name: &str, if_exists: IfExists) -> Submit {
    let task = task(name);
    Submit { task, if_exists }
}

fn send(task: &str, command_id: &str) -> SendCommand {
    sending(task, command_id, Command::Pause)
}

fn sending(task: &str, command_id: &str, command: Command) -> SendCommand {
    SendCommand::new(id(task), command_id.parse().unwrap(), command)
}

fn require(task: &str, require: Require) -> Guard {
    let task = id(task);
    Guard { task, require }
}

fn present(status: TaskStatus) -> Present {
    let state = TaskState {
        status,
        ..TaskState::new(NOW)
    };
    Present {
        has_ended: state.code().is_terminal(),
        state: Ok(state),
        ..Present::submitted(&task("x"), NOW)
    }
}

const BOUNDS: Bounds = Bounds {
    max_bytes: 20,
    now: NOW,
};

/// `own` and `live` are live, `over` has failed; the command `c` was sent to `live`, `o` to `over`.
fn facts() -> Facts {
    let mut facts = Facts::default();
    facts.tasks.extend([
        (id("own"), present(TaskStatus::Runnable)),
        (id("live"), present(TaskStatus::Runnable)),
        (id("over"), present(TaskStatus::Failed)),
    ]);
    facts.commands.extend([
        ("c".parse().unwrap(), (id("live"), 5)),
        ("o".parse().unwrap(), (id("over"), 6)),
    ]);
    facts
}

/// Returns each step in words, or each refusal with its place.
fn decided(effects: Effects) -> Result<Vec<String>, Vec<String>> {
    let effects = Transaction::from(effects);
    let word = |step: &Step<'_>| match step {
        Step::Known(_) => "nothing".to_owned(),
        Step::Submit { task, replaces } => format!("submit {}, replaces: {replaces}", task.id),
        Step::Send(send) => format!("send {} to {}", send.id, send.task),
        Step::Delete(delete) => format!("delete {}", delete.task),
        Step::Retry { retry, .. } => format!("retry {}", retry.task),
        Step::Reschedule { change, .. } => format!("reschedule {}", change.task),
    };
    match decide(&effects, &id("own"), &mut facts(), BOUNDS) {
        Ok(steps) => Ok(steps.iter().map(word).collect()),
        Err(Error::Refused(refusals)) => {
            let texts = refusals.iter();
            Err(texts.map(|one| format!("{}: {one}", one.part)).collect())
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn refused(effects: Effects) -> Vec<String> {
    decided(effects).unwrap_err()
}

#[test]
fn every_effect_is_a_step_in_the_order_of_the_fields() {
    let effects = Effects {
        reschedule: vec![Reschedule::new(id("live")).priority(3)],
        retry: vec![id("over").into()],
        send: vec![send("new", "d"), send("own", "e"), send("new", "f")],
        submit: vec![submit("new", IfExists::Refuse)],
        require: vec![
            require("live", Require::State(StateKind::Runnable)),
            require("over", Require::Exists),
        ],
        delete: Vec::new(),
    };
    let expected = [
        "submit new, replaces: false",
        "send d to new",
        "send e to own",
        "send f to new",
        "retry over",
        "reschedule live",
    ];
    assert_eq!(decided(effects).unwrap(), expected);
    let delete = vec![id("live").into(), id("over").into()];
    let effects = Effects {
        delete,
        ..Effects::default()
    };
    assert_eq!(decided(effects).unwrap(), ["delete live", "delete over"]);
}

#[test]
fn a_command_that_is_known_is_not_written_again() {
    let send = vec![send("live", "c"), send("live", "d"), send("live", "d")];
    let effects = Effects {
        send,
        ..Effects::default()
    };
    let expected = ["nothing", "send d to live", "nothing"];
    assert_eq!(decided(effects).unwrap(), expected);
}

#[test]
fn a_submit_follows_its_if_exists() {
    for (name, if_exists, expected) in [
        ("live", IfExists::Same, "nothing"),
        ("live", IfExists::Skip, "nothing"),
        ("over", IfExists::Skip, "nothing"),
        (
            "over",
            IfExists::ReplaceFinished,
            "submit over, replaces: true",
        ),
        ("new", IfExists::Same, "submit new, replaces: false"),
    ] {
        let mut there = facts();
        for name in ["live", "over"] {
            let present = there.tasks.get_mut(&id(name)).unwrap();
            present.task = Ok(Arc::new(task(name)));
        }
        let effects = Transaction::from(Effects {
            submit: vec![submit(name, if_exists)],
            ..Effects::default()
        });
        let steps = decide(&effects, &id("own"), &mut there, BOUNDS).unwrap();
        let step = match &steps[0] {
            Step::Known(_) => "nothing".to_owned(),
            Step::Submit { task, replaces } => format!("submit {}, replaces: {replaces}", task.id),
            other => panic!("{other:?}"),
        };
        assert_eq!(step, expected, "{name} {if_exists:?}");
    }
    // The second submit of one message finds the first.
    let twice = |if_exists| Effects {
        submit: vec![submit("new", IfExists::Refuse), submit("new", if_exists)],
        ..Effects::default()
    };
    let expected = ["submit new, replaces: false", "nothing"];
    assert_eq!(decided(twice(IfExists::Same)).unwrap(), expected);
    let expected = ["effects.submit[1]: task 'new' exists already"];
    assert_eq!(refused(twice(IfExists::Refuse)), expected);
}

#[test]
fn the_commands_of_a_replaced_task_go_with_it() {
    let replaced = |command: &str| Effects {
        submit: vec![submit("over", IfExists::ReplaceFinished)],
        send: vec![send("over", command)],
        ..Effects::default()
    };
    let expected = ["submit over, replaces: true", "send d to over"];
    assert_eq!(decided(replaced("d")).unwrap(), expected);
    let refused = refused(replaced("o"));
    let expected = "effects.send[0]: task 'over': command id: 'o' was sent to task 'over' before";
    assert!(refused[0].starts_with(expected), "{refused:?}");
}

#[test]
fn only_a_command_may_name_the_messages_own_task() {
    let refused = refused(Effects {
        submit: vec![submit("own", IfExists::Skip)],
        send: vec![send("own", "d")],
        delete: vec![id("own").into()],
        retry: vec![id("own").into()],
        reschedule: vec![Reschedule::new(id("own")).priority(1)],
        require: vec![require("own", Require::Exists)],
    });
    let fields = ["require", "submit", "delete", "retry", "reschedule"];
    let own = "task 'own' is the message's own task; return another message, or send it a command";
    assert_eq!(
        refused,
        fields.map(|field| format!("effects.{field}[0]: {own}"))
    );
}

#[test]
fn a_task_has_one_of_delete_retry_and_reschedule_and_nothing_beside_it() {
    let twice = "name the task twice; give a task one of delete, retry and reschedule";
    let later = |name: &str| Reschedule::new(id(name)).priority(1);
    for (effects, field) in [
        (
            Effects {
                delete: vec![id("over").into()],
                retry: vec![id("over").into()],
                ..Effects::default()
            },
            "retry[0]",
        ),
        (
            Effects {
                retry: vec![id("over").into(), id("over").into()],
                ..Effects::default()
            },
            "retry[1]",
        ),
        (
            Effects {
                send: vec![send("live", "d")],
                reschedule: vec![later("live")],
                ..Effects::default()
            },
            "reschedule[0]",
        ),
        (
            Effects {
                submit: vec![submit("new", IfExists::Refuse)],
                delete: vec![id("new").into()],
                ..Effects::default()
            },
            "delete[0]",
        ),
    ] {
        let refused = refused(effects);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(
            refused[0].starts_with(&format!("effects.{field}: task '"))
                && refused[0].contains(twice),
            "{refused:?}"
        );
    }
}

#[test]
fn every_refusal_is_listed_with_its_field_and_its_index() {
    let until = NOW;
    let result = Some(Json::new("result", &"x".repeat(15)).unwrap());
    let refused = refused(Effects {
        submit: vec![
            submit("fine", IfExists::Refuse),
            submit("live", IfExists::Refuse),
            submit("over", IfExists::Refuse),
        ],
        send: vec![
            send("nothing", "d"),
            send("over", "d"),
            send("fine", "c"),
            send("fine", "e"),
            sending("live", "f", Command::Sleep { until }),
            sending("live", "g", Command::Complete { result }),
        ],
        delete: vec![id("gone").into()],
        require: vec![
            require("live", Require::Exists),
            require("live", Require::State(StateKind::Paused)),
        ],
        ..Effects::default()
    });
    let expected = [
        "effects.require[1]: task 'live' is runnable; it must be paused",
        "effects.submit[1]: task 'live' exists already",
        "effects.submit[2]: task 'over' has ended already",
        "effects.send[0]: task 'nothing' does not exist",
        "effects.send[1]: task 'over' has ended already",
        "effects.send[2]: task 'fine': command id: 'c' was sent to task 'live' before",
        "effects.send[4]: task 'live': until: 1970-01-01T00:00:00Z is in the past",
        "effects.send[5]: task 'live': result has 21 bytes",
        "effects.delete[0]: task 'gone' does not exist",
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:#?}");
    for (is, starts) in refused.iter().zip(expected) {
        assert!(is.starts_with(starts), "{is}");
    }
}

#[test]
fn more_effects_than_a_store_takes_are_refused_by_number() {
    let effects = Transaction::from(Effects {
        delete: vec![id("a").into(), id("b").into()],
        require: vec![require("c", Require::Absent)],
        ..Effects::default()
    });
    assert!(check(&effects, "memory", 3).is_ok());
    let Err(Error::Invalid(invalid)) = check(&effects, "memory", 2) else {
        panic!("it has three");
    };
    assert_eq!(
        (invalid.field(), invalid.reason()),
        (
            "effects",
            "are 3 with the guards; the memory store takes at most 2 in one message; spread them over \
             several messages"
        )
    );
}

#[test]
fn a_submit_that_waits_for_its_own_task_is_refused_when_that_waits_for_it() {
    let wait = |of: &str| windlass_statemachine::Waits::new("after", [of]).unwrap();
    let mut child = task("child");
    child.waits = Some(Box::new(wait("own")));
    let effects = Effects {
        submit: vec![Submit {
            task: child,
            if_exists: IfExists::Refuse,
        }],
        ..Effects::default()
    };
    let mut facts = facts();
    let decided = |facts: &mut Facts| {
        let effects = Transaction::from(effects.clone());
        decide(&effects, &id("own"), facts, BOUNDS).map(drop)
    };
    assert!(decided(&mut facts).is_ok());
    let state = TaskState::new(NOW).waiting(wait("child"));
    facts.tasks.get_mut(&id("own")).unwrap().state = Ok(state);
    facts.tasks.remove(&id("child"));
    let refused = decided(&mut facts).unwrap_err().to_string();
    assert!(
        refused.starts_with("after: lets tasks wait for each other"),
        "{refused}"
    );
}
