//! G3: data that a handler returns with a step are stored with that step. Each such return of a handler
//! of these kinds brings one count more, so the count is at most the number of the steps. A handler that
//! stops for a command makes a step without data. What a handler returns after `end_by` brings its data with
//! the failure, and what it returns when a kill is queued brings them with the kill, whatever command comes before that.
//!
//! A split store promises the same: the claim after a crash recovers a write that only the state store
//! has, with its step. Nobody got an acknowledgement of that write, so no other checker misses the step.

use windlass::{
    ActionKind, StateKind,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::world::{Subject, World};

/// The message with which the handlers of a kind return their next count.
fn carries(kind: &str) -> Option<ActionKind> {
    match kind {
        "naps" => Some(ActionKind::Sleep),
        "waits" => Some(ActionKind::Pause),
        _ => None,
    }
}

pub(super) fn check(world: &World) -> Found {
    let wrong = |subject: &Subject| Some((subject.id().clone(), of(subject)?));
    world.subjects.values().filter_map(wrong).collect()
}

fn of(subject: &Subject) -> Option<String> {
    let carries = carries(subject.record.task.kind.as_str())?;
    let ends_by = subject.record.task.end_by.is_some();
    let may_bring = |message| message == carries || (ends_by && message == ActionKind::Error);
    let brings = |change: &&Change| match &change.what {
        ChangeKind::Moved {
            message: ActionKind::Kill,
            command: Some(_),
            ..
        } => true,
        ChangeKind::Moved {
            message,
            from: StateKind::Runnable,
            ..
        } => may_bring(*message),
        _ => false,
    };
    let steps = subject.history.iter().filter(brings).count() as u64;
    let count = subject.count().unwrap_or(0);
    (count > steps)
        .then(|| format!("its count is {count}; its history has {steps} steps that may bring one"))
}

#[cfg(test)]
mod tests {
    use windlass::Json;

    use super::super::sample::*;
    use super::*;
    use crate::kinds::Kept;

    fn counted(history: Vec<ChangeKind>, n: u64) -> Found {
        let mut whole = vec![submitted(), claimed("a", 2)];
        whole.extend(history);
        let mut task = subject(whole);
        task.record.task.kind = "naps".parse().unwrap();
        let data = Json::new("data", &Kept { n }).unwrap();
        task.record.state.as_mut().unwrap().data = Some(data);
        check(&world(task))
    }

    fn sleeps() -> ChangeKind {
        moved(
            2,
            ActionKind::Sleep,
            StateKind::Runnable,
            StateKind::Sleeping,
        )
    }

    #[test]
    fn a_count_of_the_steps_holds() {
        holds(counted(vec![], 0));
        holds(counted(vec![sleeps(), sleeps()], 2));
        holds(counted(vec![sleeps(), by_command(3, sleeps())], 2));
        // The handler returned the second one for a command.
        holds(counted(vec![sleeps(), sleeps()], 1));
    }

    /// Regression: a handler returned its count when a sleep and a kill were queued, and a retry went on from there.
    #[test]
    fn a_kill_keeps_what_its_handler_has_returned() {
        let kill = |from| by_command(4, moved(2, ActionKind::Kill, from, StateKind::Killed));
        let asleep = by_command(3, sleeps());
        holds(counted(vec![asleep, kill(StateKind::Sleeping)], 2));
        let own = moved(2, ActionKind::Kill, StateKind::Runnable, StateKind::Killed);
        caught(counted(vec![sleeps(), own], 2), "its history has 1 steps");
    }

    #[test]
    fn data_without_their_step_are_caught() {
        caught(counted(vec![sleeps()], 2), "its history has 1 steps");
        // A retry after a failure brings no count.
        let faults = moved(2, ActionKind::Sleep, StateKind::Fault, StateKind::Sleeping);
        caught(
            counted(vec![sleeps(), faults], 2),
            "its history has 1 steps",
        );
    }
}
