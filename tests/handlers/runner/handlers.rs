//! The inputs of handlers, and the effects of their messages.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use windlass::{
    BoxError, Command, Json, KindConfig, Message, NewTask, Retry, StateKind, TaskContext,
    store::ChangeKind,
};

use super::support::{World, secs};

#[tokio::test(start_paused = true)]
async fn a_result_comes_back_as_it_was() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("echo", |task: TaskContext| async move {
            let props: Json = task.props()?;
            Ok::<_, BoxError>(Message::complete_with(&props))
        })
        .start()
        .await
        .unwrap();
    let text = r#"{"n":123456789012345678901234567890}"#;
    let id = world
        .client
        .submit(NewTask::new("echo").props_json(text))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.result::<Json>().unwrap().as_str(), text);
}

#[tokio::test(start_paused = true)]
async fn data_goes_from_run_to_run_and_a_long_sleep_releases_the_claim() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("count", |task: TaskContext| async move {
            let n: u32 = task.data()?.unwrap_or(0);
            let message = match n {
                0 => Message::run(),
                1 => Message::sleep_for(secs(5)),
                2 => Message::sleep_for(secs(3600)),
                3 => Message::checkpoint(),
                n => return Ok(Message::complete_with(n)),
            };
            Ok::<_, BoxError>(message.with_data(&(n + 1)))
        })
        .start()
        .await
        .unwrap();
    let began = world.now();
    let id = world
        .client
        .submit(NewTask::new("count"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Sleeping).await;
    let record = world.client.get(&id).await.unwrap();
    assert!(record.node.is_none(), "no node has a parked task");
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.result::<u32>().unwrap(), 4);
    let took = world.now().duration_since(began).as_secs();
    assert!((3605..3610).contains(&took), "{took} s");
    assert_eq!(
        done.state.claims, 2,
        "once before the long sleep, once after"
    );
    let messages: Vec<String> = world
        .client
        .history(&id, 100)
        .await
        .unwrap()
        .iter()
        .filter_map(|change| match &change.what {
            ChangeKind::Moved { message, .. } => Some(message.to_string()),
            _ => None,
        })
        .collect();
    // The second wake-up is the claim's own doing, the first its own transition.
    assert_eq!(messages[..4], ["run", "sleep", "run", "sleep"]);
    assert_eq!(messages[messages.len() - 2..], ["checkpoint", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_durable_when_it_returns_and_outlives_an_error() {
    let world = World::new().await;
    let client = world.client.clone();
    let _node = world
        .node("n")
        .handler_with(
            "steps",
            KindConfig::default().retry(Retry::exponential(5, secs(1))),
            move |task: TaskContext| {
                let client = client.clone();
                async move {
                    if task.attempt() == 1 {
                        task.checkpoint(&json!({"step": 1})).await?;
                        let stored = client.get(task.id()).await?.state?.data;
                        assert_eq!(stored.unwrap().as_str(), r#"{"step":1}"#);
                        return Err("lost the thread".into());
                    }
                    assert_eq!(task.last_error().unwrap().error, "lost the thread");
                    let data: Json = task.data()?.ok_or("no data")?;
                    Ok::<_, BoxError>(Message::complete_with(&data))
                }
            },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("steps"))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.result::<Json>().unwrap().as_str(), r#"{"step":1}"#);
    assert_eq!(done.state.errors.total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_with_its_text_and_place() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler_with(
            "bad",
            KindConfig::default().retry(Retry::Never),
            |_: TaskContext| async { boom() },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("bad"))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    let error = done.error().unwrap();
    assert!(
        error.contains("handlers.rs:") && error.contains("no more fuel"),
        "{error}"
    );
}

fn boom() -> Message {
    panic!("no more {}", "fuel")
}

#[tokio::test(start_paused = true)]
async fn props_of_another_type_fail_with_the_field_named() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler_with(
            "typed",
            KindConfig::default().retry(Retry::Never),
            |task: TaskContext| async move {
                let n: u32 = task.props()?;
                Ok::<_, BoxError>(Message::complete_with(n))
            },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("typed").props("text"))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert!(
        done.error().unwrap().starts_with("props: is "),
        "{:?}",
        done.error()
    );
}

#[tokio::test(start_paused = true)]
async fn data_that_is_too_large_is_refused_and_nothing_is_lost() {
    let world = World::new().await;
    let refused = Arc::new(Mutex::new(None));
    let seen = refused.clone();
    let _node = world
        .node("n")
        .handler_with(
            "big",
            KindConfig::default().retry(Retry::Never),
            move |task: TaskContext| {
                let seen = seen.clone();
                async move {
                    task.checkpoint("small").await?;
                    let big = "x".repeat(2 << 20);
                    let error = task.checkpoint(&big).await.unwrap_err().to_string();
                    *seen.lock().unwrap() = Some(error);
                    Ok::<_, BoxError>(Message::complete_with(&big))
                }
            },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("big"))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    assert!(
        done.error().unwrap().starts_with("result: has 20971"),
        "{:?}",
        done.error()
    );
    let refused = refused.lock().unwrap().clone().unwrap();
    assert!(
        refused.contains("data: has 2097154 bytes; at most 1048"),
        "{refused}"
    );
    assert_eq!(done.state.data.unwrap().as_str(), "\"small\"");
}

#[tokio::test(start_paused = true)]
async fn progress_is_seen_live_and_kept_with_the_next_write() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("slow", |task: TaskContext| async move {
            task.set_progress(0.5, "half way");
            task.stop_requested().await.message()
        })
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("slow"))
        .await
        .unwrap()
        .into_id();
    world
        .until("progress is seen", || async {
            let snapshot = node.snapshot().await.unwrap();
            snapshot
                .tasks
                .first()
                .and_then(|t| t.progress.clone())
                .is_some_and(|p| p.fraction == Some(0.5) && p.text == "half way")
        })
        .await;
    world.command(&id, Command::Pause).await;
    let progress = world
        .client
        .get(&id)
        .await
        .unwrap()
        .state
        .unwrap()
        .progress
        .unwrap();
    assert_eq!(progress.text, "half way");
}

// In real time: paused time does not pass while a thread of the blocking pool works.

#[tokio::test]
async fn a_blocking_handler_sees_that_it_should_stop() {
    let world = World::new().await;
    let turns = Arc::new(AtomicU32::new(0));
    let turned = turns.clone();
    let _node = world
        .node("n")
        .handler("blocks", move |task: TaskContext| {
            let turns = turned.clone();
            async move {
                let inner = task.clone();
                tokio::task::spawn_blocking(move || {
                    while !inner.should_stop() {
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                    }
                })
                .await?;
                Ok::<_, BoxError>(task.stop_requested().await.message())
            }
        })
        .start()
        .await
        .unwrap();
    let id = world.running("blocks").await;
    world
        .until("it blocks its thread", || async {
            turns.load(Ordering::SeqCst) > 0
        })
        .await;
    let outcome = world.command(&id, Command::Pause).await;
    assert!(outcome.is_applied(), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_always_releases_does_not_spin() {
    let world = World::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let node = world
        .node("n")
        .handler("hot", move |_: TaskContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Message::release() }
        })
        .start()
        .await
        .unwrap();
    world.client.submit(NewTask::new("hot")).await.unwrap();
    tokio::time::sleep(secs(10)).await;
    node.shutdown().await;
    let runs = runs.load(Ordering::SeqCst);
    assert!(
        (5..=12).contains(&runs),
        "about one run a second, not {runs} in ten"
    );
}
