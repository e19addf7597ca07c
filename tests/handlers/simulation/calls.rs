//! One run of a handler, without a store.

use std::{future::pending, time::Duration};

use windlass::{
    ActionKind, BoxError, Command, Message, NewTask, Stop, StopReason, TaskContext,
    testing::{self, Call},
};

#[tokio::test]
async fn the_handler_finds_what_the_call_sets() {
    let call = Call::new()
        .task(NewTask::new("mail").id("m1").label("team", "a"))
        .props(&"hello")
        .data(&7)
        .attempt(3)
        .incarnation(2)
        .fence(41)
        .lease_left(Duration::from_secs(5));
    let handler = |task: TaskContext| async move {
        assert_eq!((task.kind().as_str(), task.id().as_str()), ("mail", "m1"));
        assert_eq!(task.labels().get("team").map(String::as_str), Some("a"));
        assert_eq!(task.props::<String>()?, "hello");
        assert_eq!(task.data::<u32>()?, Some(7));
        assert_eq!((task.attempt(), task.incarnation()), (3, 2));
        assert_eq!(task.fence().0, 41);
        let left = task.lease_left();
        assert!(
            left > Duration::ZERO && left <= Duration::from_secs(5),
            "{left:?}"
        );
        assert!(!task.should_stop());
        task.set_progress(0.5, "half");
        Ok::<_, BoxError>(Message::complete_with("seen"))
    };
    let ran = call.run(handler).await.unwrap();
    assert_eq!(ran.error(), None);
    assert_eq!(ran.result::<String>().unwrap().as_deref(), Some("seen"));
    assert_eq!(ran.data::<u32>().unwrap(), Some(7), "nothing replaced it");
    assert_eq!(ran.progress().unwrap().fraction, Some(0.5));
}

#[tokio::test]
async fn checkpoints_are_recorded_and_read_back() {
    let handler = |task: TaskContext| async move {
        for n in 1..=3 {
            task.checkpoint(&n).await?;
            assert_eq!(task.data::<u32>()?, Some(n));
        }
        Ok::<_, BoxError>(Message::release())
    };
    let ran = testing::run(handler, (), None).await.unwrap();
    assert_eq!(ran.kind(), ActionKind::Release);
    assert_eq!(ran.checkpoints::<u32>().unwrap(), [1, 2, 3]);
    assert_eq!(ran.data::<u32>().unwrap(), Some(3));
}

#[tokio::test]
async fn a_panic_becomes_an_error_message() {
    let handler = |task: TaskContext| async move {
        assert!(task.attempt() > 1, "boom");
        Message::complete()
    };
    let ran = testing::run(handler, (), None).await.unwrap();
    let error = ran.error().unwrap();
    assert!(
        error.contains("panicked") && error.contains("boom"),
        "{error}"
    );
}

#[tokio::test]
async fn signals_come_after_the_checkpoints_that_were_asked_for() {
    let handler = |task: TaskContext| async move {
        loop {
            let made = task.data::<u32>()?.unwrap_or(0);
            if task.should_stop() {
                let stop = task.stop_requested().await;
                assert_eq!(stop, Stop::Command(Command::Kill));
                assert_eq!(task.commands().next().await, Some(Command::Kill));
                return Ok::<_, BoxError>(stop.message());
            }
            task.checkpoint(&(made + 1)).await?;
        }
    };
    for after in [0, 3] {
        let call = Call::new().command(Command::Kill).after_checkpoints(after);
        let ran = call.run(handler).await.unwrap();
        assert_eq!((ran.kind(), ran.error()), (ActionKind::Kill, None));
        assert_eq!(ran.checkpoints::<u32>().unwrap().len(), after);
    }
}

#[tokio::test]
async fn a_stop_of_the_node_is_delivered() {
    let handler = |task: TaskContext| async move {
        tokio::select! {
            stop = task.stop_requested() => stop.message(),
            () = pending() => Message::complete(),
        }
    };
    let call = Call::new().stop(StopReason::Shutdown);
    assert_eq!(call.run(handler).await.unwrap().kind(), ActionKind::Release);
}

#[tokio::test]
async fn wrong_props_name_the_field() {
    let handler = |_: TaskContext| async { Message::complete() };
    let wrong = std::collections::HashMap::from([((1, 2), 3)]);
    let error = testing::run(handler, wrong, None).await.unwrap_err();
    assert_eq!(error.field(), "props");
}
