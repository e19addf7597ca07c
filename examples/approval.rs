//! A task that pauses until it is approved, and replies to the approval.
//!
//! ```sh
//! cargo run --example approval            # asks for approval, approves it, and prints the reply
//! ```
//!
//! From another terminal the same signal is
//! `windlass --store sqlite:approval.db signal release-7 approve --payload '"ann"' --wait`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use windlass::{BoxError, Client, Command, Message, NewTask, Runner, Store, TaskContext};

/// The one who may approve is in the props.
async fn release(task: TaskContext) -> Result<Message, BoxError> {
    let approver: String = task.props()?;
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => {
                let Command::Signal(signal) = command else { continue };
                // An error would be an attempt, and the next one would meet the same signal.
                let by = match signal.payload::<String>() {
                    Ok(by) => by,
                    Err(error) => {
                        task.answer(&signal, &format!("refused: {error}")).await?;
                        continue;
                    }
                };
                if by == approver {
                    let message = Message::complete_with(format!("approved by {by}"));
                    return Ok(message.answer(&signal, &"released"));
                }
                // The reply is durable, and the task still waits.
                task.answer(&signal, &format!("refused: only {approver} may approve")).await?;
            }
            stop = task.stop_requested() => return Ok(stop.message()),
            // No signal waits. A paused task costs nothing; a signal wakes it.
            () = std::future::ready(()) => return Ok(Message::pause()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("sqlite:approval.db").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("release", release)
        .start()
        .await?;
    let task = NewTask::new("release").id("release-7").props("ann");
    let task = task.replace_finished();
    let task = client.submit(task).await?;
    for by in ["bob", "ann"] {
        let reply: String = client.signal(&task, "approve", by).await?;
        println!("{by}: {reply}");
    }
    let result: String = task.wait().await?;
    println!("{result}");
    runner.shutdown().await;
    Ok(())
}
