//! The tasks around a task that wait for each other, as a tree.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{
    frame::Page,
    record::{Graph, Node},
    text,
};

/// The most levels of a tree.
const DEPTH: usize = 12;

/// Shows what a task waits for, and the tasks that wait for it.
pub(super) fn show(page: &Page, graph: &Graph, id: &str) -> Markup {
    let waits_for = |of: &str| -> Vec<&str> {
        let edges = graph.edges.iter().filter(|edge| edge.task == of);
        edges.map(|edge| &*edge.waits_for).collect()
    };
    let waited_by = |of: &str| -> Vec<&str> {
        let edges = graph.edges.iter().filter(|edge| edge.waits_for == of);
        edges.map(|edge| &*edge.task).collect()
    };
    let of_graph = Tree {
        page,
        nodes: &graph.tasks,
    };
    html! {
        @if graph.edges.is_empty() { p.none { "It waits for no task, and none waits for it." } }
        @if !waits_for(id).is_empty() {
            h3 { "It waits for" }
            (of_graph.level(&waits_for, id, &mut BTreeSet::new(), DEPTH))
        }
        @if !waited_by(id).is_empty() {
            h3 { "These wait for it" }
            (of_graph.level(&waited_by, id, &mut BTreeSet::new(), DEPTH))
        }
        @if graph.is_cut { p.dim { "There are more tasks." } }
    }
}

struct Tree<'a> {
    page: &'a Page,
    nodes: &'a [Node],
}

impl<'a> Tree<'a> {
    /// Shows the tasks next to one, each with those next to it. A task that was shown before has no level below it.
    fn level(
        &self,
        next: &dyn Fn(&str) -> Vec<&'a str>,
        of: &str,
        seen: &mut BTreeSet<String>,
        depth: usize,
    ) -> Markup {
        let all = next(of);
        html! {
            ul.tree {
                @for id in all {
                    li {
                        @if let Some(node) = self.nodes.iter().find(|node| node.id == id) { (text::state(&node.shown)) " " }
                        (self.page.task(id))
                        @if seen.insert(id.to_owned()) && depth > 0 && !next(id).is_empty() {
                            (self.level(next, id, seen, depth - 1))
                        }
                    }
                }
            }
        }
    }
}
