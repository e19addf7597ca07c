//! Invalid settings are refused by name, before anything starts.

use std::time::Duration;

use windlass::{
    KindConfig, Message, NewTask, Retry, TaskContext, runner::StartError, store::Error,
};

use super::support::World;

async fn done(_: TaskContext) -> Message {
    Message::complete()
}

fn field(error: StartError) -> String {
    match error {
        StartError::Invalid(e) => e.field().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn absurd_settings_are_named() {
    let world = World::new().await;
    let node = || world.node("n").handler("k", done);
    assert_eq!(field(node().slots(0).start().await.unwrap_err()), "slots");
    assert_eq!(
        field(node().slots(2_000_000).start().await.unwrap_err()),
        "slots"
    );
    let none = KindConfig::default().slots(0);
    let error = world
        .node("n")
        .handler_with("k", none, done)
        .start()
        .await
        .unwrap_err();
    assert_eq!(field(error), "slots of a kind");
    for ttl in [Duration::ZERO, Duration::from_secs(7200)] {
        assert_eq!(
            field(node().lease_ttl(ttl).start().await.unwrap_err()),
            "lease_ttl"
        );
    }
    assert_eq!(field(world.node("n").start().await.unwrap_err()), "handler");
    assert_eq!(
        field(node().handler("k", done).start().await.unwrap_err()),
        "handler"
    );
    assert_eq!(
        field(
            world
                .node("a/b")
                .handler("k", done)
                .start()
                .await
                .unwrap_err()
        ),
        "node"
    );
    assert_eq!(
        field(world.node("n").handler("", done).start().await.unwrap_err()),
        "kind"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_refused_until_it_is_free() {
    let world = World::new().await;
    let first = world.node("n").handler("k", done).start().await.unwrap();
    let error = world
        .node("n")
        .handler("k", done)
        .start()
        .await
        .unwrap_err();
    assert!(matches!(error, StartError::NameTaken(_)), "{error:?}");
    assert!(
        error.to_string().contains("give this one another name"),
        "{error}"
    );
    first.shutdown().await;
    world
        .node("n")
        .handler("k", done)
        .start()
        .await
        .unwrap()
        .shutdown()
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_task_is_refused_by_field() {
    let world = World::new().await;
    let cases = [
        (NewTask::new("k").id("a/b"), "id"),
        (NewTask::new("k").id(""), "id"),
        (NewTask::new(""), "kind"),
        (NewTask::new("k").props_json("{"), "props"),
        (NewTask::new("k").label("", "x"), "labels"),
        (
            NewTask::new("k").retry(Retry::exponential(0, Duration::ZERO)),
            "retry.attempts",
        ),
    ];
    for (task, field) in cases {
        match world.client.submit(task).await {
            Err(Error::Invalid(e)) => assert_eq!(e.field(), field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let big = NewTask::new("k").props(&"x".repeat(2 << 20));
    match world.client.submit(big).await {
        Err(Error::TooLarge {
            field: "props",
            bytes,
            limit,
        }) => assert!(bytes > limit),
        other => panic!("{other:?}"),
    }
    assert!(
        world
            .client
            .list(&Default::default(), Default::default())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn an_unknown_store_is_refused_by_name() {
    for url in ["", "redis://x", "sqlite:", "memory", "etcd"] {
        let error = windlass::store::Store::open(url).await.unwrap_err();
        assert!(error.to_string().starts_with("store: "), "{url}: {error}");
    }
}
