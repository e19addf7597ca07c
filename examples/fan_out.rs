//! Varies `countdown`: a task that submits others and waits for them in one write, and collects their results in
//! its next run. Either all of them exist and the task waits, or none exists and the task runs again.
//!
//! ```sh
//! cargo run --example fan_out
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use windlass::{BoxError, Client, Message, NewTask, Runner, TaskContext, store::Store};

/// The first run submits the parts; the second one joins them.
async fn speech(task: TaskContext) -> Result<Message, BoxError> {
    if !task.waited().is_empty() {
        let mut words = Vec::new();
        let mut parts = task.waited().outputs::<String>();
        while let Some(part) = parts.next().await? {
            println!("{} {}", part.task, part.outcome);
            words.push(part.output?);
        }
        return Ok(Message::complete_with(words.join(" ")));
    }
    let words: Vec<String> = task.props()?;
    // A wait for no task ends at once and leaves `waited` empty: without this, the handler of an empty list would run
    // again for ever.
    if words.is_empty() {
        return Ok(Message::complete_with(""));
    }
    let id = |n: usize| format!("{}-{n}", task.id());
    let mut message = Message::wait_for_ok((0..words.len()).map(id));
    for (n, word) in words.iter().enumerate() {
        message = message.and_submit(NewTask::new("shout").id(id(n)).props(word));
    }
    Ok(message)
}

async fn shout(task: TaskContext) -> Result<Message, BoxError> {
    let word: String = task.props()?;
    Ok(Message::complete_with(word.to_uppercase()))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("memory:").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("speech", speech)
        .handler("shout", shout)
        .start()
        .await?;

    for (id, words) in [
        ("speech", &["every", "part", "or", "none"][..]),
        ("silence", &[]),
    ] {
        client
            .submit(NewTask::new("speech").id(id).props(&words))
            .await?;
        let speech = client.wait(id).await?;
        println!("{id}: {:?}", speech.result::<String>()?);
    }
    runner.shutdown().await;
    Ok(())
}
