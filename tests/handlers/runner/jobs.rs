//! Typed kinds: handlers of a [`Job`], and handles that return its output.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Command, Job, Message, NewTask, Retry, StateKind, StatefulHandler, TaskContext,
    client::{TaskFailed, WaitError},
};

use super::support::World;

/// Adds up, one number a checkpoint.
#[derive(Serialize, Deserialize)]
struct Sum {
    numbers: Vec<i64>,
}

impl Job for Sum {
    const KIND: &'static str = "sum";
    type Data = (usize, i64);
    type Output = i64;
}

async fn sum(task: TaskContext<Sum>) -> Result<Message<Sum>, BoxError> {
    let (next, sum) = task.data()?.unwrap_or_default();
    match task.job().numbers.get(next) {
        None => Ok(Message::complete_with(sum)),
        Some(n) if *n < 0 => Ok(Message::fail(format_args!("{n} is negative"))),
        Some(n) => Ok(Message::run().with_data(&(next + 1, sum + n))),
    }
}

fn numbers(numbers: &[i64]) -> Sum {
    Sum {
        numbers: numbers.to_vec(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_returns_the_output_or_why_there_is_none() {
    let world = World::new().await;
    let node = world.node("n").job(sum).start().await.unwrap();

    let good = world.client.submit(numbers(&[1, 2, 3])).await.unwrap();
    assert!(good.is_new());
    assert_eq!(good.wait().await.unwrap(), 6);
    let record = world.client.get(&good).await.unwrap();
    assert_eq!(record.task.kind.as_str(), "sum");
    assert_eq!(record.task.props.as_str(), r#"{"numbers":[1,2,3]}"#);

    let bad = NewTask::of(numbers(&[1, -2])).id("bad").priority(7);
    let bad = world.client.submit(bad).await.unwrap();
    let Err(WaitError::Failed(failed)) = bad.wait().await else {
        panic!("a failed task has no output");
    };
    assert_eq!(failed.to_string(), "task 'bad' failed: -2 is negative");
    assert_eq!(failed.code, StateKind::Failed);

    let killed = NewTask::of(numbers(&[1]))
        .id("killed")
        .start_in(Duration::from_secs(60));
    let killed = world.client.submit(killed).await.unwrap();
    world.client.command(&killed, Command::Kill).await.unwrap();
    let Err(WaitError::Failed(TaskFailed { code, .. })) = killed.wait().await else {
        panic!("a killed task has no output");
    };
    assert_eq!(code, StateKind::Killed);
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn props_and_results_of_another_type_fail_by_name() {
    let world = World::new().await;
    let node = world
        .node("n")
        .job(sum)
        .handler("text", |_: TaskContext| async {
            Message::complete_with("no number")
        });
    let node = node.start().await.unwrap();

    // Submitted without the type: it fails at once, and the reason names the field.
    let props = NewTask::new("sum").props(&"one, two");
    let untyped = world.client.submit(props).await.unwrap();
    let done = untyped.done().await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    assert_eq!(done.state.attempts, 1, "a retry cannot fix it");
    assert!(done.error().unwrap().starts_with("props: "), "{done:?}");

    let text = world.client.submit(NewTask::new("text")).await.unwrap();
    let typed = world.client.handle::<Sum>(text.id()).unwrap();
    let unreadable = typed.wait().await.unwrap_err();
    assert!(
        matches!(unreadable, WaitError::Unreadable(_)),
        "{unreadable}"
    );
    node.shutdown().await;
}

/// Regression: a failed task was read as one without a result: `wait(..)?.result()?` was `None` for
/// both.
#[tokio::test(start_paused = true)]
async fn a_failure_is_no_absent_result() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("fails", |_: TaskContext| async { Message::fail("no") })
        .handler("empty", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    let fails = world.client.submit(NewTask::new("fails")).await.unwrap();
    let done = fails.done().await.unwrap();
    assert!(matches!(
        done.result::<Option<u32>>(),
        Err(WaitError::Failed(_))
    ));
    assert_eq!(done.result_json(), None);
    let empty = world.client.submit(NewTask::new("empty")).await.unwrap();
    let done = empty.done().await.unwrap();
    assert_eq!(done.result::<Option<u32>>().unwrap(), None);
    done.result::<()>().unwrap();
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_json_form_fails_the_task_with_the_field() {
    let world = World::new().await;
    let odd = || HashMap::from([((1, 2), 3)]);
    let node = world
        .node("n")
        .handler("result", move |_: TaskContext| async move {
            Message::complete_with(odd())
        })
        .handler("data", move |_: TaskContext| async move {
            Message::run().with_data(&odd())
        })
        .handler("child", |_: TaskContext| async {
            Message::complete().and_submit(NewTask::new("child").id("a/b"))
        })
        .handler("target", |_: TaskContext| async {
            Message::complete().and_send("a/b", "c", Command::Pause)
        });
    let node = node.start().await.unwrap();
    for (kind, field) in [
        ("result", "result: "),
        ("data", "data: "),
        ("child", "id: "),
        ("target", "id: "),
    ] {
        let task = world.client.submit(NewTask::new(kind)).await.unwrap();
        let done = task.done().await.unwrap();
        assert_eq!(done.code(), StateKind::Failed, "{kind}");
        let error = done.error().unwrap();
        assert!(error.contains(field), "{kind}: {error}");
        assert_eq!(done.state.attempts, 1, "{kind}: a retry cannot fix it");
    }
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn submits_of_one_and_of_many_report_what_was_new() {
    let world = World::new().await;
    let task = || NewTask::of(numbers(&[1])).id("same").idempotent();
    assert!(world.client.submit(task()).await.unwrap().is_new());
    let again = world.client.submit(task()).await.unwrap();
    assert_eq!(again.existing(), Some(StateKind::Runnable));
    let other = |id: &str| NewTask::of(numbers(&[2])).id(id);
    let many = [task(), other("other"), other("a/b")];
    let many = world.client.submit_many(many).await;
    assert!(!many[0].as_ref().unwrap().is_new());
    assert!(many[1].as_ref().unwrap().is_new());
    assert!(
        many[2]
            .as_ref()
            .unwrap_err()
            .to_string()
            .starts_with("id: ")
    );
    let bad = world.client.get("a/b").await.unwrap_err();
    assert!(bad.to_string().starts_with("id: "), "{bad}");
}

#[tokio::test(start_paused = true)]
async fn start_in_counts_from_the_submit_by_the_clock_of_the_store() {
    let world = World::new().await;
    let hour = Duration::from_secs(3600);
    let task = world
        .client
        .submit(NewTask::of(numbers(&[1])).start_in(hour));
    let task = task.await.unwrap();
    let record = world.client.get(&task).await.unwrap();
    let start = record.task.start_at.unwrap();
    assert_eq!(start.duration_since(record.submitted_at).as_secs(), 3600);
    let far = NewTask::of(numbers(&[1])).start_in(Duration::MAX);
    let error = world.client.submit(far).await.unwrap_err();
    assert!(error.to_string().starts_with("start_in: "), "{error}");
}

/// Returns its output, without a message.
async fn total(task: TaskContext<Sum>) -> Result<i64, BoxError> {
    let (next, sum) = task.data()?.unwrap_or_default();
    for n in &task.job().numbers[next..] {
        let negative = || format!("{n} is negative");
        u64::try_from(*n).map_err(|_| negative())?;
    }
    task.checkpoint(&(task.job().numbers.len(), sum)).await?;
    Ok(task.job().numbers.iter().sum())
}

#[tokio::test(start_paused = true)]
async fn a_handler_returns_its_output_without_a_message() {
    let world = World::new().await;
    let node = world.node("n").job(total).start().await.unwrap();
    let good = world.client.submit(numbers(&[1, 2, 3])).await.unwrap();
    assert_eq!(good.wait().await.unwrap(), 6);
    assert_eq!(good.done().await.unwrap().result::<i64>().unwrap(), 6);
    let bad = NewTask::of(numbers(&[-2])).retry(Retry::Never);
    let bad = world.client.submit(bad).await.unwrap();
    let error = bad.wait().await.unwrap_err().to_string();
    assert!(error.ends_with("failed: -2 is negative"), "{error}");
    node.shutdown().await;
}

/// The handler of a job is also a type; its data version is that of the job.
struct Adds(i64);

#[windlass::async_trait]
impl StatefulHandler<Sum> for Adds {
    async fn run(&self, task: TaskContext<Sum>) -> Message<Sum> {
        let sum: i64 = task.job().numbers.iter().sum();
        Message::complete_with(sum + self.0).with_data(&(1, sum))
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_is_the_handler_of_a_job() {
    let world = World::new().await;
    let node = world.node("n").job(Adds(10)).start().await.unwrap();
    let task = world.client.submit(numbers(&[1, 2])).await.unwrap();
    assert_eq!(task.wait().await.unwrap(), 13);
    let state = task.done().await.unwrap().state;
    assert_eq!(state.data.unwrap().as_str(), "[1,3]");
    node.shutdown().await;
}
