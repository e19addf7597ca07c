//! Effects: tasks and commands in the write of a transition.

use serde_json::json;
use windlass::{
    BoxError, Command, KindConfig, Message, NewTask, Retry, StateKind, TaskContext, TaskStatus,
    store::Error,
};

use super::support::World;

#[tokio::test(start_paused = true)]
async fn effects_are_done_with_the_transition_or_not_at_all() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler_with(
            "parent",
            KindConfig::default().retry(Retry::Never),
            |task: TaskContext| async move {
                let child: String = task.props()?;
                let child = NewTask::new("child").id(child);
                let other = NewTask::new("child").id(format!("{}-other", task.id()));
                Ok::<_, BoxError>(Message::complete().and_submit(other).and_submit(child))
            },
        )
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("parent").id("p1").props("c1"))
        .await
        .unwrap()
        .into_id();
    assert!(world.client.wait(&id).await.unwrap().is_completed());
    assert_eq!(
        world.code(&"c1".parse().unwrap()).await,
        StateKind::Runnable
    );
    // The second parent's child exists already: the whole message fails, with the reason.
    let id = world
        .client
        .submit(NewTask::new("parent").id("p2").props("c1"))
        .await
        .unwrap()
        .into_id();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    assert!(
        done.error().unwrap().contains("task 'c1' exists already"),
        "{:?}",
        done.error()
    );
    let other = world.client.get("p2-other").await;
    assert!(matches!(other, Err(Error::NotFound { .. })), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_a_handler_sends_reaches_the_other_task() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("waits", |_: TaskContext| async { Message::pause() })
        .handler("frees", |_: TaskContext| async {
            let command = Command::Complete {
                result: Some(json!(7).into()),
            };
            Ok::<_, BoxError>(Message::complete().and_send("other", "free-1", command))
        })
        .start()
        .await
        .unwrap();
    let other = world
        .client
        .submit(NewTask::new("waits").id("other"))
        .await
        .unwrap()
        .into_id();
    world.rest(&other, StateKind::Paused).await;
    world.client.submit(NewTask::new("frees")).await.unwrap();
    let done = world.client.wait(&other).await.unwrap();
    assert_eq!(
        done.state.status,
        TaskStatus::Completed {
            result: Some(json!(7).into())
        }
    );
}

/// A task that a handler submits belongs to the trace of the task that submits it, unless it names another.
#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_message_belong_to_the_trace_of_the_task() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("parent", |task: TaskContext| async move {
            assert_eq!(task.trace().unwrap().parent(), PARENT);
            let own = NewTask::new("child").id("own").meta("traceparent", "mine");
            Message::complete()
                .and_submit(NewTask::new("child").id("passed"))
                .and_submit(own)
        })
        .start()
        .await
        .unwrap();
    let task = NewTask::new("parent").meta("traceparent", PARENT);
    let id = world.client.submit(task).await.unwrap().into_id();
    assert!(world.client.wait(&id).await.unwrap().is_completed());
    for (id, expected) in [("passed", PARENT), ("own", "mine")] {
        let child = world.client.get(id).await.unwrap();
        assert_eq!(child.task.meta["traceparent"], expected, "{id}");
    }
}
