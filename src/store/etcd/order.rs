//! Runs several changes at once, and those of one name one after the other.

use std::{collections::HashSet, hash::Hash};

use futures::future::join_all;

/// Runs `run` for all items at once, but for those of one name one after the other. Returns the
/// outputs in the order of the items.
pub(crate) async fn in_order<I, K: Hash + Eq, F: Future>(
    items: Vec<I>,
    name: impl Fn(&I) -> K,
    run: impl Fn(I) -> F,
) -> Vec<F::Output> {
    let mut answers = Vec::with_capacity(items.len());
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        let mut names = HashSet::new();
        let mut group = Vec::new();
        while let Some(item) = items.next_if(|item| !names.contains(&name(item))) {
            names.insert(name(&item));
            group.push(item);
        }
        answers.extend(join_all(group.into_iter().map(&run)).await);
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn items_of_one_name_are_carried_out_one_after_the_other() {
        let log = RefCell::new(Vec::new());
        let run = |(name, n): (&'static str, u32)| {
            let log = &log;
            async move {
                log.borrow_mut().push(format!("{name}{n} begins"));
                tokio::task::yield_now().await;
                log.borrow_mut().push(format!("{name}{n} ends"));
                n
            }
        };
        let items = vec![("a", 1), ("b", 2), ("a", 3)];
        assert_eq!(in_order(items, |(name, _)| *name, run).await, [1, 2, 3]);
        let expected = [
            "a1 begins",
            "b2 begins",
            "a1 ends",
            "b2 ends",
            "a3 begins",
            "a3 ends",
        ];
        assert_eq!(*log.borrow(), expected);
    }
}
