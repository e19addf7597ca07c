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
