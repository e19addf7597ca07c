//! Varies `countdown`: a custom retry policy, and the dead-letter list.
//!
//! ```sh
//! cargo run --example own_retry
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use windlass::{
    BoxError, Client, Decision, Failure, KindConfig, Message, NewTask, RetryPolicy, Runner,
    StateKind, TaskContext,
    store::{Filter, Page, Store},
};

/// Tries three times, without a wait.
#[derive(Debug)]
struct ThreeTimes;

impl RetryPolicy for ThreeTimes {
    fn decide(&self, failure: &Failure<'_>) -> Decision {
        match failure.attempts {
            ..3 => Decision::Run,
            _ => Decision::Fail,
        }
    }
}

async fn deliver(task: TaskContext) -> Result<Message, BoxError> {
    let address: String = task.props()?;
    println!("{} attempt {}", task.id(), task.attempt());
    match address.as_str() {
        // The policy is not asked about an error that no retry fixes.
        "nowhere" => Ok(Message::fail("no such address")),
        "far away" if task.attempt() < 3 => Err("timed out".into()),
        _ => Ok(Message::complete()),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("memory:").await?;
    let client = Client::new(&store);
    let config = KindConfig::default().retry(ThreeTimes);
    let runner = Runner::builder(&store)
        .handler_with("deliver", config, deliver)
        .start()
        .await?;

    for (id, address) in [("a", "next door"), ("b", "far away"), ("c", "nowhere")] {
        client
            .submit(NewTask::new("deliver").id(id).props(address))
            .await?;
    }
    client.wait_idle(&Filter::default()).await?;

    let failed = Filter::new().states([StateKind::Failed]);
    for record in client.list(&failed, Page::default()).await? {
        let state = record.state?;
        let why = state.errors.last().map_or("", |e| &e.error);
        println!(
            "failed: {} ({why}); retry with client.retry()",
            record.task.id
        );
    }
    runner.shutdown().await;
    Ok(())
}
