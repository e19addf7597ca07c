//! Signals: they wake parked tasks, reach running handlers, and get their replies.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    BoxError, Command, Message, NewTask, Outcome, Signal, StateKind, StatefulHandler, TaskContext,
    TaskId, async_trait,
    testing::{Fault, Operation},
};

use super::support::{World, applied, secs};

fn signal(name: &str, payload: u64) -> Command {
    Command::signal(name, &payload).unwrap()
}

fn answered(reply: u64) -> Outcome {
    Outcome::Answered {
        reply: serde_json::json!(reply).into(),
    }
}

/// Adds each payload to its data, and replies with the sum. The signal `pause` pauses it.
async fn sums(task: TaskContext) -> Result<Message, BoxError> {
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => {
                let Command::Signal(signal) = command else { continue };
                if signal.name() == "pause" {
                    return Ok(Message::pause().answer(&signal, &0));
                }
                let sum = task.data::<u64>()?.unwrap_or(0) + signal.payload::<u64>()?;
                task.answer_with(&signal, &sum, &sum).await?;
            }
            stop = task.stop_requested() => return Ok(stop.message()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_handler_replies_and_goes_on() {
    let world = World::new().await;
    let node = world.node("n").handler("sums", sums);
    let _node = node.start().await.unwrap();
    let id = world.running("sums").await;
    let fence = world.client.get(&id).await.unwrap().fence;
    assert_eq!(world.command(&id, signal("add", 2)).await, answered(2));
    assert_eq!(world.command(&id, signal("add", 3)).await, answered(5));
    let record = world.client.get(&id).await.unwrap();
    assert_eq!(record.fence, fence);
    assert_eq!(record.state.unwrap().data.unwrap().as_str(), "5");
}

#[tokio::test(start_paused = true)]
async fn a_signal_wakes_a_parked_task_and_a_later_node_goes_on() {
    let world = World::new().await;
    let node = world.node("n").handler("sums", sums);
    let first = node.start().await.unwrap();
    let id = world.running("sums").await;
    assert_eq!(world.command(&id, signal("add", 2)).await, answered(2));
    assert_eq!(world.command(&id, signal("pause", 0)).await, answered(0));
    world.rest(&id, StateKind::Paused).await;
    assert_eq!(world.command(&id, signal("add", 3)).await, answered(5));
    first.shutdown().await;
    let sent = world.client.command(&id, signal("add", 4)).await.unwrap();
    let _second = world.node("m").handler("sums", sums).start().await.unwrap();
    assert_eq!(world.client.wait_outcome(&sent).await.unwrap(), answered(9));
}

/// Answers the signals that are there when it starts, and pauses.
async fn looks_once(task: TaskContext) -> Result<Message, BoxError> {
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => {
                let Command::Signal(signal) = command else { continue };
                task.answer(&signal, &signal.payload::<u64>()?).await?;
            }
            () = std::future::ready(()) => return Ok(Message::pause()),
        }
    }
}

/// Regression: the handler ran on another thread, and had returned before the signal that woke it was
/// delivered. The signal counted as unanswered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_ends_at_once_has_seen_the_signals_that_woke_it() {
    let world = World::new().await;
    let node = world.node("n").handler("looks", looks_once);
    let _node = node.start().await.unwrap();
    let id = world.client.submit(NewTask::new("looks")).await.unwrap();
    let id = id.into_id();
    for n in 0..2_000 {
        // Also while the run before it ends.
        let sent = world.client.command(&id, signal("n", n)).await.unwrap();
        let outcome = world.client.wait_outcome(&sent).await.unwrap();
        assert_eq!(outcome, answered(n));
        if n % 8 == 0 {
            world.rest(&id, StateKind::Paused).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_signal_waits_for_the_first_claim() {
    let world = World::new().await;
    let at = world.now() + jiff::SignedDuration::from_hours(1);
    let later = NewTask::new("sums").start_at(at);
    let id: TaskId = world.client.submit(later).await.unwrap().into_id();
    let sent = world.client.command(&id, signal("add", 1)).await.unwrap();
    assert_eq!(world.client.outcome(&sent).await.unwrap(), None);
    let _node = world.node("n").handler("sums", sums).start().await.unwrap();
    assert_eq!(world.client.wait_outcome(&sent).await.unwrap(), answered(1));
}

/// Takes its signals and keeps those with the name `keep`.
async fn keeps(task: TaskContext) -> Result<Message, BoxError> {
    let Some(Command::Signal(signal)) = task.commands().next().await else {
        return Ok(Message::release());
    };
    Ok(match (signal.name(), task.data::<u64>()?) {
        ("keep", None) => Message::pause().keep_signals().with_data(&1),
        ("keep", Some(runs)) => Message::pause().answer(&signal, &runs),
        _ => Message::pause(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_kept_signal_waits_for_the_next_run_also_of_another_node() {
    let world = World::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let handler = move |task: TaskContext| {
        counted.fetch_add(1, Ordering::SeqCst);
        keeps(task)
    };
    let first = world.node("n").handler("keeps", handler.clone());
    let first = first.start().await.unwrap();
    let id = world.running("keeps").await;
    let sent = world.client.command(&id, signal("keep", 0)).await.unwrap();
    world
        .until("paused", || async {
            world.code(&id).await == StateKind::Paused
        })
        .await;
    // It holds its claim and does not run again.
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&id).await.unwrap().node.is_some());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    first.shutdown().await;
    let _second = world
        .node("m")
        .handler("keeps", handler)
        .start()
        .await
        .unwrap();
    world.claimed(&id).await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(world.client.outcome(&sent).await.unwrap(), None);
    world.client.command(&id, Command::Run).await.unwrap();
    assert_eq!(world.client.wait_outcome(&sent).await.unwrap(), answered(1));
    world.rest(&id, StateKind::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_left_ends_as_unanswered() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("keeps", keeps)
        .start()
        .await
        .unwrap();
    let id = world.running("keeps").await;
    let outcome = world.command(&id, signal("other", 0)).await;
    assert_eq!(outcome, Outcome::Unanswered);
    world.rest(&id, StateKind::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_before_a_kill_ends_as_unanswered() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("obeys", |task: TaskContext| async move {
            task.stop_requested().await.message()
        })
        .start()
        .await
        .unwrap();
    let id = world.running("obeys").await;
    let sent = world.client.command(&id, signal("late", 0)).await.unwrap();
    world.command(&id, Command::Kill).await;
    let outcome = world.client.wait_outcome(&sent).await.unwrap();
    assert_eq!(outcome, Outcome::Unanswered);
}

struct Deaf;

#[async_trait]
impl StatefulHandler for Deaf {
    async fn run(&self, task: TaskContext) -> Message {
        task.stop_requested().await.message()
    }

    fn takes_signals(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_signals_rejects_them_and_stays_parked() {
    let world = World::new().await;
    let _node = world.node("n").handler("deaf", Deaf).start().await.unwrap();
    let id = world.running("deaf").await;
    let reason = "the kind does not accept signals".to_owned();
    let rejected = Outcome::Rejected { reason };
    assert_eq!(world.command(&id, signal("a", 0)).await, rejected);
    world.command(&id, Command::Pause).await;
    world.rest(&id, StateKind::Paused).await;
    assert_eq!(world.command(&id, signal("a", 0)).await, rejected);
    world.rest(&id, StateKind::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_to_a_full_node_waits_for_room_without_claims() {
    let world = World::new().await;
    let node = world.node("n").slots(1).handler("sums", sums);
    let _node = node.start().await.unwrap();
    let running = world.running("sums").await;
    let waits: TaskId = world
        .client
        .submit(NewTask::new("sums"))
        .await
        .unwrap()
        .into_id();
    let sent = world
        .client
        .command(&waits, signal("add", 7))
        .await
        .unwrap();
    tokio::time::sleep(secs(600)).await;
    let claims = world
        .client
        .get(&waits)
        .await
        .unwrap()
        .state
        .unwrap()
        .claims;
    assert!(claims <= 2, "{claims} claims in 10 minutes");
    let paused = world.command(&running, Command::Pause).await;
    assert_eq!(paused, applied(StateKind::Runnable, StateKind::Paused));
    assert_eq!(world.client.wait_outcome(&sent).await.unwrap(), answered(7));
}

/// Answers one signal, and releases its task while others wait.
async fn one_at_a_time(task: TaskContext) -> Result<Message, BoxError> {
    let Some(Command::Signal(signal)) = task.commands().next().await else {
        return Ok(Message::release());
    };
    let sum = task.data::<u64>()?.unwrap_or(0) + 1;
    task.answer_with(&signal, &sum, &sum).await?;
    match sum {
        5 => Ok(Message::complete()),
        _ => Ok(Message::release()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_released_while_signals_wait_is_claimed_for_them() {
    let world = World::new().await;
    let waits = world.client.submit(NewTask::new("one")).await.unwrap();
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.push(
            world
                .client
                .command(&waits, signal("add", n))
                .await
                .unwrap(),
        );
    }
    let node = world.node("n").handler("one", one_at_a_time);
    let _node = node.start().await.unwrap();
    // Each release goes to other nodes first, for a second.
    let all = async {
        for (n, sent) in (1..).zip(&sent) {
            assert_eq!(world.client.wait_outcome(sent).await.unwrap(), answered(n));
        }
    };
    tokio::time::timeout(secs(30), all).await.unwrap();
    let record = world.client.wait(&waits).await.unwrap();
    assert_eq!(record.state.claims, 5);
}

#[tokio::test(start_paused = true)]
async fn a_reply_whose_answer_was_lost_is_stored_once() {
    let world = World::new().await;
    let _node = world.node("n").handler("sums", sums).start().await.unwrap();
    let id = world.running("sums").await;
    world.faults.fail(Operation::Commit, Fault::After, 1);
    assert_eq!(world.command(&id, signal("add", 2)).await, answered(2));
    assert_eq!(world.command(&id, signal("add", 3)).await, answered(5));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_too_large_leaves_the_signal_answerable() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .handler("chatty", |task: TaskContext| async move {
            let Some(Command::Signal(signal)) = task.commands().next().await else {
                return Ok::<_, BoxError>(Message::release());
            };
            let refused = task.answer(&signal, &"x".repeat(1 << 20)).await;
            let text = refused.unwrap_err().to_string();
            let again = Signal::new("a copy").at(signal.order());
            task.answer(&again, &text).await?;
            Ok(Message::complete())
        })
        .start()
        .await
        .unwrap();
    let id = world.running("chatty").await;
    let Outcome::Answered { reply } = world.command(&id, signal("ask", 0)).await else {
        panic!("no reply")
    };
    let text: String = reply.get("reply").unwrap();
    assert!(
        text.starts_with("could not reply to the signal: reply: has 1048578 bytes; at most"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signal_id_that_another_signal_has_is_refused() {
    let world = World::new().await;
    let id = world.client.submit(NewTask::new("sums")).await.unwrap();
    let send = |command: Command| world.client.command_with_id(&id, "s-1", command);
    send(signal("add", 2)).await.unwrap();
    send(signal("add", 2)).await.unwrap();
    for (other, field) in [
        (signal("add", 3), "payload"),
        (signal("sub", 2), "name"),
        (Command::Signal(Signal::new("add")), "payload"),
    ] {
        let error = send(other).await.unwrap_err();
        assert!(
            matches!(&error, windlass::store::Error::Invalid(e) if e.field() == field),
            "{error}"
        );
    }
    world
        .client
        .command_with_id(&id, "p-1", Command::Pause)
        .await
        .unwrap();
    let error = world
        .client
        .command_with_id(&id, "p-1", signal("add", 2))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("command pause"), "{error}");
    assert_eq!(world.client.get(&id).await.unwrap().commands, 2);
}
