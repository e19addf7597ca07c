//! The results of the tasks that a run has waited for, and the client of a handler.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Command, Job, Limit, Message, NewTask, Retry, StateKind, TaskContext,
    testing::{Fault, Operation},
};

use super::support::World;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "part", output = String)]
struct Part {
    bytes: usize,
}

/// Fails without bytes to make.
async fn part(task: TaskContext<Part>) -> Result<Message<Part>, BoxError> {
    match task.job().bytes {
        0 => Ok(Message::fail("no bytes")),
        bytes => Ok(Message::complete_with("x".repeat(bytes))),
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "join", output = (usize, Vec<String>))]
struct Join {
    /// The bytes of each part.
    parts: Vec<usize>,
}

/// Returns the bytes of all parts, and why others have none.
async fn join(task: TaskContext<Join>) -> Result<Message<Join>, BoxError> {
    let parts = task.job().parts.iter().copied().enumerate();
    let id = |n: usize| format!("{}-{n}", task.id());
    if task.waited().is_empty() {
        let message = Message::wait_for((0..parts.len()).map(id));
        let submit = |message: Message<Join>, (n, bytes)| {
            message.and_submit(NewTask::of(Part { bytes }).id(id(n)))
        };
        return Ok(parts.fold(message, submit));
    }
    let (mut bytes, mut failures) = (0, Vec::new());
    let mut outputs = task.waited().outputs::<String>();
    while let Some(part) = outputs.next().await? {
        match part.output {
            Ok(text) => bytes += text.len(),
            Err(reason) => failures.push(reason.to_string()),
        }
    }
    Ok(Message::complete_with((bytes, failures)))
}

#[tokio::test(start_paused = true)]
async fn a_join_reads_the_output_of_each_part_or_why_it_has_none() {
    let world = World::new().await;
    let node = world.node("n").job(part).job(join);
    let _node = node.start().await.unwrap();
    let mut parts: Vec<usize> = (0..120).map(|n| n % 7 + 1).collect();
    (parts[40], parts[100]) = (0, 300_000);
    let wanted: usize = parts.iter().sum();
    let task = NewTask::of(Join { parts }).id("j");
    let task = world.client.submit(task).await.unwrap();
    let (bytes, failures) = task.wait().await.unwrap();
    assert_eq!(bytes, wanted);
    assert_eq!(failures, ["task 'j-40' failed: no bytes"]);
}

/// The results are those of now: the outcomes are those of the claim.
#[tokio::test(start_paused = true)]
async fn a_part_that_was_deleted_after_the_claim_has_no_output() {
    let world = World::new().await;
    let late = |task: TaskContext| async move {
        let mut outputs = task.waited().outputs::<String>();
        task.client().delete("p").await?;
        let Some(part) = outputs.next().await? else {
            return Ok(Message::fail("there is one part"));
        };
        let reason = part.output.map_err(|reason| reason.to_string());
        Ok::<_, BoxError>(Message::complete_with((part.outcome, reason.err())))
    };
    let node = world.node("n").job(part).handler("late", late);
    let _node = node.start().await.unwrap();
    let first = NewTask::of(Part { bytes: 1 }).id("p");
    world.client.submit(first).await.unwrap();
    let task = NewTask::new("late").after(["p"]);
    let task = world.client.submit(task).await.unwrap();
    let (outcome, reason): (String, Option<String>) = task.wait().await.unwrap();
    assert_eq!(outcome, "completed");
    let missing = "task 'p' does not exist: it never did, was deleted, or was pruned";
    assert_eq!(reason.as_deref(), Some(missing));
}

#[tokio::test(start_paused = true)]
async fn a_store_error_ends_no_reader_of_outputs() {
    let world = World::new().await;
    let faults = world.faults.clone();
    let reads = move |task: TaskContext| {
        let faults = faults.clone();
        async move {
            let mut outputs = task.waited().outputs::<String>();
            faults.fail(Operation::Read, Fault::Before, 1000);
            let failed = outputs.next().await.is_err();
            faults.heal();
            let part = outputs.next().await?.map(|part| part.task.to_string());
            Ok::<_, BoxError>(Message::complete_with((failed, part)))
        }
    };
    let node = world.node("n").job(part).handler("reads", reads);
    let _node = node.start().await.unwrap();
    let first = NewTask::of(Part { bytes: 1 }).id("p");
    world.client.submit(first).await.unwrap();
    let task = NewTask::new("reads").after(["p"]);
    let task = world.client.submit(task).await.unwrap();
    let read: (bool, Option<String>) = task.wait().await.unwrap();
    assert_eq!(read, (true, Some("p".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn the_changes_of_a_handlers_client_name_its_task() {
    let world = World::new().await;
    let handler = |task: TaskContext| async move {
        let client = task.client();
        let child = client.submit(NewTask::new("other").id("child")).await?;
        client.command(&child, Command::Pause).await?;
        Ok::<_, BoxError>(Message::complete())
    };
    let node = world.node("n").handler("k", handler);
    let _node = node.start().await.unwrap();
    let task = world.client.submit(NewTask::new("k").id("t")).await;
    task.unwrap().done().await.unwrap();
    let commands = world.client.commands("child").await.unwrap();
    assert_eq!(commands[0].by.as_ref().unwrap().as_str(), "task t");
    let history = world.client.history("child", 10).await.unwrap();
    assert_eq!(history[0].by.as_ref().unwrap().as_str(), "task t");
    assert_eq!(
        world.code(&"child".parse().unwrap()).await,
        StateKind::Runnable
    );
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "call", data = u32)]
#[job(retry = Retry::exponential(2, Duration::from_secs(1)))]
#[job(limits = [Limit::at_once(format!("customer={}", self.customer), 1)?])]
struct Call {
    customer: String,
}

#[tokio::test(start_paused = true)]
async fn a_derived_job_gives_its_tasks_a_retry_policy_and_limits() {
    let world = World::new().await;
    let fails = |_: TaskContext<Call>| async { Message::<Call>::error("busy") };
    let node = world.node("n").job(fails).start().await.unwrap();
    let call = |customer: &str| Call {
        customer: customer.to_owned(),
    };
    let task = world.client.submit(call("acme")).await.unwrap();
    let done = task.done().await.unwrap();
    assert_eq!(done.state.errors.total(), 2, "both attempts");
    assert_eq!(done.task.limits[0].key(), "customer=acme");
    node.shutdown().await;

    let own = NewTask::of(call("acme")).retry(Retry::exponential(5, Duration::from_secs(1)));
    let own = own
        .limit(Limit::at_once("all", 9).unwrap())
        .build()
        .unwrap();
    let keys: Vec<&str> = own.task.limits.iter().map(Limit::key).collect();
    assert_eq!(keys, ["customer=acme", "all"]);
    let policy = Retry::exponential(5, Duration::from_secs(1));
    assert_eq!(own.task.retry, Some(policy));
    let refused = NewTask::of(call("\n")).build().unwrap_err();
    assert_eq!(refused.field(), "limits.key", "{refused}");
}
