//! Several changes at once, and those of one name one after the other.

use std::{collections::HashSet, hash::Hash};

use futures::future::join_all;

/// Carries out items at once, but those with one name one after the other.
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
