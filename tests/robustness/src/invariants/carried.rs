//! G3: a step and the data of its write are stored together. Each return of a handler of these kinds
//! brings one count more: the count is the number of its steps. This is what a split store promises too:
//! a write that only the state store has is recovered whole, with its step, though nobody got an
//! acknowledgement of it.

use windlass::{
    ActionKind, Code,
    store::{Change, What},
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
    let steps = |commands: bool| {
        let of_handler = move |change: &&Change| match &change.what {
            What::Moved {
                message,
                from: Code::Runnable,
                command,
                ..
            } => *message == carries && command.is_some() == commands,
            _ => false,
        };
        subject.history.iter().filter(of_handler).count() as u64
    };
    let least = steps(false);
    // A handler that returns as a command of the same kind comes makes the step of that command.
    let most = least + steps(true);
    let count = subject.count().unwrap_or(0);
    (!(least..=most).contains(&count)).then(|| {
        format!("its count is {count}; its history has {least} to {most} steps that bring one")
    })
}

#[cfg(test)]
mod tests {
    use windlass::Json;

    use super::super::sample::*;
    use super::*;
    use crate::kinds::Kept;

    fn counted(history: Vec<What>, n: u64) -> Found {
        let mut whole = vec![submitted(), claimed("a", 2)];
        whole.extend(history);
        let mut task = subject(whole);
        task.record.task.kind = "naps".parse().unwrap();
        let data = Json::new("data", &Kept { n }).unwrap();
        task.record.state.as_mut().unwrap().data = Some(data);
        check(&world(task))
    }

    fn sleeps() -> What {
        moved(2, ActionKind::Sleep, Code::Runnable, Code::Sleeping)
    }

    #[test]
    fn a_count_of_the_steps_holds() {
        holds(counted(vec![], 0));
        holds(counted(vec![sleeps(), sleeps()], 2));
        // A retry after a failure brings no count.
        let faults = moved(2, ActionKind::Sleep, Code::Fault, Code::Sleeping);
        holds(counted(vec![sleeps(), faults], 1));
        let both = vec![sleeps(), by_command(3, sleeps())];
        holds(counted(both.clone(), 1));
        holds(counted(both, 2));
    }

    #[test]
    fn data_without_their_step_and_a_step_without_its_data_are_caught() {
        let how = "its history has 1 to 1 steps";
        caught(counted(vec![sleeps()], 2), how);
        caught(counted(vec![sleeps()], 0), how);
        let both = vec![sleeps(), by_command(3, sleeps())];
        caught(counted(both, 3), "its history has 1 to 2 steps");
    }
}
