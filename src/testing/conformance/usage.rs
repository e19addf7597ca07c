//! The limits that tasks use at present.

use std::slice::from_ref;

use windlass_statemachine::Message;

use super::{
    Harness,
    kit::Kit,
    limits::{HOUR, at_once, starts},
};

/// The list has the limits of which a claim has a slot or for which a task waits, and no others.
pub async fn the_limits_in_use_are_listed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let listed = async || {
        let listed = kit.registry().limits_in_use().await.expect("a list");
        let short = listed.into_iter().map(|limit| {
            let number = limit.limit.map(|limit| limit.bound());
            let numbers = (limit.taken, limit.waiting);
            (limit.key, number, numbers, limit.next.is_some())
        });
        short.collect::<Vec<_>>()
    };
    let (two, rate) = (at_once("b", 2), starts("c", 1, HOUR));
    kit.limited(&["idle"], &[at_once("a", 5)]).await;
    kit.limited(&["x", "y", "z"], from_ref(&two)).await;
    kit.limited(&["r", "s"], from_ref(&rate)).await;
    kit.submit("plain").await;
    assert_eq!(listed().await, [], "no claim has a slot");
    kit.claim(&node, "plain").await;
    let mut x = kit.admitted(&node, "x").await;
    let b = ("b".to_owned(), Some(two.bound()));
    assert_eq!(listed().await, [(b.0.clone(), b.1, (1, 0), false)]);
    let mut y = kit.admitted(&node, "y").await;
    kit.refused(&node, "z").await;
    let mut r = kit.admitted(&node, "r").await;
    kit.refused(&node, "s").await;
    let c = ("c".to_owned(), Some(rate.bound()));
    let both = [
        (b.0.clone(), b.1, (2, 1), false),
        (c.0.clone(), c.1, (1, 1), true),
    ];
    assert_eq!(listed().await, both);
    kit.commit(&mut r, &Message::complete()).await;
    kit.delete("s").await;
    kit.delete("z").await;
    kit.commit(&mut x, &Message::complete()).await;
    kit.commit(&mut y, &Message::complete()).await;
    // The start counts until its period is over, whatever its task has done since.
    let counted = listed().await;
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert_eq!((&*counted[0].0, counted[0].2), ("c", (1, 0)));
}
