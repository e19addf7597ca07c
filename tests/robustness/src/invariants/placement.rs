//! A task runs only on nodes that take its kind and its labels.

use std::collections::HashMap;

use windlass::{Task, schedule, store::ChangeKind};

use super::Found;
use crate::{
    kinds, reuse,
    terms::SIDE,
    witness::Said,
    world::{Subject, World},
};

/// What a node takes.
#[derive(Debug, Clone, Copy)]
struct Takes<'a> {
    kinds: &'a [String],
    side: Option<&'a str>,
}

impl Takes<'_> {
    fn kind(&self, kind: &str) -> bool {
        let any = kinds::has(kind) || reuse::KINDS.contains(&kind) || kind == schedule::KIND;
        if self.kinds.is_empty() {
            any
        } else {
            self.kinds.iter().any(|k| k == kind)
        }
    }

    fn task(&self, task: &Task) -> bool {
        let label = task.labels.get(SIDE).map(String::as_str);
        // Nodes run schedules whatever their labels are.
        let is_schedule = task.kind.as_str() == schedule::KIND;
        let fits = is_schedule || self.side.is_none_or(|side| label == Some(side));
        self.kind(task.kind.as_str()) && fits
    }
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    let (mut nodes, mut processes) = (HashMap::new(), HashMap::new());
    for line in &world.witness {
        if let Said::Serves { node, kinds, side } = &line.said {
            let takes = Takes {
                kinds,
                side: side.as_deref(),
            };
            nodes.insert(node.as_str(), takes);
            processes.insert(line.pid, takes);
        }
    }
    for line in &world.witness {
        let (task, kind) = match &line.said {
            Said::Start { task, .. } => (task, None),
            Said::Began { task, kind, .. } => (task, Some(kind.as_str())),
            _ => continue,
        };
        let Some(takes) = processes.get(&line.pid) else {
            let how = format!("process {} ran it and did not say what it takes", line.pid);
            found.push((task.clone(), how));
            continue;
        };
        let fits = match (kind, world.subjects.get(task)) {
            // The id may be another task's by now.
            (Some(kind), _) => takes.kind(kind),
            (None, Some(subject)) => takes.task(&subject.record.task),
            (None, None) => true,
        };
        if !fits {
            let how = format!("process {} ran it and takes only {takes:?}", line.pid);
            found.push((task.clone(), how));
        }
    }
    for (id, subject) in &world.subjects {
        let wrong = claims(subject, &nodes).into_iter();
        found.extend(wrong.map(|how| (id.clone(), how)));
    }
    found
}

/// The claims of nodes that do not take the task and did not release it at once: a node whose view
/// is old may claim a task that has another kind by now.
fn claims(subject: &Subject, nodes: &HashMap<&str, Takes<'_>>) -> Vec<String> {
    let mut wrong = Vec::new();
    let task = &subject.record.task;
    for (at, change) in subject.history.iter().enumerate() {
        let ChangeKind::Claimed { node, fence, .. } = &change.what else {
            continue;
        };
        let fits = match nodes.get(node.as_str()) {
            Some(takes) => takes.task(task),
            // Nodes of the command line say nothing.
            None => task.kind.as_str() == "exec",
        };
        let next = subject.history[at + 1..].iter().map(|c| &c.what);
        let next = next.filter(|what| !matches!(what, ChangeKind::Commanded { .. }));
        let released = match next.into_iter().next() {
            Some(ChangeKind::Dropped { fence: by } | ChangeKind::Lost { fence: by }) => by == fence,
            _ => false,
        };
        if !fits && !released {
            wrong.push(format!("{node} claimed it ({fence}) and does not take it"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    fn serves(kinds: &[&str], side: Option<&str>) -> crate::witness::Line {
        let said = Said::Serves {
            node: "a".parse().unwrap(),
            kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
            side: side.map(str::to_owned),
        };
        line(1, 7, said)
    }

    /// A task of the kind `steps` with the label `side=x`, claimed by the node `a` and run.
    fn ran(kinds: &[&str], side: Option<&str>) -> World {
        let mut task = subject(vec![submitted(), claimed("a", 2), completed(2)]);
        task.record.task.labels.insert(SIDE.into(), "x".into());
        let mut world = world(task);
        world.witness = vec![serves(kinds, side), start(2, 7, 2, 0)];
        world
    }

    #[test]
    fn a_node_that_takes_the_task_holds() {
        holds(check(&ran(&[], None)));
        holds(check(&ran(&["steps"], Some("x"))));
    }

    #[test]
    fn a_run_and_a_claim_of_a_node_that_does_not_take_the_task_are_caught() {
        for world in [ran(&["naps"], None), ran(&[], Some("y"))] {
            let found = check(&world);
            caught(found.clone(), "process 7 ran it");
            caught(found, "a claimed it (2)");
        }
    }

    #[test]
    fn a_claim_that_is_released_at_once_holds() {
        let mut world = ran(&["naps"], None);
        world.witness.truncate(1);
        let subject = world.subjects.get_mut(&id()).unwrap();
        subject.history[2].what = dropped(2);
        holds(check(&world));
    }

    #[test]
    fn a_task_of_the_library_on_the_command_line_is_caught() {
        let history = vec![submitted(), claimed("exec-a", 2), completed(2)];
        caught(check(&of_history(history)), "does not take it");
    }
}
