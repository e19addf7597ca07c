//! Bulk operations in a copy of their store.

use serde_json::json;
use windlass::{
    Client, NewTask, StateKind,
    store::{Filter, Query, Store},
};
use windlass_server::{Scope, bulk};

use crate::bulk::{ended, node};

/// A copy of the store gives every task another submit order. The operation goes on after the task that it has seen last, and
/// its commands have other names than those of another operation. When that task is gone, it begins again.
#[tokio::test]
async fn an_operation_leaves_no_task_out_after_a_copy() {
    let from = Store::open("memory:").await.unwrap();
    let client = Client::new(&from);
    // The orders of the first store begin later.
    for n in 0..300 {
        let id = client.submit(NewTask::new("old").id(format!("o{n}"))).await;
        client.delete(id.unwrap().id().clone()).await.unwrap();
    }
    for n in 0..500 {
        client
            .submit(NewTask::new("mail").id(format!("m{n}")))
            .await
            .unwrap();
    }
    let filter = || serde_json::from_value(json!({"kind": "mail"})).unwrap();
    let action = bulk::BulkAction::Pause;
    let (scope, counted) = (Scope::default(), filter());
    let count = bulk::dry_run(&client, &counted, action, &scope);
    let count = count.await.unwrap();
    let key = (500, count.key.as_str());
    let started = bulk::start(&client, (filter(), action), key, (&scope, None));
    let operation = started.await.unwrap();
    let last = client.get("m199").await.unwrap();
    let cursor = Query::new(Filter::default())
        .reversed()
        .after(&last)
        .unwrap();
    let place = |last: &str, at: jiff::Timestamp, store: &str| json!({"store": store, "cursor": cursor.to_string(), "last": last, "submitted_at": at});
    let identity = from.registry().identity().await.unwrap();
    let gone = place("gone", last.submitted_at, &identity);
    let known = place("m199", last.submitted_at, &identity);
    for (place, paused) in [(known, 300), (gone, 500)] {
        let transfer = from.transfer().unwrap();
        let ids = transfer.ids().await.unwrap();
        let mut sent: Vec<_> = transfer
            .export(&ids)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let of = sent
            .iter_mut()
            .find(|one| one.task.id == operation)
            .unwrap();
        let data =
            json!({"done": 200, "refused": 0, "refusals": [], "incarnation": 0, "place": place});
        of.state.data = Some(data.into());
        let to = Store::open("memory:").await.unwrap();
        for imported in to.transfer().unwrap().import(sent).await {
            imported.unwrap();
        }
        let client = Client::new(&to);
        let node = node(&to).await;
        let (code, result) = ended(&client, &operation).await;
        assert_eq!(
            (code, &result["done"]),
            (StateKind::Completed, &json!(500)),
            "{result}"
        );
        node.shutdown().await;
        let mut commands = std::collections::HashSet::new();
        for n in 0..500 {
            let found = client.commands(format!("m{n}")).await.unwrap();
            assert_eq!(found.len(), usize::from(n >= 500 - paused), "m{n}");
            commands.extend(found.into_iter().map(|command| command.id.to_string()));
        }
        assert_eq!(commands.len(), paused, "each has a name of its own");
        assert!(commands.iter().all(|name| name.starts_with("bulk-")));
    }
}
