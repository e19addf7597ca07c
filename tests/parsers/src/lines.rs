//! Operations, messages of handlers, tasks and retry policies as people and programs write them.

use std::{collections::BTreeMap, str};

use jiff::Timestamp;
use serde::de::IgnoredAny;
use windlass::{
    CommandId, Invalid, Message, Task,
    statemachine::wire::{Line, TaskForm, read_message, read_retry},
};

use crate::names_a_field;

/// The id of a command that has none.
fn new_id() -> Result<CommandId, Invalid> {
    CommandId::new("new")
}

/// Fails: what is written has the id of each command.
fn no_id() -> Result<CommandId, Invalid> {
    panic!("an id was left out")
}

/// Reads a text in each form. Returns whether one of them accepts it.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    [operation(text), message(text), task(text), policy(text)].contains(&true)
}

/// Both readers of operations take the same line. The reader without a clock refuses relative times.
fn operation(text: &str) -> bool {
    let absolute = Line::read(text, new_id);
    let line = match Line::read_at(text, Timestamp::UNIX_EPOCH, new_id) {
        Ok(line) => line,
        Err(refused) => {
            names_a_field(&refused);
            assert!(absolute.is_err(), "{text}: {refused}");
            return false;
        }
    };
    match absolute {
        Ok(absolute) => assert_eq!(absolute, line),
        Err(refused) => names_a_field(&refused),
    }
    for unknown in with_another_field(text) {
        let read = Line::read(&unknown, new_id);
        assert!(read.is_err(), "{unknown}: {read:?}");
    }
    let again = |text: &str| Line::read(text, no_id);
    match line {
        Line::Operation(operation) => {
            let text = serde_json::to_string(&operation).unwrap();
            assert_eq!(again(&text), Ok(Line::Operation(operation)), "{text}");
        }
        Line::Guards(guards) => {
            for guard in guards {
                let text = serde_json::to_string(&guard).unwrap();
                assert_eq!(again(&text), Ok(Line::Guards(vec![guard])), "{text}");
            }
        }
    }
    true
}

/// Returns the text of an object with another field, which has no name, or one with a dot.
fn with_another_field(text: &str) -> impl Iterator<Item = String> {
    let fields = text.trim_end().strip_suffix('}').unwrap_or(text);
    ["", "no.field"]
        .map(|name| format!("{fields},\"{name}\":1}}"))
        .into_iter()
}

fn message(text: &str) -> bool {
    let with_effect = |effect: &str| format!(r#"{{"message":"run","effects":[{effect}]}}"#);
    if let Err(refused) = Line::read_at(text, Timestamp::UNIX_EPOCH, new_id)
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
    {
        let read: Result<Message, _> =
            read_message(&with_effect(text), Timestamp::UNIX_EPOCH, new_id);
        assert!(read.is_err(), "{text}: {refused}");
    }
    for unknown in with_another_field(text) {
        let read: Result<Message, _> =
            read_message(&with_effect(&unknown), Timestamp::UNIX_EPOCH, new_id);
        assert!(read.is_err(), "{unknown}: {read:?}");
    }
    let message: Message = match read_message(text, Timestamp::UNIX_EPOCH, new_id) {
        Ok(message) => message,
        Err(refused) => {
            names_a_field(&refused);
            return false;
        }
    };
    let text = serde_json::to_string(&message).unwrap();
    let again = read_message(&text, Timestamp::UNIX_EPOCH, no_id);
    assert_eq!(again, Ok(message), "{text}");
    true
}

fn task(text: &str) -> bool {
    let form = match TaskForm::parse(text) {
        Ok(form) => form,
        Err(refused) => {
            names_a_field(&refused);
            let field = refused.field();
            let fields = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text);
            let is_one = TaskForm::FIELDS.contains(&field) || field == "task";
            // The reader reports an unknown field before it comes to what is no JSON.
            let is_given = fields.map_or(true, |fields| fields.contains_key(field));
            assert!(is_one || is_given, "{text}: {refused}");
            return false;
        }
    };
    let written = serde_json::to_string(&form).unwrap();
    assert_eq!(TaskForm::parse(&written), Ok(form.clone()), "{written}");
    match form.into_task() {
        Ok(task) => {
            let form = TaskForm::from(task.clone());
            assert_eq!(form.into_task(), Ok(task.clone()));
            let stored = serde_json::to_string(&task).unwrap();
            assert_eq!(serde_json::from_str::<Task>(&stored).unwrap(), task);
        }
        Err(refused) => names_a_field(&refused),
    }
    true
}

fn policy(text: &str) -> bool {
    match read_retry(text) {
        Ok(policy) => {
            let written = serde_json::to_string(&policy).unwrap();
            assert_eq!(read_retry(&written), Ok(policy), "{written}");
            true
        }
        Err(reason) => {
            assert!(!reason.is_empty());
            false
        }
    }
}
