//! A store that fails: nothing is lost, nothing is done twice, and the node neither panics nor exits.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};
use std::time::Duration;

use windlass::{
    BoxError, Command, KindConfig, Message, NewTask, StateKind, TaskContext,
    store::{ChangeKind, Error, Filter, Lease},
    testing::{Fault, Operation},
};

use super::support::{World, applied, secs};

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_tried_again_and_one_whose_answer_is_lost_happens_once() {
    for fault in [Fault::Before, Fault::After] {
        let world = World::new().await;
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let _node = world
            .node("n")
            .handler("parent", move |task: TaskContext| {
                let counted = counted.clone();
                async move {
                    counted.fetch_add(1, Ordering::SeqCst);
                    task.checkpoint("half").await?;
                    let child = NewTask::new("other").id("child");
                    Ok::<_, BoxError>(Message::complete().and_submit(child))
                }
            })
            .start()
            .await
            .unwrap();
        world.faults.fail(Operation::Claim, fault, 2);
        world.faults.fail(Operation::Commit, fault, 5);
        let id = world
            .client
            .submit(NewTask::new("parent"))
            .await
            .unwrap()
            .into_id();
        let done = world.client.wait(&id).await.unwrap();
        assert!(done.is_completed(), "{fault:?}: {:?}", done.error());
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{fault:?}");
        assert_eq!(done.state.errors.total(), 0, "{fault:?}");
        let changes = world.client.history(&id, 100).await.unwrap();
        let moves = changes
            .iter()
            .filter(|c| matches!(c.what, ChangeKind::Moved { .. }))
            .count();
        assert_eq!(moves, 1, "{fault:?}: {changes:#?}");
        assert_eq!(
            world.code(&"child".parse().unwrap()).await,
            StateKind::Runnable
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_made_again_after_a_list() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    world.listed(&node).await;
    let lease = node.snapshot().await.unwrap().lease.unwrap();
    let lease = Lease::new(lease, node.node().clone(), secs(15));
    // The store has given the task to the node's lease, and the node knows nothing of it.
    node.drain().await;
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    let claimed = world
        .store
        .coordinator()
        .claim(&lease, vec![id.clone()])
        .await;
    assert!(claimed[0].as_ref().unwrap().is_some());
    node.unfreeze();
    world.faults.break_watches();
    let done = tokio::time::timeout(secs(600), world.client.wait(&id)).await;
    assert!(done.expect("it is stuck").unwrap().is_completed());
}

/// The list names the claim before its answer is known to be lost.
#[tokio::test(start_paused = true)]
async fn a_claim_that_the_list_names_before_its_answer_is_lost_is_made_again() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    world.listed(&node).await;
    let lost = Fault::LostLate(secs(3));
    world.faults.fail(Operation::Claim, lost, 1);
    let id = world.running("k").await;
    world.faults.break_watches();
    let done = tokio::time::timeout(secs(10), world.client.wait(&id)).await;
    assert!(done.expect("it is stuck").unwrap().is_completed());
    assert_eq!(world.faults.calls(Operation::Claim), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_misses_nothing() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    world.listed(&node).await;
    // The lease ends under the watch, and watching again fails for a while.
    world.faults.fail(Operation::Watch, Fault::Before, 3);
    world
        .faults
        .lose_lease(node.snapshot().await.unwrap().lease.unwrap());
    for n in 0..20 {
        world
            .client
            .submit(NewTask::new("k").id(format!("t{n}")))
            .await
            .unwrap();
    }
    world.client.wait_idle(&Filter::default()).await.unwrap();
    let counts = world.client.counts().await.unwrap();
    assert_eq!(
        (counts.len(), counts[0].state, counts[0].tasks),
        (1, Some(StateKind::Completed), 20)
    );
}

#[tokio::test(start_paused = true)]
async fn a_command_survives_the_loss_of_its_owner() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("ignores", |_: TaskContext| async {
            std::future::pending::<Message>().await
        })
        .start()
        .await
        .unwrap();
    let id = world.running("ignores").await;
    let pause = world.client.command(&id, Command::Pause).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        world.client.outcome(&pause).await.unwrap(),
        None,
        "the handler has its grace"
    );
    world
        .faults
        .lose_lease(node.snapshot().await.unwrap().lease.unwrap());
    let outcome = world.client.wait_outcome(&pause).await.unwrap();
    assert_eq!(outcome, applied(StateKind::Runnable, StateKind::Paused));
    world.rest(&id, StateKind::Paused).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_the_store_is_down_ends_with_the_lease() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", |task: TaskContext| async move {
            task.stop_requested().await.message()
        })
        .start()
        .await
        .unwrap();
    let id = world.running("k").await;
    for operation in [Operation::Commit, Operation::Renew, Operation::Leave] {
        world.faults.fail(operation, Fault::Before, 100_000);
    }
    let before = world.now();
    node.shutdown().await;
    assert!(world.now().duration_since(before).as_secs() <= 15);
    world.faults.heal();
    world
        .until("its claim ends", || async {
            world.client.get(&id).await.unwrap().node.is_none()
        })
        .await;
    assert_eq!(world.code(&id).await, StateKind::Runnable);
}

/// A second signal aborts at once, even with a lease of an hour.
#[tokio::test(start_paused = true)]
async fn an_abort_waits_for_no_store() {
    use Operation::{Claim, Commit, Join, Leave, Renew};
    let hour = Duration::from_secs(3600);
    let silent = Fault::Late(hour);
    for (operations, fault) in [
        (&[Commit, Renew, Leave][..], Fault::Before),
        (&[Commit, Renew, Leave], silent),
        (&[Claim, Leave], silent),
        (&[Join], silent),
    ] {
        let world = World::new().await;
        let obeys = |task: TaskContext| async move { task.stop_requested().await.message() };
        let node = world.node("n").lease_ttl(hour).handler("k", obeys);
        let node = node.start().await.unwrap();
        world.running("k").await;
        for operation in operations {
            world.faults.fail(*operation, fault, 100_000);
        }
        if operations.contains(&Renew) {
            // The next renewal is under way.
            tokio::time::sleep(hour / 3 + secs(1)).await;
        }
        if operations.contains(&Claim) {
            let id = world
                .client
                .submit(NewTask::new("k"))
                .await
                .unwrap()
                .into_id();
            world.claimed(&id).await;
        }
        if operations.contains(&Join) {
            let lease = node.snapshot().await.unwrap().lease.unwrap();
            world.faults.lose_lease(lease);
            node.freeze();
            let calls = world.faults.calls(Join);
            world
                .until("it joins", || async { world.faults.calls(Join) > calls })
                .await;
        }
        let before = world.now();
        let aborted = tokio::time::timeout(hour * 2, node.abort()).await;
        aborted.unwrap();
        let took = world.now().duration_since(before).as_secs();
        assert!(took <= 15, "{operations:?} {fault:?}: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_outlives_a_store_that_is_down_for_a_moment() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.faults.fail(Operation::Read, Fault::Before, 3);
    let client = world.client.clone();
    let waits = tokio::spawn(async move { client.wait(&id).await });
    let _node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    assert!(waits.await.unwrap().unwrap().is_completed());
    let missing = world.client.wait("missing").await;
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
}

/// Regression: the node waited for ever: its lease was renewed, and no write of a task was
/// accepted.
#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_up_results_that_the_store_does_not_take() {
    let world = World::new().await;
    let config = KindConfig::default().stop_grace(secs(60));
    let node = world
        .node("n")
        .handler_with("k", config, |_: TaskContext| async {
            tokio::time::sleep(secs(1)).await;
            Message::complete()
        })
        .start()
        .await
        .unwrap();
    world.listed(&node).await;
    let mut unstored = node.unstored();
    world.faults.fail(Operation::Commit, Fault::Before, 10_000);
    let id = world.client.submit(NewTask::new("k")).await.unwrap();
    let id = id.into_id();
    let waits = unstored.wait_for(|unstored| !unstored.tasks.is_empty());
    let waits = waits.await.unwrap().clone();
    assert_eq!(waits.tasks, vec![id.clone()]);
    assert!(!waits.reason.is_empty() && !waits.given_up);

    let asked = tokio::time::Instant::now();
    node.shutdown().await;
    let took = asked.elapsed();
    assert!((secs(60)..secs(63)).contains(&took), "{took:?}");
    let waits = unstored.borrow().clone();
    assert_eq!((waits.tasks, waits.given_up), (vec![id.clone()], true));

    // The lease has ended: the task is free, and runs again.
    world.faults.heal();
    let node = world.node("m");
    let _node = node
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    assert!(world.client.wait(&id).await.unwrap().is_completed());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_store_that_takes_the_results_again() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    world.listed(&node).await;
    let mut unstored = node.unstored();
    world.faults.fail(Operation::Commit, Fault::Before, 10_000);
    let id = world.client.submit(NewTask::new("k")).await.unwrap();
    let waits = unstored.wait_for(|unstored| !unstored.tasks.is_empty());
    drop(waits.await.unwrap());
    let healed = async {
        tokio::time::sleep(secs(20)).await;
        world.faults.heal();
    };
    tokio::join!(node.shutdown(), healed);
    assert!(!unstored.borrow().given_up);
    assert_eq!(world.code(id.id()).await, StateKind::Completed);
}

/// Regression: the node tried again for ever, and nothing started it on a sound machine.
#[tokio::test(start_paused = true)]
async fn a_node_ends_after_as_many_failures_of_its_store_in_a_row_as_it_may_bear() {
    let world = World::new().await;
    let node = world
        .node("n")
        .handler("k", async |task: TaskContext| {
            task.stop_requested().await.message()
        })
        .exit_after_store_errors(4)
        .start()
        .await
        .unwrap();
    world.running("k").await;
    // Three failures and a success are not four in a row.
    for _ in 0..2 {
        let renewals = world.faults.calls(Operation::Renew);
        world.faults.fail(Operation::Renew, Fault::Before, 3);
        world
            .until("renewed", async || {
                world.faults.calls(Operation::Renew) > renewals + 3
            })
            .await;
    }
    assert!(!node.is_stopped() && node.failure().is_none());
    world.faults.fail(Operation::Renew, Fault::Before, 100_000);
    world.faults.fail(Operation::Join, Fault::Before, 100_000);
    world.until("stopped", async || node.is_stopped()).await;
    let failure = node.failure().unwrap();
    assert!(failure.is_retryable(), "{failure:?}");
    let text = failure.to_string();
    assert!(
        text.contains("the store has failed 4 times in a row"),
        "{text}"
    );
}
