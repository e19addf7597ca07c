//! Every command that a node was sent has an answer, or the lease of the node has ended.

use windlass::TaskId;

use super::Found;
use crate::{
    node_commands::{End, Ordered},
    world::World,
};

pub(super) fn check(world: &World) -> Found {
    let sent = world.promised.node_commands.iter();
    sent.filter_map(|sent| Some((named(sent)?, wrong(sent)?)))
        .collect()
}

/// What a violation names instead of a task: the place of the command.
fn named(sent: &Ordered) -> Option<TaskId> {
    TaskId::new(format!("node-command-{}", sent.order)).ok()
}

fn wrong(sent: &Ordered) -> Option<String> {
    let (node, order, command) = (&sent.node, sent.order, &sent.command);
    match &sent.end {
        End::Waits => Some(format!("{node} did not answer {command:?} ({order})")),
        End::Forgotten => Some(format!(
            "{command:?} ({order}) is gone without an answer; {node} lives"
        )),
        End::Answered(answer) if answer.is_empty() => Some(format!(
            "{node} answered {command:?} ({order}) with nothing"
        )),
        End::Answered(_) | End::Gone => None,
    }
}

#[cfg(test)]
mod tests {
    use windlass::store::{NodeCommand, NodeCommandId};

    use super::super::sample::*;
    use super::*;

    fn sent(end: End) -> World {
        let mut world = World::default();
        world.promised.node_commands.push(Ordered {
            node: "n".parse().unwrap(),
            lease: 1,
            order: NodeCommandId(7),
            command: NodeCommand::StopTask { task: id() },
            end,
        });
        world
    }

    #[test]
    fn an_answer_and_a_node_that_is_gone_hold() {
        holds(check(&sent(End::Answered("balanced: 0".into()))));
        holds(check(&sent(End::Gone)));
    }

    #[test]
    fn a_command_without_an_answer_is_caught() {
        caught(check(&sent(End::Waits)), "n did not answer");
        caught(check(&sent(End::Forgotten)), "gone without an answer");
        caught(check(&sent(End::Answered(String::new()))), "with nothing");
    }
}
