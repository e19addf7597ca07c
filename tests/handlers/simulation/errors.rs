//! `?` takes any error of the standard trait in every form of a handler.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use windlass::{
    BoxError, Client, Job, Message, NewTask, Retry, Runner, Store, TaskContext,
    handler::TaskBatch,
    testing::{Call, Ran},
};

/// An error of a program, without a conversion.
#[derive(Debug)]
struct OwnError;

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("own")
    }
}

impl std::error::Error for OwnError {}

fn fails() -> Result<u64, OwnError> {
    Err(OwnError)
}

/// Fails with an error of the standard library, one of a crate, and the one above.
fn number(text: &str) -> Result<u64, BoxError> {
    match text {
        "own" => Ok(fails()?),
        "json" => Ok(serde_json::from_str("no")?),
        other => Ok(other.parse::<u64>()?),
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Parse(String);

impl Job for Parse {
    const KIND: &str = "parse";
    type Data = ();
    type Output = u64;
}

async fn untyped(task: TaskContext) -> Result<Message, BoxError> {
    let text: String = task.props()?;
    Ok(Message::complete_with(number(&text)?))
}

async fn own_error(task: TaskContext) -> Result<Message, OwnError> {
    match task.props::<String>().as_deref() {
        Ok("7") => Ok(Message::complete_with(7)),
        _ => Ok(Message::complete_with(fails()?)),
    }
}

async fn message(task: TaskContext<Parse>) -> Result<Message<Parse>, BoxError> {
    Ok(Message::complete_with(number(&task.job().0)?))
}

async fn output(task: TaskContext<Parse>) -> Result<u64, BoxError> {
    match task.job().0.as_str() {
        "own" => Ok(fails()?),
        "json" => Ok(serde_json::from_str("no")?),
        other => Ok(other.parse()?),
    }
}

async fn output_or_own(task: TaskContext<Parse>) -> Result<u64, OwnError> {
    if task.job().0 == "7" { Ok(7) } else { fails() }
}

async fn each(text: &str) -> [Ran; 5] {
    let call = Call::new().props(text);
    [
        call.clone().run(untyped).await.unwrap(),
        call.clone().run(own_error).await.unwrap(),
        call.clone().run(message).await.unwrap(),
        call.clone().run(output).await.unwrap(),
        call.run(output_or_own).await.unwrap(),
    ]
}

#[tokio::test]
async fn every_form_of_a_handler_takes_every_error() {
    for ran in each("7").await {
        assert_eq!(ran.result::<u64>().unwrap(), Some(7));
    }
    for (text, says) in [
        ("own", "own"),
        ("json", "expected ident at line 1 column 2"),
        ("x", "invalid digit found in string"),
    ] {
        for ran in each(text).await {
            let error = ran.error().unwrap();
            assert!(error == says || error == "own", "{text}: {error}");
            assert!(ran.message().is_retryable());
        }
    }
}

#[tokio::test]
async fn a_closure_and_a_batch_handler_take_every_error() {
    let closure = |task: TaskContext| async move {
        let text: String = task.props()?;
        Ok::<_, BoxError>(Message::complete_with(number(&text)?))
    };
    let ran = Call::new().props("x").run(closure).await.unwrap();
    assert_eq!(ran.error(), Some("invalid digit found in string"));

    async fn batch(tasks: TaskBatch) -> Result<Vec<Message>, BoxError> {
        let one = |task: &TaskContext| {
            let text: String = task.props()?;
            Ok(Message::complete_with(number(&text)?))
        };
        tasks.tasks().iter().map(one).collect()
    }
    let store = Store::open("memory:").await.unwrap();
    let runner = Runner::builder(&store);
    let runner = runner.batch_handler("parse", 2, Duration::from_millis(1), batch);
    let runner = runner.start().await.unwrap();
    let client = Client::new(&store);
    let task = NewTask::new("parse").props("own").retry(Retry::Never);
    let task = client.submit(task).await.unwrap();
    let done = client.wait(&task).await.unwrap();
    assert_eq!(done.error(), Some("own"));
    runner.shutdown().await;
}
