//! Draws a graph: as trees, as DOT.

use std::collections::HashSet;

use windlass::{
    TaskId,
    client::{Around, Graph},
};

use crate::exit::Failure;

/// The deepest level whose indent grows. Lines below it show their level as a number, so that the text of a chain
/// grows with its length, and not with its square.
const DEEPEST: usize = 40;

/// Draws trees, line by line. A task whose branch was already drawn is drawn without the branch,
/// with `…`.
struct Tree<'a, Line> {
    edges: &'a Graph,
    /// The tasks that are drawn; `None` for all.
    among: Option<&'a HashSet<&'a TaskId>>,
    /// Whether the tree goes down to the tasks that a task waits for, or to those that wait for it.
    is_up: bool,
    drawn: HashSet<&'a TaskId>,
    line: Line,
}

impl<'a, Line: FnMut(String) -> Result<(), Failure>> Tree<'a, Line> {
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

    /// Draws tasks and their branches. A loop, because a graph may be deep.
    fn draw(&mut self, tasks: &[&'a TaskId], depth: usize) -> Result<(), Failure> {
        let mut stack: Vec<(&'a TaskId, usize)> =
            tasks.iter().rev().map(|id| (*id, depth)).collect();
        while let Some((id, depth)) = stack.pop() {
            let below = self.below(id);
            let is_again = !self.drawn.insert(id) && !below.is_empty();
            let more = if is_again { "  …" } else { "" };
            let state = self.edges.shown(id);
            let indent = "  ".repeat(depth.min(DEEPEST));
            let level = match depth > DEEPEST {
                true => format!("[{depth}] "),
                false => String::new(),
            };
            (self.line)(format!("{indent}{level}{id}  {state}{more}"))?;
            if !is_again {
                stack.extend(below.into_iter().rev().map(|id| (id, depth + 1)));
            }
        }
        Ok(())
    }
}

/// Draws the tasks that a task waits for, and those that wait for it.
pub(super) fn text(
    edges: &Graph,
    around: &Around,
    id: &TaskId,
    mut line: impl FnMut(String) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let among: HashSet<&TaskId> = around.tasks.iter().collect();
    line(format!("{id}  {}", edges.shown(id)))?;
    for (title, is_up) in [("waits for", true), ("is waited for by", false)] {
        let mut tree = Tree {
            edges,
            among: Some(&among),
            is_up,
            drawn: HashSet::new(),
            line: &mut line,
        };
        let below = tree.below(id);
        if !below.is_empty() {
            (tree.line)(format!("  {title}"))?;
            tree.draw(&below, 2)?;
        }
    }
    Ok(())
}

/// Draws tasks: below each task, the tasks that wait for it.
pub(super) fn forest(
    edges: &Graph,
    tasks: &[&TaskId],
    line: impl FnMut(String) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ids: HashSet<&TaskId> = tasks.iter().copied().collect();
    let is_root = |id: &TaskId| !edges.waits(id).iter().any(|other| ids.contains(other));
    let roots = tasks.iter().copied();
    let roots: Vec<&TaskId> = roots.filter(|id| is_root(id)).collect();
    let mut tree = Tree {
        edges,
        among: Some(&ids),
        is_up: false,
        drawn: HashSet::new(),
        line,
    };
    tree.draw(&roots, 0)?;
    // Tasks that wait for each other in a circle have no root, and neither have the tasks behind them.
    for id in tasks.iter().copied() {
        if !tree.drawn.contains(id) {
            tree.draw(&[id], 0)?;
        }
    }
    Ok(())
}

pub(super) fn dot(edges: &Graph, around: &Around) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = vec!["digraph tasks {".to_owned(), "  rankdir=LR;".to_owned()];
    for id in &around.tasks {
        let label = format!("{id}\n{}", edges.shown(id));
        let label = quoted(&label).replace('\n', "\\n");
        lines.push(format!("  {} [label={label}];", quoted(id.as_str())));
    }
    for (id, other) in edges.between(around) {
        let (id, other) = (quoted(id.as_str()), quoted(other.as_str()));
        lines.push(format!("  {other} -> {id};"));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(draw: impl FnOnce(&mut dyn FnMut(String) -> Result<(), Failure>)) -> Vec<String> {
        let mut lines = Vec::new();
        draw(&mut |line| {
            lines.push(line);
            Ok(())
        });
        lines
    }

    #[test]
    fn the_text_of_a_chain_grows_as_the_chain_does() {
        const LENGTH: usize = 20_000;
        let ids: Vec<TaskId> = (0..LENGTH)
            .map(|n| format!("t{n}").parse().unwrap())
            .collect();
        let mut edges = Graph::default();
        for pair in ids.windows(2) {
            edges.edge(&pair[1], &pair[0]);
        }
        let all: Vec<&TaskId> = ids.iter().collect();
        let forest = lines(|line| forest(&edges, &all, line).unwrap());
        let around = edges.around(&ids[0], LENGTH);
        let graph = lines(|line| text(&edges, &around, &ids[0], line).unwrap());
        for (lines, more) in [(&forest, 0), (&graph, 1)] {
            assert_eq!(lines.len(), LENGTH + more);
            let longest = lines.iter().map(String::len).max().unwrap();
            assert!(longest < 2 * DEEPEST + 40, "{longest}");
        }
        let last = forest.last().unwrap().trim_start();
        assert_eq!(last, "[19999] t19999  unknown");
        assert_eq!(
            forest[DEEPEST],
            format!("{}t40  unknown", "  ".repeat(DEEPEST))
        );
    }

    #[test]
    fn a_branch_is_drawn_once_and_a_circle_ends() {
        let id = |name: &str| -> TaskId { name.parse().unwrap() };
        let mut edges = Graph::default();
        for (waiter, other) in [("b", "a"), ("c", "a"), ("d", "b"), ("d", "c"), ("e", "d")] {
            edges.edge(&id(waiter), &id(other));
        }
        for (waiter, other) in [("x", "y"), ("y", "x")] {
            edges.edge(&id(waiter), &id(other));
        }
        let ids = ["a", "b", "c", "d", "e", "x", "y"].map(id);
        let all: Vec<&TaskId> = ids.iter().collect();
        let drawn = lines(|line| forest(&edges, &all, line).unwrap());
        let drawn: Vec<String> = drawn
            .iter()
            .map(|line| line.replace("  unknown", ""))
            .collect();
        let expected = [
            "a",
            "  b",
            "    d",
            "      e",
            "  c",
            "    d  …",
            "x",
            "  y",
            "    x  …",
        ];
        assert_eq!(drawn, expected);
    }
}
