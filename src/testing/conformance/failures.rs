//! Failed tasks in groups by the fingerprint of their last error.

use windlass_statemachine::{Message, StateKind, fingerprint};

use super::{
    Harness,
    kit::{Kit, id, of_kind},
    strangers::{elsewhere, export, import},
};
use crate::store::{FailedTasks, Filter, Order, Span};

impl Kit {
    async fn failed(&self, text: &str, kind: &str, error: &str) {
        let node = self.node(&format!("n-{text}")).await;
        self.submit_task(of_kind(text, kind)).await;
        let mut claimed = self.claim(&node, text).await;
        self.end_by(&mut claimed, &Message::error(error)).await;
    }

    /// Returns the groups of the store, after it has checked them against a list of all failed tasks.
    async fn groups(&self, after: &str) -> Vec<(u64, String, String)> {
        let filter = Filter::new().states([StateKind::Failed]);
        let span = Span {
            order: Order::Submitted,
            ascending: true,
            after: None,
            limit: 1000,
            without_props: true,
            only_waiting: false,
        };
        let records = self.registry().span(&filter, span).await.expect("a list");
        let expected = FailedTasks::of(&records, 100, true);
        let found = self.registry().failures(100).await.expect("groups");
        let times = |of: &FailedTasks| -> Vec<_> {
            let times = of.groups.iter();
            times
                .map(|one| (one.first.as_millisecond(), one.last.as_millisecond()))
                .collect()
        };
        let rows = |of: &FailedTasks| -> Vec<_> {
            let groups = of.groups.iter();
            let mut rows: Vec<_> = groups
                .map(|one| (one.tasks, one.fingerprint.clone(), one.kind.to_string()))
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(&found), rows(&expected), "after {after}");
        let (mut one, mut other) = (times(&found), times(&expected));
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other, "after {after}");
        assert!(found.is_complete, "after {after}");
        rows(&found)
    }
}

/// The groups follow failures, retries, replacements and deletions, and a list by fingerprint has the tasks of a group.
pub async fn failed_tasks_are_grouped(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    assert!(kit.groups("nothing").await.is_empty());
    for (text, kind, error) in [
        ("a1", "a", "order 17: timed out after 30s"),
        ("a2", "a", "order 18: timed out after 5s"),
        ("b1", "b", "order 19: timed out after 1s"),
        ("a3", "a", "disk full"),
    ] {
        kit.failed(text, kind, error).await;
    }
    let (time, disk) = (
        fingerprint("order 1: timed out after 1s"),
        fingerprint("disk full"),
    );
    let group = |tasks, print: &str, kind: &str| (tasks, print.to_owned(), kind.to_owned());
    let mut expected = vec![
        group(1, &disk, "a"),
        group(1, &time, "b"),
        group(2, &time, "a"),
    ];
    expected.sort();
    assert_eq!(kit.groups("failures").await, expected);
    let mut filter = Filter::new().states([StateKind::Failed]);
    filter.fingerprint = Some(time.clone());
    let mut listed = kit.list(filter.clone()).await;
    listed.sort();
    assert_eq!(listed, ["a1", "a2", "b1"]);
    let span = |ascending, limit| Span {
        order: Order::Ended,
        ascending,
        after: None,
        limit,
        without_props: true,
        only_waiting: false,
    };
    let newest = kit
        .registry()
        .span(&filter, span(false, 2))
        .await
        .expect("a list by end");
    assert_eq!(newest.len(), 2);
    filter.kind = Some("a".parse().expect("a kind"));
    let oldest = kit
        .registry()
        .span(&filter, span(true, 9))
        .await
        .expect("a list by end");
    let oldest: Vec<_> = oldest.iter().map(|one| one.task.id.as_str()).collect();
    assert_eq!(oldest, ["a1", "a2"]);

    kit.retry("a1").await;
    kit.delete("b1").await;
    kit.replace("a3").await;
    assert_eq!(
        kit.groups("a retry, a deletion and a replacement").await,
        [group(1, &time, "a")]
    );
    let node = kit.node("again").await;
    let mut claimed = kit.claim(&node, "a1").await;
    kit.end_by(&mut claimed, &Message::error("disk full")).await;
    kit.ended(&node, "done", &Message::complete()).await;
    let mut expected = vec![group(1, &disk, "a"), group(1, &time, "a")];
    expected.sort();
    assert_eq!(kit.groups("another error").await, expected);
    kit.assert_counted("failures").await;

    let from = elsewhere().await;
    from.failed("copied", "a", "disk full").await;
    import(&kit, export(&from, &[id("copied")]).await).await;
    let mut expected = vec![group(2, &disk, "a"), group(1, &time, "a")];
    expected.sort();
    assert_eq!(kit.groups("a copy").await, expected);
    let few = kit.registry().failures(1).await.expect("groups");
    assert_eq!((few.groups.len(), few.is_complete), (1, false));
    assert_eq!(few.groups[0].tasks, 2);
}
