//! The shared feed: which subscriber gets which changes, slow subscribers, and when the feed
//! closes.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::{Client, NewTask, store::Store};

async fn store() -> (Store, Client) {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    (store, client)
}

async fn submit(client: &Client, id: &str) {
    client.submit(NewTask::new("k").id(id)).await.unwrap();
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

/// Lets the feed and its subscribers run until they are idle.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_delivers_the_changes_of_its_task_alone() {
    let (store, client) = store().await;
    let mut a = store.changes().of(&id("a")).await.unwrap();
    let mut again = store.changes().of(&id("a")).await.unwrap();
    submit(&client, "b").await;
    submit(&client, "a").await;
    for subscription in [&mut a, &mut again] {
        let Delivered::Change(change) = subscription.next().await else {
            panic!("the change of 'a'");
        };
        assert_eq!(change.task, id("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_lags_learns_that_it_missed_something_and_the_others_lose_nothing() {
    let (store, client) = store().await;
    let mut slow = store.changes().of(&id("a")).await.unwrap();
    let mut quick = store.changes().of(&id("a")).await.unwrap();
    submit(&client, "a").await;
    let mut taken = 0;
    for n in 0..QUEUE * 2 {
        let command = windlass_statemachine::Command::Pause;
        let command_id: windlass_statemachine::CommandId = format!("c{n}").parse().unwrap();
        client
            .command_with_id(&id("a"), command_id, command)
            .await
            .unwrap();
        settle().await;
        while let Ok(change) = quick.queue.try_recv() {
            assert_eq!(change.task, id("a"));
            taken += 1;
        }
    }
    assert_eq!(taken, 1 + QUEUE * 2);
    assert!(!quick.missed.load(Ordering::Acquire));
    assert_eq!(slow.next().await, Delivered::Missed);
    let command = windlass_statemachine::Command::Kill;
    client.command(&id("a"), command).await.unwrap();
    assert!(
        matches!(slow.next().await, Delivered::Change(_)),
        "it goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn the_feed_closes_after_the_last_subscription_and_opens_again() {
    let (store, client) = store().await;
    let changes = store.changes();
    let first = changes.of(&id("a")).await.unwrap();
    let second = changes.of(&id("b")).await.unwrap();
    drop(first);
    tokio::time::sleep(LINGER * 3).await;
    assert!(changes.subscribers.all().is_open, "one is left");
    drop(second);
    assert!(
        changes.subscribers.all().is_open,
        "the next may come at once"
    );
    tokio::time::sleep(LINGER * 3).await;
    assert!(!changes.subscribers.all().is_open);
    let mut third = changes.of(&id("c")).await.unwrap();
    submit(&client, "c").await;
    assert!(matches!(third.next().await, Delivered::Change(_)));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_with_the_store() {
    let (store, client) = store().await;
    let mut subscription = store.changes().of(&id("a")).await.unwrap();
    drop((store, client));
    assert_eq!(subscription.next().await, Delivered::Ended);
}

#[test]
fn a_subscription_ends_with_the_runtime_of_the_feed_and_the_next_opens_another() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let (store, mut subscription) = first.block_on(async {
        let (store, _) = store().await;
        let subscription = store.changes().of(&id("a")).await.unwrap();
        (store, subscription)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(subscription.next().await, Delivered::Ended);
        let mut again = store.changes().of(&id("a")).await.unwrap();
        submit(&Client::new(&store), "a").await;
        assert!(matches!(again.next().await, Delivered::Change(_)));
    });
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waits_open_one_feed() {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let (store, client) = store().await;
    let waits = (0..1000).map(|n| {
        let (client, id) = (client.clone(), id(&format!("t{n}")));
        async move {
            submit(&client, id.as_str()).await;
            let waited = client.wait(&id).await.unwrap();
            OPENED.fetch_add(1, Ordering::Relaxed);
            waited
        }
    });
    let ends = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(
            store.changes().subscribers.all().next,
            1000,
            "each wait subscribed once"
        );
        for n in 0..1000 {
            client
                .command(&id(&format!("t{n}")), windlass_statemachine::Command::Kill)
                .await
                .unwrap();
        }
        let runner = crate::Runner::builder(&store)
            .handler("k", |task: crate::TaskContext| async move {
                task.stop_requested().await.message()
            })
            .start()
            .await
            .unwrap();
        while OPENED.load(Ordering::Relaxed) < 1000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        runner.shutdown().await;
    };
    let (done, ()) = tokio::time::timeout(
        Duration::from_secs(60),
        futures::future::join(futures::future::join_all(waits), ends),
    )
    .await
    .expect("a thousand waits end within a minute");
    assert_eq!(done.len(), 1000);
}

/// The changes of a stream, as the task of each.
async fn tasks(stream: &mut ChangeStream, count: usize) -> Vec<String> {
    let mut tasks = Vec::new();
    while tasks.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(60), stream.next());
        let batch = next
            .await
            .expect("a change within a minute")
            .unwrap()
            .unwrap();
        tasks.extend(batch.into_iter().map(|change| change.task.to_string()));
    }
    tasks
}

#[tokio::test(start_paused = true)]
async fn streams_share_the_feed_and_a_slow_one_loses_nothing() {
    let (store, client) = store().await;
    let mut slow = client.changes(None).await.unwrap();
    let mut quick = client.changes(None).await.unwrap();
    let mut expected = Vec::new();
    for n in 0..QUEUE * 3 {
        submit(&client, &format!("t{n}")).await;
        expected.push(format!("t{n}"));
        settle().await;
        assert_eq!(tasks(&mut quick, 1).await, expected[n..]);
    }
    assert_eq!(
        store.changes().subscribers.all().whole.len(),
        1,
        "the slow one"
    );
    assert_eq!(tasks(&mut slow, expected.len()).await, expected);
    submit(&client, "more").await;
    assert_eq!(tasks(&mut slow, 1).await, ["more"]);
    drop((quick, slow));
    tokio::time::sleep(LINGER * 3).await;
    assert!(!store.changes().subscribers.all().is_open);
}

#[test]
fn a_stream_goes_on_when_the_runtime_of_the_shared_feed_has_ended() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let first = runtime();
    let (client, mut begun) = first.block_on(async {
        let (_, client) = store().await;
        let mut begun = client.changes(None).await.unwrap();
        submit(&client, "a").await;
        assert_eq!(tasks(&mut begun, 1).await, ["a"]);
        (client, begun)
    });
    drop(first);
    runtime().block_on(async {
        submit(&client, "b").await;
        assert_eq!(tasks(&mut begun, 1).await, ["b"]);
    });
}

#[test]
fn a_feed_that_ends_late_ends_no_later_one() {
    let subscribers = Arc::<Subscribers>::default();
    let first = Feed::open(subscribers.clone());
    assert!(subscribers.close_if_idle());
    let second = Feed::open(subscribers.clone());
    drop(first);
    assert!(subscribers.all().is_open);
    drop(second);
    assert!(!subscribers.all().is_open);
}
