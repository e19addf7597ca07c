//! The canonical example: a task that outlives its process.
//!
//! ```sh
//! cargo run --example countdown          # interrupt it, or kill -9 it, and run it again:
//! cargo run --example countdown          # it resumes where it was
//! cargo run --example countdown -- 3     # a shorter one
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{BoxError, Client, Job, Message, NewTask, Runner, Store, TaskContext};

/// The props: what is submitted.
#[derive(Serialize, Deserialize)]
struct Countdown {
    from: u32,
}

impl Job for Countdown {
    const KIND: &'static str = "countdown";
    type Data = u32;
    type Output = String;
}

/// One step of the countdown. The data is durable before the next step begins.
async fn count_down(task: TaskContext<Countdown>) -> Result<Message<Countdown>, BoxError> {
    let left = task.data()?.unwrap_or(task.job().from);
    println!("{}: {left}", task.id());
    if left == 0 {
        return Ok(Message::complete_with("lift-off".into()));
    }
    Ok(Message::sleep_for(Duration::from_secs(1)).with_data(&(left - 1)))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let from: u32 = std::env::args().nth(1).as_deref().unwrap_or("20").parse()?;
    let store = Store::open("sqlite:countdown.db").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store).job(count_down).start().await?;

    // The same task again, if it is there already.
    let flight = client
        .submit(NewTask::of(Countdown { from }).id("apollo").idempotent())
        .await?;

    tokio::select! {
        output = flight.wait() => println!("{}", output?),
        _ = tokio::signal::ctrl_c() => println!("interrupted; run it again to continue"),
    }
    runner.shutdown().await;
    Ok(())
}
