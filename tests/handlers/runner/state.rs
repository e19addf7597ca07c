//! The values that the handlers of a node share.

use std::any::type_name;

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Job, KindConfig, Message, NewTask, Retry, TaskContext,
    handler::MissingState,
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

#[tokio::test(start_paused = true)]
async fn a_missing_value_is_an_error_that_names_the_type() {
    let world = World::new().await;
    let node = world.node("n").state(Rate(7)).handler("price", price);
    let node = node.start().await.unwrap();
    let task = NewTask::new("price").retry(Retry::Never);
    let task = world.client.submit(task).await.unwrap();
    let error = task.wait::<String>().await.unwrap_err().to_string();
    let missing = format!("there is no state of the type {}", type_name::<Unit>());
    assert!(error.contains(&missing), "{error}");
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
