//! Commands: a queue per task; each ends in one outcome and none is lost.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};
use windlass_statemachine::{Command, Message, Outcome, StateKind};

use super::{
    Harness,
    kit::{Kit, assert_matches, command_of, field, id, same, sending, settle, task},
};
use crate::{
    store::{ChangeKind, Error, Submitted},
    testing::ManualClock,
};

const APPLIED: Outcome = Outcome::Applied {
    from: StateKind::Runnable,
    to: StateKind::Runnable,
};

/// Commands are queued in the order in which they are sent; none replaces another.
pub async fn commands_queue_in_order(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let until = kit.in_an_hour();
    let sent = [
        Command::Pause,
        Command::Run,
        Command::Pause,
        Command::Sleep { until },
        Command::Complete {
            result: Some(serde_json::json!({"n": 1}).into()),
        },
    ];
    let mut orders = Vec::new();
    for (n, command) in sent.iter().enumerate() {
        orders.push(kit.send("a", &format!("c{n}"), command.clone()).await);
    }
    assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
    assert_eq!(kit.get("a").await.commands, 5);
    let claimed = kit.claim(&node, "a").await;
    let reported: Vec<_> = claimed.commands.iter().map(|c| c.command.clone()).collect();
    assert_eq!(reported, sent);
    let reported: Vec<_> = claimed.commands.iter().map(|c| c.order).collect();
    assert_eq!(reported, orders);
    let records = kit.registry().commands(&id("a")).await.unwrap();
    let kept: Vec<_> = records
        .iter()
        .map(|r| (r.order, r.command.clone()))
        .collect();
    assert_eq!(kept, orders.into_iter().zip(sent).collect::<Vec<_>>());
    assert!(
        records
            .iter()
            .all(|r| r.outcome.is_none() && r.task == id("a"))
    );
    let reported = kit.events("a").await.into_iter();
    let reported = reported.filter(|what| matches!(what, ChangeKind::Commanded { .. }));
    assert_eq!(reported.count(), 5, "each is reported in the history");
}

/// Orders grow across the tasks and the incarnations of a namespace, so that a task never skips a
/// command after one that it has applied.
pub async fn orders_grow_across_retries(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let first = kit
        .send("a", "c1", Command::Complete { result: None })
        .await;
    let mut write = kit.write(&claimed, &Message::complete());
    settle(&mut write, first, APPLIED);
    kit.try_write(&claimed, write).await.unwrap();
    kit.retry("a").await;
    let second = kit.send("a", "c2", Command::Pause).await;
    assert!(second > first);
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.state.last_command.unwrap().order, first);
    assert_eq!(claimed.commands.len(), 1, "{:?}", claimed.commands);
}

/// A command that is sent again is the same command, even when it already has its outcome.
pub async fn the_same_id_is_the_same_command(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let order = kit.send("a", "c", Command::Kill).await;
    assert_eq!(kit.send("a", "c", Command::Kill).await, order);
    assert_eq!(kit.get("a").await.commands, 1);
    let mut write = kit.write(&claimed, &Message::kill());
    settle(&mut write, order, APPLIED);
    kit.try_write(&claimed, write).await.unwrap();
    let again = kit.send("a", "c", Command::Kill).await;
    assert_eq!(again, order, "also when the task has ended");
    assert_eq!(kit.registry().commands(&id("a")).await.unwrap().len(), 1);
    assert_eq!(kit.outcome("c").await, Some(APPLIED));
}

/// A command that one call sends twice is one command. An id that one call uses for two tasks is
/// refused for the second.
pub async fn one_id_twice_in_one_call_is_one_command(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let sends = [("a", "c1"), ("a", "c2"), ("a", "c1"), ("b", "c1")];
    let sends = sends.map(|(task, command)| sending(task, command, Command::Pause));
    let answers = kit.registry().send(sends.to_vec()).await;
    let [Ok(first), Ok(second), Ok(again), Err(refused)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(first == again && first < second, "{answers:?}");
    assert_matches!(refused, Error::Invalid(_));
    assert_eq!(kit.get("a").await.commands, 2);
    assert_eq!(kit.get("b").await.commands, 0);
}

/// A command that is sent again is the same command, even after its time: only a new command is checked
/// against the clock.
pub async fn a_known_id_is_known_after_its_time(harness: &dyn Harness) {
    let now = Timestamp::now();
    let clock = Arc::new(ManualClock::new(now));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let (client, a) = (crate::Client::new(&kit.store), id("a"));
    let sleep = Command::Sleep {
        until: now + 1.minute(),
    };
    let mut starts = task("starts");
    starts.start_at = Some(now + 1.minute());
    kit.submit_task(starts.clone()).await;
    kit.submit("a").await;
    let order = kit.send("a", "c", sleep.clone()).await;

    clock.advance(Duration::from_secs(3600));
    assert_eq!(kit.send("a", "c", sleep.clone()).await, order);
    let again = client.command_with_id(&a, command_of("c"), sleep.clone());
    again.await.expect("a known command");
    let elsewhere = kit.try_send("starts", "c", sleep.clone()).await;
    assert_eq!(field(&elsewhere.unwrap_err()), "command id");
    assert_eq!(kit.get("a").await.commands, 1);
    let new = kit.try_send("a", "new", sleep.clone()).await.unwrap_err();
    assert_eq!(field(&new), "until");
    let new = client.command_with_id(&a, command_of("new"), sleep.clone());
    assert!(matches!(new.await, Err(Error::Invalid(_))));

    let same = same(starts);
    let known = kit.try_submit(same).await.unwrap();
    assert_eq!(known, Submitted::Existing(StateKind::Sleeping));

    // Even when the command has its outcome, and its task has ended.
    let node = kit.node("n").await;
    let claimed = kit.claim(&node, "a").await;
    let mut write = kit.write(&claimed, &Message::kill());
    settle(&mut write, order, APPLIED);
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.send("a", "c", sleep.clone()).await, order);
    let again = client.command_with_id(&a, command_of("c"), sleep);
    again.await.expect("a known command");
}

/// The id of a command to another task is refused.
pub async fn an_id_of_another_task_is_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    kit.send("a", "c", Command::Pause).await;
    let error = kit.try_send("b", "c", Command::Pause).await.unwrap_err();
    assert!(field(&error).contains("id"), "{error}");
    assert_eq!(kit.get("b").await.commands, 0);
}

/// Only live tasks take commands, and each command has its own answer.
pub async fn items_are_independent(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.ended(&node, "done", &Message::complete()).await;
    let past = Command::Sleep {
        until: kit.now() - 1.second(),
    };
    let sends = [
        ("a", Command::Pause),
        ("nothing", Command::Pause),
        ("done", Command::Pause),
        ("a", past),
        ("a", Command::Run),
    ];
    let sends = sends.into_iter().enumerate();
    let sends = sends.map(|(n, (task, command))| sending(task, &format!("c{n}"), command));
    let answers = kit.registry().send(sends.collect()).await;
    assert_matches!(answers[..], [
                Ok(first),
                Err(Error::NotFound { what: "task", .. }),
                Err(Error::AlreadyFinished { .. }),
                Err(Error::Invalid(_)),
                Ok(last),
            ] if first < last);
    assert_eq!(field(answers[3].as_ref().unwrap_err()), "until");
    assert_eq!(kit.get("a").await.commands, 2);
    let unknown = kit.registry().command(&command_of("c1")).await;
    assert_matches!(unknown, Err(Error::NotFound { .. }));
}

/// Each outcome is recorded, and its command leaves the queue.
pub async fn outcomes_are_recorded(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let outcomes = [
        APPLIED,
        Outcome::Overridden {
            by: windlass_statemachine::ActionKind::Run,
        },
        Outcome::Rejected {
            reason: "not now: é".into(),
        },
    ];
    let before = kit.now();
    let mut orders = Vec::new();
    for n in 0..4 {
        orders.push(kit.send("a", &format!("c{n}"), Command::Run).await);
    }
    let mut write = kit.write(&claimed, &Message::run());
    for (order, outcome) in orders.iter().zip(&outcomes) {
        settle(&mut write, *order, outcome.clone());
    }
    claimed.state = write.state.clone();
    kit.try_write(&claimed, write).await.unwrap();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(kit.outcome(&format!("c{n}")).await, Some(outcome));
    }
    assert_eq!(
        kit.outcome("c3").await,
        None,
        "it was not settled: it waits"
    );
    assert_eq!(kit.get("a").await.commands, 1);
    let last = kit.state("a").await.last_command.unwrap();
    assert_eq!(last.order, orders[2]);
    let records = kit.registry().commands(&id("a")).await.unwrap();
    let reported: Vec<u64> = records.iter().map(|r| r.order).collect();
    assert_eq!(reported, orders, "those with an outcome are listed too");
    let sent = |at: Timestamp| at >= before - 1.second() && at <= kit.now() + 1.second();
    assert!(records.iter().all(|r| sent(r.sent_at)), "{records:?}");
}

/// The first outcome of a command stays: a later outcome changes nothing.
pub async fn an_outcome_is_final(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let order = kit.send("a", "c", Command::Run).await;
    let by = windlass_statemachine::ActionKind::Run;
    for outcome in [APPLIED, Outcome::Overridden { by }] {
        let mut write = kit.write(&claimed, &Message::run());
        settle(&mut write, order, outcome);
        claimed.state = write.state.clone();
        // A store may also refuse the second outcome.
        let _ = kit.try_write(&claimed, write).await;
        assert_eq!(kit.outcome("c").await, Some(APPLIED));
    }
}

/// A claim does not return a command that has its outcome.
pub async fn a_settled_command_is_gone_from_the_queue(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let order = kit.send("a", "c1", Command::Run).await;
    kit.send("a", "c2", Command::Run).await;
    let mut write = kit.write(&claimed, &Message::release());
    settle(&mut write, order, APPLIED);
    kit.try_write(&claimed, write).await.unwrap();
    let next = kit.claim(&node, "a").await;
    let waiting: Vec<_> = next.commands.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(waiting, ["c2"]);
}

/// The end of a task rejects its waiting commands, except those that the same write settles.
pub async fn the_end_rejects_waiting_commands(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let order = kit
        .send("a", "c1", Command::Complete { result: None })
        .await;
    kit.send("a", "c2", Command::Pause).await;
    kit.send("a", "c3", Command::Kill).await;
    let mut write = kit.write(&claimed, &Message::complete());
    let applied = Outcome::Applied {
        from: StateKind::Runnable,
        to: StateKind::Completed,
    };
    settle(&mut write, order, applied.clone());
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.outcome("c1").await, Some(applied));
    for name in ["c2", "c3"] {
        let outcome = kit.outcome(name).await;
        let Some(Outcome::Rejected { reason }) = outcome else {
            panic!("{name}: {outcome:?}")
        };
        assert!(reason.contains("ended"), "{reason}");
    }
    assert_eq!(kit.get("a").await.commands, 0);
}

/// Commands stay in the queue while the task has no owner, and the next owner gets them.
pub async fn commands_survive_a_change_of_owner(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    kit.submit("a").await;
    kit.send("a", "c1", Command::Run).await;
    let claimed = kit.claim(&first, "a").await;
    assert_eq!(claimed.commands.len(), 1);
    kit.send("a", "c2", Command::Pause).await;
    kit.coordinator().leave(&first).await.unwrap();
    let next = kit.claim(&second, "a").await;
    let reported: Vec<_> = next.commands.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(reported, ["c1", "c2"]);
}

/// A kill of a task does not reach a later task with its id.
pub async fn no_command_hits_a_later_task(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    // A task that is deleted with the command in its queue.
    kit.submit("a").await;
    kit.send("a", "kill", Command::Kill).await;
    kit.delete("a").await;
    kit.submit("a").await;
    // One that ends before the command is applied, and is replaced.
    let claimed = kit.claimed(&node, "b").await;
    kit.send("b", "late", Command::Kill).await;
    kit.try_commit(&claimed, &Message::complete())
        .await
        .unwrap();
    kit.replace("b").await;
    // One that ends and is retried.
    let claimed = kit.claimed(&node, "c").await;
    kit.send("c", "older", Command::Kill).await;
    kit.try_commit(&claimed, &Message::complete())
        .await
        .unwrap();
    kit.retry("c").await;

    for name in ["a", "b", "c"] {
        assert_eq!(kit.get(name).await.commands, 0, "{name}");
        let claimed = kit.claim(&node, name).await;
        assert!(
            claimed.commands.is_empty(),
            "{name}: {:?}",
            claimed.commands
        );
    }
    let gone = kit.registry().command(&command_of("kill")).await;
    assert_matches!(gone, Err(Error::NotFound { .. }));
}

/// A command of an unknown id, and the commands of an unknown task, are not found.
pub async fn unknown_commands_are_not_found(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let command = kit.registry().command(&command_of("c")).await;
    assert_matches!(
        command,
        Err(Error::NotFound {
            what: "command",
            ..
        })
    );
    let commands = kit.registry().commands(&id("a")).await;
    assert_matches!(commands, Err(Error::NotFound { what: "task", .. }));
}

/// An acknowledged command is still there when the store is opened again.
pub async fn commands_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.send("a", "c1", Command::Pause).await;
    kit.send("a", "c2", Command::Kill).await;
    let before = kit.registry().commands(&id("a")).await.unwrap();
    let kit = kit.reopened(harness).await;
    let after = kit.registry().commands(&id("a")).await.unwrap();
    assert_eq!(after, before);
    let node = kit.node("n").await;
    assert_eq!(kit.claim(&node, "a").await.commands.len(), 2);
}
