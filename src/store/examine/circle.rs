//! The check for tasks that wait for each other.

use std::collections::HashMap;

use windlass_statemachine::{TaskId, waits::cycle};

use super::{Advice, Finding, Remedy, Verdict};

/// Each task that waits, with those that it waits for.
pub(crate) type Waiters = HashMap<TaskId, Vec<TaskId>>;

/// Returns the finding about tasks that wait for each other in a circle, none of which would ever run on
/// its own.
pub(crate) fn finding(waiters: &Waiters) -> Finding {
    let edges = waiters.iter().map(|(id, waited)| (id, &waited[..]));
    let Some(circle) = cycle(edges) else {
        let found = match waiters.len() {
            0 => "no task waits for others".to_owned(),
            1 => "1 task waits for others, and no tasks for each other".to_owned(),
            more => format!("{more} tasks wait for others, and none for each other"),
        };
        return Finding::ok("waits", found);
    };
    let names: Vec<&str> = circle.iter().map(|id| id.as_str()).collect();
    let found = format!("tasks wait for each other: {}", names.join(", "));
    let advice = "each waits for the next, and the last for the first: run one, or delete it; then examine the store \
                  again for further circles";
    let advice = Advice::new(advice, Remedy::Run);
    Finding::new("waits", Verdict::Error, found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiters(edges: &[(&str, &str)]) -> Waiters {
        let mut waiters = Waiters::new();
        for (id, waited) in edges {
            let waited = waited.parse().unwrap();
            waiters.entry(id.parse().unwrap()).or_default().push(waited);
        }
        waiters
    }

    #[test]
    fn a_circle_is_an_error_and_names_its_tasks() {
        for (edges, says) in [
            (&[][..], "no task waits for others"),
            (&[("a", "b")], "1 task waits for others"),
            (&[("a", "b"), ("b", "c")], "2 tasks wait for others"),
        ] {
            let finding = finding(&waiters(edges));
            assert_eq!(finding.verdict, Verdict::Ok);
            assert!(finding.found.starts_with(says), "{}", finding.found);
        }
        let finding = finding(&waiters(&[("a", "b"), ("b", "c"), ("c", "b")]));
        assert_eq!(finding.verdict, Verdict::Error);
        assert!(finding.found.starts_with("tasks wait for each other: "));
        assert!(!finding.found.contains("a,"), "{}", finding.found);
    }
}
