//! A poller that runs on and takes a new interval from a signal. The interval is its data: the reply and the
//! data are one write.
//!
//! ```sh
//! cargo run --example poller_interval
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass::{BoxError, Client, Command, Message, NewTask, Runner, Store, TaskContext};

pub(crate) async fn poll(task: TaskContext) -> Result<Message, BoxError> {
    let commands = task.commands();
    let mut millis: u64 = task.data()?.unwrap_or(60_000);
    loop {
        tokio::select! {
            Some(command) = commands.next() => {
                let Command::Signal(signal) = command else { continue };
                match signal.payload::<u64>() {
                    Ok(wanted) => {
                        task.answer_with(&signal, &millis, &wanted).await?;
                        millis = wanted;
                    }
                    // With `?` the next attempt would get the same signal.
                    Err(error) => task.answer(&signal, &format!("refused: {error}")).await?,
                }
            }
            stop = task.stop_requested() => return Ok(stop.message()),
            () = tokio::time::sleep(Duration::from_millis(millis)) => {
                println!("polled after {millis} ms");
                if millis < 60_000 {
                    return Ok(Message::complete_with(millis));
                }
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("memory:").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("poll", poll)
        .start()
        .await?;
    let poller = client.submit(NewTask::new("poll")).await?;
    let before: u64 = client.signal(&poller, "interval", &20).await?;
    println!("the interval was {before} ms");
    let interval: u64 = poller.wait().await?;
    println!("the interval is {interval} ms");
    runner.shutdown().await;
    Ok(())
}
