//! An agent: asks a model what to do, calls tools, and waits for a person before it does what cannot be undone.
//!
//! ```sh
//! cargo run --example agent
//! ```
//!
//! The same in Python: `sdk/python/examples/agent.py`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use serde::{Deserialize, Serialize};
use windlass::{BoxError, Client, Command, Message, NewTask, Runner, Store, TaskContext};

/// One step of the conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Step {
    /// The model asks for a call of a tool.
    Call { tool: String, input: String },
    /// The tool has returned this.
    Tool { tool: String, output: String },
    /// The model has an answer.
    Answer { text: String },
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Conversation {
    steps: Vec<Step>,
    /// What a person has said about the last call; `None` before they were asked.
    approved: Option<bool>,
}

/// Stands for a language model: returns a call of a tool, or an answer.
fn model(goal: &str, steps: &[Step]) -> Step {
    let call = |tool: &str, input: &str| Step::Call {
        tool: tool.to_owned(),
        input: input.to_owned(),
    };
    match steps.last() {
        Some(Step::Tool { tool, .. }) if tool == "search" => call("book", "OS-117"),
        Some(Step::Tool { output, .. }) => Step::Answer {
            text: format!("done: {output}"),
        },
        _ => call("search", goal),
    }
}

/// Calls a tool. `key` is the same when the call is repeated after a crash: a good service books once for each key.
fn call(tool: &str, input: &str, _key: &str) -> String {
    match tool {
        "book" => format!("booked {input}"),
        _ => "flight OS-117, 240 EUR".to_owned(),
    }
}

pub(crate) async fn agent(task: TaskContext) -> Result<Message, BoxError> {
    let goal: String = task.props()?;
    let mut state: Conversation = task.data()?.unwrap_or_default();
    let commands = task.commands();
    loop {
        if task.should_stop() {
            return Ok(task.stop_requested().await.message());
        }
        match state.steps.last().cloned() {
            Some(Step::Answer { text }) => return Ok(Message::complete_with(text)),
            Some(Step::Call { tool, .. }) if tool == "book" && state.approved.is_none() => {
                match commands.try_next() {
                    Some(Command::Signal(signal)) if signal.name() == "approve" => {
                        match signal.payload() {
                            Ok(approved) => {
                                state.approved = Some(approved);
                                task.answer_with(&signal, &"thanks", &state).await?;
                            }
                            // With `?` the next attempt would get the same signal.
                            Err(error) => {
                                task.answer(&signal, &format!("refused: {error}")).await?;
                            }
                        }
                    }
                    Some(_) => {}
                    // No process waits; a signal wakes the task.
                    None => return Ok(Message::pause().with_data(&state)),
                }
                continue;
            }
            Some(Step::Call { tool, .. }) if state.approved == Some(false) => {
                return Ok(Message::fail(format!("{tool} was refused")));
            }
            Some(Step::Call { tool, input }) => {
                let key = format!("{}-{}", task.id(), state.steps.len());
                let output = call(&tool, &input, &key);
                state.steps.push(Step::Tool { tool, output });
                state.approved = None;
            }
            // A call of a model costs money: what it says is stored before anything follows.
            _ => state.steps.push(model(&goal, &state.steps)),
        }
        task.checkpoint(&state).await?;
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let store = Store::open("sqlite:agent.db").await?;
    let client = Client::new(&store);
    let runner = Runner::builder(&store)
        .handler("agent", agent)
        .start()
        .await?;
    let task = NewTask::new("agent").id("trip").props("a flight to Oslo");
    let task = client.submit(task.replace_finished()).await?;
    let reply: String = client.signal(&task, "approve", &true).await?;
    println!("the agent says {reply}");
    let result: String = task.wait().await?;
    println!("{result}");
    runner.shutdown().await;
    Ok(())
}
