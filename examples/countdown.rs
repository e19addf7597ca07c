//! The canonical example: a task that outlives its process.
//!
//! ```sh
//! cargo run --example countdown          # interrupt it, or kill -9 it, and run it again:
//! cargo run --example countdown          # it goes on where it was
//! cargo run --example countdown -- 3     # a shorter one
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass::{BoxError, Client, Message, NewTask, Runner, TaskContext, store::Store};

/// One step of the countdown. The data is durable before the next step begins.
async fn countdown(task: TaskContext) -> Result<Message, BoxError> {
    let from: u32 = task.props()?;
    let left = task.data()?.unwrap_or(from);
    println!("{}: {left}", task.id());
    if left == 0 {
        return Ok(Message::complete_with("lift-off"));
    }
    Ok(Message::sleep_for(Duration::from_secs(1)).with_data(&(left - 1)))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let from: u32 = std::env::args().nth(1).as_deref().unwrap_or("20").parse()?;
    let store = Store::open("sqlite:countdown.db").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("countdown", countdown)
        .start()
        .await?;

    // The same task again, if it is there already.
    let id = client
        .submit(
            NewTask::new("countdown")
                .id("apollo")
                .props(&from)
                .idempotent(),
        )
        .await?;

    tokio::select! {
        done = client.wait(&id) => println!("{:?}", done?.result::<String>()?),
        _ = tokio::signal::ctrl_c() => println!("interrupted; run it again to go on"),
    }
    runner.shutdown().await;
    Ok(())
}
