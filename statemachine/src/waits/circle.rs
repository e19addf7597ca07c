//! Tasks that wait for each other in a circle.

use std::collections::{HashMap, HashSet};

use crate::TaskId;

/// Returns tasks that wait for each other in a circle, if there are any: each for the next one, and the last
/// for the first. `edges` holds each task with the tasks that it waits for.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{TaskId, waits::cycle};
///
/// let id = |text: &str| TaskId::new(text).unwrap();
/// let (a, b, c) = (id("a"), id("b"), id("c"));
/// let (of_a, of_b) = ([b.clone(), c.clone()], [a.clone()]);
/// let found = cycle([(&a, &of_a[..]), (&b, &of_b[..])]).unwrap();
/// assert_eq!(found.len(), 2, "c waits for none");
/// assert!(cycle([(&b, &of_b[..])]).is_none());
/// ```
pub fn cycle<'a>(
    edges: impl IntoIterator<Item = (&'a TaskId, &'a [TaskId])>,
) -> Option<Vec<&'a TaskId>> {
    let edges: HashMap<&TaskId, &[TaskId]> = edges.into_iter().collect();
    let mut done: HashSet<&TaskId> = HashSet::new();
    for start in edges.keys() {
        // The path from the start, with each task's position in the list. A loop, because the depth has
        // no limit.
        let mut path: Vec<(&TaskId, usize)> = vec![(start, 0)];
        let mut on_path: HashSet<&TaskId> = HashSet::from([*start]);
        while let Some((task, next)) = path.last_mut() {
            let waits_for = edges.get(task).and_then(|of| of.get(*next));
            *next += 1;
            let Some(other) = waits_for.filter(|_| !done.contains(task)) else {
                done.insert(task);
                on_path.remove(task);
                path.pop();
                continue;
            };
            if on_path.contains(other) {
                let circle = path.iter().map(|(task, _)| *task);
                return Some(circle.skip_while(|task| *task != other).collect());
            }
            if edges.contains_key(other) && !done.contains(other) {
                on_path.insert(other);
                path.push((other, 0));
            }
        }
    }
    None
}

/// Returns the text of a circle, as errors show it: `a → b → a`. For a long circle it names the first
/// tasks.
pub fn circle_text(circle: &[&TaskId]) -> String {
    const SHOWN: usize = 20;
    let mut text: Vec<&str> = circle.iter().take(SHOWN).map(|id| id.as_str()).collect();
    if circle.len() > SHOWN {
        text.push("…");
    }
    text.extend(circle.first().map(|id| id.as_str()));
    text.join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: impl AsRef<str>) -> TaskId {
        TaskId::new(text).unwrap()
    }

    #[test]
    fn a_long_circle_is_found_and_a_diamond_is_none() {
        let ids: Vec<TaskId> = (0..50_000).map(|n| id(format!("t{n}"))).collect();
        let next = |n: usize| std::slice::from_ref(&ids[(n + 1) % ids.len()]);
        let circle = cycle(ids.iter().enumerate().map(|(n, id)| (id, next(n)))).unwrap();
        assert_eq!(circle.len(), ids.len());
        let open = ids.iter().enumerate().skip(1);
        assert!(cycle(open.map(|(n, id)| (id, next(n)))).is_none());

        let (a, b, c, d) = (id("a"), id("b"), id("c"), id("d"));
        let (of_a, of_b) = ([b.clone(), c.clone()], [d]);
        let diamond = [(&a, &of_a[..]), (&b, &of_b[..]), (&c, &of_b[..])];
        assert_eq!(cycle(diamond), None);
        let own = [a.clone()];
        assert_eq!(circle_text(&cycle([(&a, &own[..])]).unwrap()), "a → a");
    }
}
