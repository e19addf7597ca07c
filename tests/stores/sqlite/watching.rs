//! What the watch of a node reports of the node's own claims.

use windlass::{
    Message,
    store::{Coordinator, Event, Registry},
};

use super::support::*;

fn is_gone(event: &Event, text: &str) -> bool {
    matches!(event, Event::Gone { id, .. } if id.as_str() == text)
}

#[tokio::test]
async fn an_end_is_reported_to_the_nodes_that_have_not_written_it() {
    let file = file();
    let store = file.open().await;
    let (node, other) = (join(&store, "n").await, join(&store, "other").await);
    // One claim is older than the watch, and one is made under it.
    submit(&store, "before").await;
    let before = claim(&store, &node, "before").await;
    let mut own = store.watch(&node, None).await.unwrap();
    let mut others = store.watch(&other, None).await.unwrap();
    for watch in [&mut own, &mut others] {
        until(watch, |e| matches!(e, Event::Listed)).await;
    }
    submit(&store, "under").await;
    // A watch that is late reports the end in place of the submit.
    until(&mut own, |e| is_task(e, "under")).await;
    let under = claim(&store, &node, "under").await;
    for claimed in [&before, &under] {
        commit(&store, claimed, Message::complete()).await.unwrap();
    }
    submit(&store, "last").await;
    let reported = until(&mut own, |e| is_task(e, "last")).await;
    let gone: Vec<_> = ["before", "under"]
        .into_iter()
        .filter(|task| reported.iter().any(|e| is_gone(e, task)))
        .collect();
    assert!(gone.is_empty(), "the node wrote these ends: {gone:?}");
    let reported = until(&mut others, |e| is_task(e, "last")).await;
    for task in ["before", "under"] {
        assert!(reported.iter().any(|e| is_gone(e, task)), "{reported:?}");
    }
}

#[tokio::test]
async fn the_end_that_another_node_writes_after_this_one_is_reported() {
    let file = file();
    let store = file.open().await;
    let (node, other) = (join(&store, "n").await, join(&store, "other").await);
    let mut watch = store.watch(&node, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    for task in ["retried", "released"] {
        submit(&store, task).await;
        let claimed = claim(&store, &node, task).await;
        let message = match task {
            "retried" => Message::complete(),
            _ => Message::release(),
        };
        commit(&store, &claimed, message).await.unwrap();
        if task == "retried" {
            store.retry(vec![id(task)]).await.remove(0).unwrap();
        }
        let claimed = claim(&store, &other, task).await;
        commit(&store, &claimed, Message::complete()).await.unwrap();
        until(&mut watch, |e| is_gone(e, task)).await;
    }
}
