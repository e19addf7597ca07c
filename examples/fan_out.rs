//! Varies `countdown`: a task that submits others in the write that completes it. Either all of them
//! exist and the task has completed, or none exists and the task runs again.
//!
//! ```sh
//! cargo run --example fan_out
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext,
    store::{Filter, Store},
};

async fn split(task: TaskContext) -> Result<Message, BoxError> {
    let words: Vec<String> = task.props()?;
    let mut message = Message::complete();
    for (n, word) in words.iter().enumerate() {
        let part = NewTask::new("shout")
            .id(format!("{}-{n}", task.id()))
            .props(word);
        message = message.and_submit(part);
    }
    Ok(message)
}

async fn shout(task: TaskContext) -> Result<Message, BoxError> {
    let word: String = task.props()?;
    Ok(Message::complete_with(&word.to_uppercase()))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("memory:").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("split", split)
        .handler("shout", shout)
        .start()
        .await?;

    let words = ["every", "part", "or", "none"];
    client
        .submit(NewTask::new("split").id("speech").props(&words))
        .await?;
    client.wait("speech").await?;
    client.wait_idle(&Filter::default()).await?;
    for n in 0..words.len() {
        let part = client.wait(format!("speech-{n}")).await?;
        println!("{} {}", part.task.id, part.result::<String>()?);
    }
    runner.shutdown().await;
    Ok(())
}
