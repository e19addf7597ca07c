//! A schedule: a task that submits a run every two seconds, three times.
//!
//! The schedule sleeps in the store between its times, so another node continues where this one stops:
//! stop the program with ctrl-c and start it again.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass::{
    BoxError, Client, Message, NewTask, Runner, Store, TaskContext,
    schedule::{Overlap, Schedule},
};

async fn report(task: TaskContext) -> Message {
    if let Some(time) = task.scheduled_for() {
        println!("the report of {}", time.nominal);
    }
    Message::complete()
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("sqlite:schedule.db").await?;
    let client = Client::new(&store);
    // Every node runs schedules.
    let runner = Runner::builder(&store)
        .handler("report", report)
        .start()
        .await?;

    let every = Schedule::new(NewTask::new("report"))
        .every(Duration::from_secs(2), None)
        .count(3)
        .overlap(Overlap::Skip);
    match client.schedules().create("reports", every).await {
        Err(windlass::store::Error::AlreadyExists { .. }) => println!("going on"),
        created => drop(created?),
    }
    for time in client.schedules().preview("reports", 1).await? {
        println!("the next is at {}", time.nominal);
    }

    client.wait("reports").await?;
    println!("all three are submitted");
    runner.shutdown().await;
    Ok(())
}
