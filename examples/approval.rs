//! A task that waits until it is approved, for three days at most, and replies to the approval.
//!
//! ```sh
//! cargo run --example approval            # asks for approval, approves it, and prints the reply
//! ```
//!
//! From another terminal the same signal is
//! `windlass --store sqlite:approval.db signal release-7 approve --payload '"ann"' --wait`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use windlass::{
    AwaitedSignal, BoxError, Client, Command, Message, NewTask, Runner, Store, TaskContext,
};

const THREE_DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

/// The one who may approve is in the props.
pub(crate) async fn release(task: TaskContext) -> Result<Message, BoxError> {
    let approver: String = task.props()?;
    while let Some(command) = task.commands().try_next() {
        let Command::Signal(signal) = command else {
            continue;
        };
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
        task.answer(&signal, &format!("refused: only {approver} may approve"))
            .await?;
    }
    if task.wait_expired() {
        return Ok(Message::fail("nobody has approved within three days"));
    }
    let asked = AwaitedSignal::new("approve").with_text("Release it? Sign with your name.");
    let waits = Message::wait_for_signal(asked);
    // A task that waits costs nothing. A signal that is refused does not prolong the wait.
    Ok(match task.awaited_signal().and_then(AwaitedSignal::until) {
        Some(deadline) => waits.deadline(deadline),
        None => waits.within(THREE_DAYS),
    })
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
