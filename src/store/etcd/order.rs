//! Runs several changes at once, except those that share a name, which run one after the other.

use std::{collections::HashSet, hash::Hash};

use futures::future::join_all;

use crate::store::Limits;

/// Runs `run` for all items at once, except items that share one of their `names`, which run one
/// after the other. Returns the outputs in the order of the items.
pub(crate) async fn in_order<I, N: IntoIterator<Item: Hash + Eq>, F: Future>(
    items: Vec<I>,
    names: impl Fn(&I) -> N,
    run: impl Fn(I) -> F,
) -> Vec<F::Output> {
    let mut answers = Vec::with_capacity(items.len());
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        let mut taken = HashSet::new();
        let mut group = Vec::new();
        while group.len() < Limits::WRITE_OPERATIONS
            && let Some(item) = items.next_if(|item| is_free(&taken, names(item)))
        {
            taken.extend(names(&item));
            group.push(item);
        }
        answers.extend(join_all(group.into_iter().map(&run)).await);
    }
    answers
}

fn is_free<K: Hash + Eq>(taken: &HashSet<K>, names: impl IntoIterator<Item = K>) -> bool {
    names.into_iter().all(|name| !taken.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn items_that_share_a_name_are_carried_out_one_after_the_other() {
        let log = RefCell::new(Vec::new());
        let run = |(names, n): (&'static str, u32)| {
            let log = &log;
            async move {
                log.borrow_mut().push(format!("{names}{n} begins"));
                tokio::task::yield_now().await;
                log.borrow_mut().push(format!("{names}{n} ends"));
                n
            }
        };
        let items = vec![("a", 1), ("bc", 2), ("ca", 3)];
        let names = |(names, _): &(&str, u32)| names.chars().collect::<Vec<_>>();
        assert_eq!(in_order(items, names, run).await, [1, 2, 3]);
        let expected = [
            "a1 begins",
            "bc2 begins",
            "a1 ends",
            "bc2 ends",
            "ca3 begins",
            "ca3 ends",
        ];
        assert_eq!(*log.borrow(), expected);
    }
}
