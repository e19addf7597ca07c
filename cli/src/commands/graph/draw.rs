//! Draws a graph: as trees, as DOT, as JSON.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass::{TaskId, store::TaskRecord};

use super::edges::{Around, Edges};

/// Lines of a tree. A task whose branch was drawn already is drawn without it, with `…`.
struct Tree<'a> {
    edges: &'a Edges,
    /// The tasks that are drawn; `None` for all.
    among: Option<&'a HashSet<&'a TaskId>>,
    /// Below a task are those that it waits for; otherwise those that wait for it.
    is_up: bool,
    drawn: HashSet<TaskId>,
    lines: Vec<String>,
}

impl<'a> Tree<'a> {
    fn below(&self, id: &TaskId) -> Vec<&'a TaskId> {
        let others = match self.is_up {
            true => self.edges.waits(id),
            false => self.edges.waiters(id),
        };
        let among = self.among;
        let others = others.iter();
        others
            .filter(|id| among.is_none_or(|among| among.contains(id)))
            .collect()
    }

    /// Draws tasks and what is below them. A graph may be deep, so it is no recursion.
    fn draw(&mut self, tasks: &[&'a TaskId], depth: usize) {
        let mut stack: Vec<(&TaskId, usize)> = tasks.iter().rev().map(|id| (*id, depth)).collect();
        while let Some((id, depth)) = stack.pop() {
            let below = self.below(id);
            let is_again = !self.drawn.insert(id.clone()) && !below.is_empty();
            let more = if is_again { "  …" } else { "" };
            let (indent, state) = ("  ".repeat(depth), self.edges.state(id));
            self.lines.push(format!("{indent}{id}  {state}{more}"));
            if !is_again {
                stack.extend(below.into_iter().rev().map(|id| (id, depth + 1)));
            }
        }
    }
}

/// Draws the tasks that a task waits for, and those that wait for it.
pub(super) fn text(edges: &Edges, around: &Around, id: &TaskId) -> String {
    let among: HashSet<&TaskId> = around.tasks.iter().collect();
    let mut lines = vec![format!("{id}  {}", edges.state(id))];
    for (title, is_up) in [("waits for", true), ("is waited for by", false)] {
        let mut tree = Tree {
            edges,
            among: Some(&among),
            is_up,
            drawn: HashSet::new(),
            lines: Vec::new(),
        };
        let below = tree.below(id);
        if !below.is_empty() {
            tree.draw(&below, 2);
            lines.push(format!("  {title}"));
            lines.extend(tree.lines);
        }
    }
    lines.join("\n")
}

/// Draws tasks: below each those that wait for it.
pub(super) fn forest(edges: &Edges, records: &[TaskRecord]) -> String {
    let ids: HashSet<&TaskId> = records.iter().map(|record| &record.task.id).collect();
    let is_root = |id: &TaskId| !edges.waits(id).iter().any(|other| ids.contains(other));
    let roots = records.iter().map(|record| &record.task.id);
    let roots: Vec<&TaskId> = roots.filter(|id| is_root(id)).collect();
    let mut tree = Tree {
        edges,
        among: Some(&ids),
        is_up: false,
        drawn: HashSet::new(),
        lines: Vec::new(),
    };
    tree.draw(&roots, 0);
    // Tasks that wait for each other in a circle have no root among them, and neither have those behind them.
    for record in records {
        let id = &record.task.id;
        if !tree.drawn.contains(id) {
            tree.draw(&[id], 0);
        }
    }
    tree.lines.join("\n")
}

/// Returns each edge between these tasks: the task that waits, and the other.
fn between<'a>(edges: &'a Edges, around: &'a Around) -> Vec<(&'a TaskId, &'a TaskId)> {
    let among: HashSet<&TaskId> = around.tasks.iter().collect();
    let of = |id: &'a TaskId| edges.waits(id).iter().map(move |other| (id, other));
    let all = around.tasks.iter().flat_map(of);
    all.filter(|(_, other)| among.contains(other)).collect()
}

pub(super) fn json(edges: &Edges, around: &Around) -> Value {
    let tasks = around.tasks.iter();
    let tasks = tasks.map(|id| json!({"id": id, "state": edges.state(id)}));
    let between = between(edges, around).into_iter();
    let between = between.map(|(id, other)| json!({"task": id, "waits_for": other}));
    json!({
        "tasks": tasks.collect::<Vec<_>>(),
        "edges": between.collect::<Vec<_>>(),
        "is_cut": around.is_cut,
    })
}

pub(super) fn dot(edges: &Edges, around: &Around) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = vec!["digraph tasks {".to_owned(), "  rankdir=LR;".to_owned()];
    for id in &around.tasks {
        let label = format!("{id}\n{}", edges.state(id));
        let label = quoted(&label).replace('\n', "\\n");
        lines.push(format!("  {} [label={label}];", quoted(id.as_str())));
    }
    for (id, other) in between(edges, around) {
        let (id, other) = (quoted(id.as_str()), quoted(other.as_str()));
        lines.push(format!("  {other} -> {id};"));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}
