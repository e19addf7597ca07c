//! A node in a namespace of Metafora: runs the tasks of Metafora's clients, obeys its commander,
//! and shares the work with its nodes. See `docs/learn/migrating-from-metafora.md`.
//!
//! ```sh
//! cargo run --features etcd --example beside_metafora -- 'etcd://127.0.0.1:2379/my/namespace?metafora-nodes=true' node-1
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::Deserialize;
use windlass::{BoxError, KindConfig, Message, Retry, Runner, TaskContext, store::Store};

/// What the Go program submits: the JSON of its task.
#[derive(Deserialize)]
struct Props {
    /// The number of steps; without it, the task runs until a command ends it.
    #[serde(default)]
    steps: Option<u32>,
    /// The sleep after a step, in milliseconds.
    #[serde(default)]
    pause_ms: u64,
}

/// Does the work of a `StatefulHandler` of Metafora: runs until a command requires a stop, and then
/// returns the message of that command.
async fn handler(task: TaskContext) -> Result<Message, BoxError> {
    let props: Option<Props> = task.props().ok();
    println!("{} runs", task.id());
    let Some((steps, pause_ms)) = props.and_then(|p| Some((p.steps?, p.pause_ms))) else {
        return Ok(task.stop_requested().await.message());
    };
    let done = task.data()?.unwrap_or(0) + 1;
    if done >= steps {
        return Ok(Message::complete());
    }
    Ok(Message::sleep_for(Duration::from_millis(pause_ms)).with_data(&done))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("give the namespace (etcd://HOST:PORT/NAMESPACE) and a name".into());
    };
    let store = Store::open(&url).await?;
    let runner = Runner::builder(&store)
        .node(name)
        // Tasks of Metafora name no kind. Eight errors within four hours fail one, as there.
        .default_handler(KindConfig::default().retry(Retry::strikes()), handler)
        .start()
        .await?;
    println!("{} works", runner.node());
    runner.run_until_signal().await?;
    Ok(())
}
