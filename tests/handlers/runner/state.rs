//! The values that the handlers of a node share.

use std::{any::type_name, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Job, KindConfig, Message, NewTask, Retry, StateKind, TaskContext,
    handler::{MissingState, TaskBatch},
    runner::{ChangeError, StartError},
};

use super::support::World;

#[derive(Serialize, Deserialize)]
struct Amount(u64);

impl Job for Amount {
    const KIND: &'static str = "amount";
    type Data = ();
    type Output = u64;
}

async fn priced(task: TaskContext<Amount>) -> Result<u64, MissingState> {
    let Rate(rate) = task.state()?;
    Ok(task.job().0 * rate)
}

struct Rate(u64);
struct Unit(&'static str);

async fn price(task: TaskContext) -> Result<Message, MissingState> {
    let (Rate(rate), Unit(unit)) = (task.state()?, task.state()?);
    Ok(Message::complete_with(format!("{rate} {unit}")))
}

#[tokio::test(start_paused = true)]
async fn handlers_take_what_their_node_shares_by_type() {
    let world = World::new().await;
    let node = world.node("n").state(Rate(7)).state(Unit("EUR"));
    let node = node.handler("price", price).start().await.unwrap();
    let task = world.client.submit(NewTask::new("price")).await.unwrap();
    assert_eq!(task.wait::<String>().await.unwrap(), "7 EUR");
    // One that is added later has the same.
    let added = node.add_handler("later", needs::<Unit>(), price).await;
    added.unwrap();
    node.add_job(needs::<Rate>(), priced).await.unwrap();
    let task = world.client.submit(Amount(3)).await.unwrap();
    assert_eq!(task.wait().await.unwrap(), 21);
    let task = world.client.submit(NewTask::new("later")).await.unwrap();
    assert_eq!(task.wait::<String>().await.unwrap(), "7 EUR");
    node.shutdown().await;
}

/// The node had no such value, and each of its runs was a failed attempt: after a minute the task had failed for good.
#[tokio::test(start_paused = true)]
async fn a_missing_value_is_a_fault_of_the_node_and_costs_no_attempt() {
    async fn unwraps(task: TaskContext) -> Message {
        let Unit(unit) = task.state().unwrap();
        Message::complete_with(*unit)
    }
    async fn wraps(task: TaskContext) -> Result<Message, BoxError> {
        let unit: Result<&Unit, _> = task.state();
        let Unit(unit) = unit.map_err(|missing| Box::new(Wrapped(missing)))?;
        Ok(Message::complete_with(*unit))
    }
    let rows = |batch: TaskBatch| async move {
        let Unit(unit) = batch.tasks()[0].state()?;
        Ok::<_, BoxError>(Message::complete_with(*unit))
    };
    let world = World::new().await;
    let node = |name| {
        let node = world.node(name).state(Rate(7)).handler("price", price);
        let node = node.handler("unwraps", unwraps).handler("wraps", wraps);
        node.batch_handler("rows", 2, Duration::ZERO, rows)
    };
    let without = node("without").start().await.unwrap();
    let mut tasks = Vec::new();
    for kind in ["price", "unwraps", "wraps", "rows", "rows"] {
        let task = NewTask::new(kind).retry(Retry::Never);
        tasks.push(world.client.submit(task).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    for task in &tasks {
        let state = world.client.get(task).await.unwrap().state.unwrap();
        assert_eq!(state.code(), StateKind::Runnable);
        assert_eq!((state.attempts, state.errors.total()), (0, 0));
    }
    let nodes = world.client.nodes().await.unwrap();
    let faults = &nodes[0].status.faults;
    let mut kinds: Vec<&str> = faults.iter().map(|fault| fault.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["price", "rows", "unwraps", "wraps"]);
    let missing = format!("there is no state of the type {}", type_name::<Unit>());
    for fault in faults {
        assert!(fault.reason.contains(&missing), "{fault:?}");
    }
    // A node that has the value runs the tasks.
    let with = node("with").state(Unit("EUR")).start().await.unwrap();
    for task in &tasks {
        assert!(world.client.wait(task).await.unwrap().is_completed());
    }
    without.shutdown().await;
    with.shutdown().await;
}

#[derive(Debug, thiserror::Error)]
#[error("could not price: {0}")]
struct Wrapped(#[source] MissingState);

/// A handler may do without a value, and may make an error of its own of the text.
#[tokio::test(start_paused = true)]
async fn a_missing_value_that_a_handler_does_without_is_no_fault() {
    async fn either(task: TaskContext) -> Result<Message, BoxError> {
        let unit = task.state::<Unit>().map(|Unit(unit)| *unit);
        match task.props::<bool>()? {
            true => Ok(Message::complete_with(unit.unwrap_or("none"))),
            false => Ok(Message::complete_with(unit.map_err(|e| e.to_string())?)),
        }
    }
    let world = World::new().await;
    let node = world.node("n").handler("k", either).start().await.unwrap();
    let task = |props| NewTask::new("k").props(&props).retry(Retry::Never);
    let without = world.client.submit(task(true)).await.unwrap();
    assert_eq!(without.wait::<String>().await.unwrap(), "none");
    let text = world.client.submit(task(false)).await.unwrap();
    let error = text.wait::<String>().await.unwrap_err().to_string();
    assert!(error.contains("there is no state of the type"), "{error}");
    node.shutdown().await;
}

fn needs<T: Send + Sync + 'static>() -> KindConfig {
    KindConfig::default().needs_state::<T>()
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_needed_is_checked_at_the_start() -> Result<(), BoxError> {
    let world = World::new().await;
    let node = || world.node("n").state(Rate(7));
    let missing = node()
        .handler_with("price", needs::<Unit>(), price)
        .start()
        .await;
    let Err(StartError::MissingState { kind, missing }) = missing else {
        panic!("{missing:?}")
    };
    assert_eq!(
        (&*kind, missing.type_name()),
        ("'price'", type_name::<Unit>())
    );
    let default = node().default_handler(needs::<Unit>(), price).start().await;
    assert!(
        matches!(default, Err(StartError::MissingState { .. })),
        "{default:?}"
    );

    let twice = node().state(Rate(8)).handler("price", price).start().await;
    let Err(StartError::Invalid(invalid)) = twice else {
        panic!("{twice:?}")
    };
    assert_eq!(invalid.field(), "state");

    let node = node()
        .handler_with("price", needs::<Rate>(), price)
        .start()
        .await?;
    let added = node.add_handler("later", needs::<Unit>(), price).await;
    assert!(
        matches!(added, Err(ChangeError::MissingState { .. })),
        "{added:?}"
    );
    node.shutdown().await;
    Ok(())
}
