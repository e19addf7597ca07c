//! `tracing` events of a handler as its log lines: a layer of the program that passes each event to
//! `TaskContext::log` of the task whose handler runs.
//!
//! ```sh
//! cargo run --example traced
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fmt::{Debug, Write};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt},
};
use windlass::{BoxError, Client, Message, NewTask, Runner, Store, TaskContext, store::LogQuery};

tokio::task_local! {
    /// The task whose handler runs.
    static TASK: TaskContext;
}

struct TaskLines;

impl<S: Subscriber> Layer<S> for TaskLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        // An event outside a handler is of no task.
        let _ = TASK.try_with(|task| task.log(line.0));
    }
}

/// The text of an event: the level, then the message and the fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

async fn resize(task: TaskContext) -> Message {
    TASK.scope(task, async {
        for picture in ["a.png", "b.png"] {
            tracing::info!(picture, "resized");
        }
        Message::complete()
    })
    .await
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing::subscriber::set_global_default(Registry::default().with(TaskLines))?;
    let store = Store::open("memory:").await?;
    let runner = Runner::builder(&store)
        .handler("resize", resize)
        .start()
        .await?;
    let client = Client::new(&store);
    let id = client.submit(NewTask::new("resize")).await?.into_id();
    client.wait(&id).await?;
    for line in client.log_lines(&id, &LogQuery::default()).await?.lines {
        println!("{}", line.text);
    }
    runner.shutdown().await;
    Ok(())
}
