//! Whether the effects of a transition can be applied, and which of them have to be written.

use std::collections::HashMap;

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Effects, Task, TaskId, message::SendCommand};

use super::{command, size, submit};
use crate::store::Error;

/// What a store knows of a task that an operation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whether the task has ended, or ends in the same write.
    pub(crate) has_ended: bool,
    /// The bytes of its props.
    pub(crate) props: usize,
}

/// What a store knows of the tasks and commands that the operations name, before any of them.
pub(crate) trait Facts {
    /// The task with this id.
    fn task(&self, id: &TaskId) -> Option<Known>;

    /// The task that a command with this id was sent to.
    fn command(&self, id: &CommandId) -> Option<TaskId>;
}

/// What a store writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// A new task. Its id is free.
    Submit(&'a Task),
    /// A new command. Its task is live, or one of the new ones.
    Send(&'a SendCommand),
}

/// When and how large: what the checks compare with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of a task's props, data and result together.
    pub(crate) max_bytes: usize,
    /// The time of the write.
    pub(crate) now: Timestamp,
}

/// Returns what has to be written for the effects, in their order: the tasks, then the commands. A
/// command that is known already needs no write.
///
/// # Errors
///
/// The first refusal; then nothing is written.
pub(crate) fn effects<'a>(
    effects: &'a Effects,
    facts: &impl Facts,
    bounds: Bounds,
) -> Result<Vec<Step<'a>>, Error> {
    let mut plan = Plan {
        facts,
        bounds,
        tasks: HashMap::new(),
        commands: HashMap::new(),
        steps: Vec::with_capacity(effects.submit.len() + effects.send.len()),
    };
    effects
        .submit
        .iter()
        .try_for_each(|task| plan.submit(task))?;
    effects.send.iter().try_for_each(|send| plan.send(send))?;
    Ok(plan.steps)
}

struct Plan<'a, 'f, F> {
    facts: &'f F,
    bounds: Bounds,
    /// The tasks and commands of the earlier steps.
    tasks: HashMap<&'a TaskId, Known>,
    commands: HashMap<&'a CommandId, &'a TaskId>,
    steps: Vec<Step<'a>>,
}

impl<'a, F: Facts> Plan<'a, '_, F> {
    fn task(&self, id: &TaskId) -> Option<Known> {
        let new = self.tasks.get(id).copied();
        new.or_else(|| self.facts.task(id))
    }

    fn submit(&mut self, task: &'a Task) -> Result<(), Error> {
        size::check_task(task, self.bounds.max_bytes)?;
        if let Some(known) = self.task(&task.id) {
            return Err(submit::refused(&task.id, known.has_ended));
        }
        let known = Known {
            has_ended: false,
            props: task.props.len(),
        };
        self.tasks.insert(&task.id, known);
        self.steps.push(Step::Submit(task));
        Ok(())
    }

    fn send(&mut self, send: &'a SendCommand) -> Result<(), Error> {
        let before = self.commands.get(&send.id).map(|task| TaskId::clone(task));
        match before.or_else(|| self.facts.command(&send.id)) {
            Some(task) if task == send.task => return Ok(()),
            Some(task) => return Err(Error::other_command(&send.id, &task)),
            None => {}
        }
        let Known { has_ended, props } = self
            .task(&send.task)
            .ok_or_else(|| Error::no_task(&send.task))?;
        if has_ended {
            return Err(Error::AlreadyFinished(send.task.clone()));
        }
        command::check(&send.command, props, self.bounds.max_bytes, self.bounds.now)?;
        self.commands.insert(&send.id, &send.task);
        self.steps.push(Step::Send(send));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Command, Json};

    use super::*;

    /// `live` and `over` are there; the command `c` was sent to `live`.
    struct World;

    impl Facts for World {
        fn task(&self, id: &TaskId) -> Option<Known> {
            let has_ended = match id.as_str() {
                "live" => false,
                "over" => true,
                _ => return None,
            };
            Some(Known {
                has_ended,
                props: 4,
            })
        }

        fn command(&self, id: &CommandId) -> Option<TaskId> {
            (id.as_str() == "c").then(|| "live".parse().unwrap())
        }
    }

    fn task(id: &str) -> Task {
        Task::new(id.parse().unwrap(), "k".parse().unwrap())
    }

    fn send(task: &str, id: &str, command: Command) -> SendCommand {
        SendCommand {
            task: task.parse().unwrap(),
            id: id.parse().unwrap(),
            command,
        }
    }

    fn planned(submit: &[&str], send: Vec<SendCommand>) -> Result<Vec<String>, String> {
        let effects = Effects {
            submit: submit.iter().map(|id| task(id)).collect(),
            send,
        };
        let bounds = Bounds {
            max_bytes: 20,
            now: Timestamp::UNIX_EPOCH,
        };
        let steps = super::effects(&effects, &World, bounds).map_err(|e| e.to_string())?;
        let name = |step: &Step<'_>| match step {
            Step::Submit(task) => format!("submit {}", task.id),
            Step::Send(send) => format!("send {} to {}", send.id, send.task),
        };
        Ok(steps.iter().map(name).collect())
    }

    #[test]
    fn tasks_come_before_commands_which_may_be_for_them() {
        let sends = vec![
            send("new", "d", Command::Pause),
            send("live", "e", Command::Run),
        ];
        let steps = planned(&["new"], sends).unwrap();
        assert_eq!(steps, ["submit new", "send d to new", "send e to live"]);
    }

    #[test]
    fn a_command_that_is_known_is_not_written_again() {
        let sends = vec![
            send("live", "c", Command::Run),
            send("live", "d", Command::Run),
            send("live", "d", Command::Run),
        ];
        assert_eq!(planned(&[], sends).unwrap(), ["send d to live"]);
    }

    #[test]
    fn each_refusal_names_its_reason() {
        let result = Some(Json::new("result", &"x".repeat(15)).unwrap());
        let until = Timestamp::UNIX_EPOCH;
        for (submit, sends, reason) in [
            (vec!["live"], vec![], "task 'live' exists already"),
            (vec!["over"], vec![], "task 'over' has ended already"),
            (vec!["new", "new"], vec![], "task 'new' exists already"),
            (
                vec![],
                vec![send("new", "d", Command::Run)],
                "task 'new' does not exist",
            ),
            (
                vec![],
                vec![send("over", "d", Command::Run)],
                "task 'over' has ended already",
            ),
            (
                vec!["new"],
                vec![send("new", "c", Command::Run)],
                "command id: 'c' was sent to task 'live' before",
            ),
            (
                vec!["new"],
                vec![
                    send("live", "d", Command::Run),
                    send("new", "d", Command::Run),
                ],
                "command id: 'd' was sent to task 'live' before",
            ),
            (
                vec![],
                vec![send("live", "d", Command::Sleep { until })],
                "until: 1970-01-01T00:00:00Z is in the past",
            ),
            (
                vec![],
                vec![send("live", "d", Command::Complete { result })],
                "result has 21 bytes",
            ),
        ] {
            let refused = planned(&submit, sends).unwrap_err();
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}
