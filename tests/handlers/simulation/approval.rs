//! The approvals of the page about signals and of the examples, in virtual time.

use std::{fs, path::Path, time::Duration};

use windlass::{
    Command, NewTask, Outcome, StateKind,
    client::Done,
    testing::{Simulation, crash_everywhere},
};

#[expect(dead_code, reason = "the program of the example")]
#[path = "../../../examples/approval.rs"]
mod example;

#[rustfmt::skip]
mod page {
use std::time::Duration;
use windlass::{AwaitedSignal, BoxError, Command, Json, Message, TaskContext};

#[derive(serde::Deserialize)]
struct Approval {
    approved: bool,
}

async fn deploy(task: TaskContext) -> Result<Message, BoxError> {
    while let Some(command) = task.commands().try_next() {
        let Command::Signal(signal) = command else { continue };
        let approved = match signal.payload() {
            Ok(Approval { approved }) => approved,
            // With `?` the next attempt would get the same signal.
            Err(error) => {
                task.answer(&signal, &format!("refused: {error}")).await?;
                continue;
            }
        };
        let message = if approved { Message::complete() } else { Message::fail("refused") };
        return Ok(message.answer(&signal, &"noted"));
    }
    if task.wait_expired() {
        return Ok(Message::fail("nobody has approved within three days"));
    }
    let schema = r#"{"type":"object","required":["approved"],"properties":{"approved":{"type":"boolean"}}}"#;
    let asked = AwaitedSignal::new("approve")
        .with_text("Deploy version 1.4?")
        .with_schema(Json::parse("schema", schema)?);
    Ok(Message::wait_for_signal(asked).within(Duration::from_secs(3 * 24 * 3600)))
}

pub(super) fn handler() -> impl windlass::StatefulHandler { windlass::job::handler(deploy) }
}

const DAYS: i64 = 24 * 3600;

/// Runs a task to its end, after these signals. Returns the end, the replies, and how many seconds have passed.
async fn approved(kind: &str, signals: &[serde_json::Value]) -> (Done, Vec<String>, i64) {
    let builder = Simulation::builder().handler("example", example::release);
    let builder = builder.handler("page", page::handler());
    let mut simulation = builder.start().await.unwrap();
    let began = simulation.now();
    let task = NewTask::new(kind).props("ann");
    let id = simulation.client().submit(task).await.unwrap();
    simulation.advance(Duration::ZERO).await.unwrap();
    let mut replies = Vec::new();
    for payload in signals {
        simulation.advance(Duration::from_secs(3600)).await.unwrap();
        let signal = Command::signal("approve", payload).unwrap();
        match simulation.command(&id, signal).await.unwrap() {
            Outcome::Answered { reply } => replies.push(reply.get("reply").unwrap()),
            other => panic!("{other:?}"),
        }
    }
    let done = simulation.run(&id).await.unwrap();
    let took = simulation.now().duration_since(began).as_secs();
    (done, replies, took)
}

/// The handlers asked the clock of the machine whether the deadline had come. In virtual time it never came, so that they
/// waited again and again.
#[tokio::test]
async fn an_approval_that_nobody_gives_ends_at_its_deadline() {
    for kind in ["example", "page"] {
        let (done, _, took) = approved(kind, &[]).await;
        assert_eq!(done.code(), StateKind::Failed, "{kind}");
        let why = done.error().unwrap();
        assert_eq!(why, "nobody has approved within three days", "{kind}");
        assert_eq!(took, 3 * DAYS, "{kind}");
    }
}

#[tokio::test]
async fn an_approval_ends_when_it_is_given() {
    let (done, replies, took) = approved("example", &["bob".into(), 7.into(), "ann".into()]).await;
    assert_eq!(done.result::<String>().unwrap(), "approved by ann");
    assert_eq!(replies[0], "refused: only ann may approve");
    assert_eq!((replies[2].as_str(), took), ("released", 3 * 3600));
    let (done, replies, _) = approved("page", &[serde_json::json!({"approved": true})]).await;
    assert!(done.is_completed());
    assert_eq!(replies, ["noted"]);
}

#[tokio::test]
async fn an_approval_that_is_refused_does_not_prolong_the_wait() {
    let (done, _, took) = approved("example", &["bob".into(), "eve".into()]).await;
    assert_eq!((done.code(), took), (StateKind::Failed, 3 * DAYS));
}

#[tokio::test]
async fn an_approval_ends_at_its_deadline_wherever_the_node_is_lost() {
    let task = NewTask::new("release").props("ann");
    let crashes = crash_everywhere(example::release, task, |done| {
        let why = done.error().unwrap();
        assert_eq!(why, "nobody has approved within three days");
    });
    assert!(crashes.await.unwrap().ends.len() > 2);
}

/// The code of the page is that of this file, wherever the page is.
#[test]
fn the_page_shows_this_code() {
    fn pages(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pages(&path, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut all = Vec::new();
    pages(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"),
        &mut all,
    );
    let blocks = all.iter().flat_map(|page| page.split("```rust\n").skip(1));
    let blocks = blocks.filter_map(|block| block.split("\n```").next());
    let mut shown = blocks.filter(|block| block.contains("async fn deploy(task: TaskContext)"));
    let block = shown.next().unwrap();
    assert!(include_str!("approval.rs").contains(block), "{block}");
}
