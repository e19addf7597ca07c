use std::time::Duration;

use windlass_statemachine::{IfExists, StateKind, TaskState, TaskStatus};

use super::*;
use crate::store::rules::facts::Present;

const HOUR: Duration = Duration::from_secs(3600);

fn at(second: i64) -> Timestamp {
    Timestamp::new(second, 0).unwrap()
}

fn task(id: &str, kind: &str) -> Task {
    let mut task = Task::new(id.parse().unwrap(), kind.parse().unwrap());
    task.unique = Some(Unique::new("mail", HOUR).unwrap());
    task
}

fn completed() -> TaskState {
    let mut state = TaskState::new(at(0));
    state.status = TaskStatus::Completed { result: None };
    state
}

/// What is known when task `a` of kind `k` has the key and is in this state.
fn facts(code: Option<StateKind>) -> Facts {
    let holder = task("a", "k");
    let mut present = Present::submitted(&holder, at(0));
    match code {
        None => present.state = Err("no JSON".to_owned()),
        Some(StateKind::Completed) => {
            present.has_ended = true;
            present.state = Ok(completed());
        }
        Some(_) => {}
    }
    let mut facts = Facts::default();
    facts.tasks.insert(holder.id.clone(), present);
    take(&holder, &mut facts, at(0));
    facts
}

fn decided(facts: &Facts, task: Task, if_exists: IfExists, second: i64) -> String {
    match decide(&Submit { task, if_exists }, facts, at(second)) {
        Ok(None) => "free".into(),
        Ok(Some(Held::Updated(_))) => "updated".into(),
        Ok(Some(Held::Accepted(Submitted::Other { task, state }))) => format!("{task} {state}"),
        Err(Error::NotUnique { key, task, until }) => format!("{key} {task} {}", until.as_second()),
        Err(Error::Corrupt { .. }) => "corrupt".into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rule_of_a_taken_key_is_that_of_a_taken_id() {
    use IfExists::{Refuse, ReplaceFinished, ReplaceWaiting, Same, Skip};
    let (live, ended) = (Some(StateKind::Runnable), Some(StateKind::Completed));
    for (if_exists, kind, code, expected) in [
        (Refuse, "k", live, "mail a 3600"),
        (Refuse, "k", ended, "mail a 3600"),
        (Refuse, "k", None, "mail a 3600"),
        (Same, "k", live, "a runnable"),
        (Same, "k", ended, "a completed"),
        (Same, "k", None, "corrupt"),
        (Same, "other", live, "mail a 3600"),
        (Skip, "other", live, "a runnable"),
        (Skip, "other", None, "corrupt"),
        (ReplaceFinished, "k", live, "mail a 3600"),
        (ReplaceFinished, "k", ended, "free"),
        (ReplaceWaiting, "k", live, "updated"),
        (ReplaceWaiting, "other", live, "mail a 3600"),
        (ReplaceWaiting, "k", ended, "free"),
    ] {
        let got = decided(&facts(code), task("b", kind), if_exists, 1);
        assert_eq!(got, expected, "{if_exists:?} {kind} {code:?}");
    }
}

#[test]
fn a_key_is_free_when_its_time_is_over_and_when_its_task_is_gone() {
    let there = facts(Some(StateKind::Runnable));
    let free_at = |second| decided(&there, task("b", "k"), IfExists::Refuse, second);
    assert_eq!(free_at(3599), "mail a 3600");
    assert_eq!(free_at(3600), "free");
    let mut gone = facts(Some(StateKind::Runnable));
    gone.tasks.clear();
    assert_eq!(decided(&gone, task("b", "k"), IfExists::Refuse, 1), "free");
    // The rule of the id has already decided about the task itself.
    assert_eq!(decided(&there, task("a", "k"), IfExists::Refuse, 1), "free");
    let mut without = task("b", "k");
    without.unique = None;
    assert_eq!(decided(&there, without, IfExists::Refuse, 1), "free");
}

#[test]
fn a_period_beyond_all_times_ends_with_them() {
    let unique = Unique::new("mail", HOUR).unwrap();
    assert_eq!(until(&unique, Timestamp::MAX), Timestamp::MAX);
}

#[test]
fn a_key_is_not_held_for_long_by_a_clock_that_was_ahead() {
    let second = Duration::from_secs(1);
    let is_held_for = |left: i64, within| is_held(at(1_000_000 + left), within, at(1_000_000));
    assert!(!is_held_for(0, 2 * second) && is_held_for(1, 2 * second));
    assert!(is_held_for(62, 2 * second) && !is_held_for(63, 2 * second));
    assert!(!is_held_for(24 * 3600, 2 * second), "a clock a day ahead");
    let week = 7 * 24 * HOUR;
    let days = |days: i64| days * 24 * 3600;
    assert!(is_held_for(days(7), week));
    assert!(is_held_for(days(8), week), "this clock may be a day behind");
    assert!(!is_held_for(days(15), week));
    assert!(!is_held(Timestamp::MAX, MAX_UNIQUE, at(0)));
    assert!(!is_held(Timestamp::MIN, MAX_UNIQUE, Timestamp::MAX));
}
