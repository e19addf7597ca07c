//! A store that fails: nothing is lost, nothing is done twice, and the node neither panics nor
//! exits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use windlass::{
    BoxError, Command, Message, NewTask, StateKind, Stop, StopReason, TaskContext,
    runner::StartError,
    store::{ChangeKind, Error, Filter, Lease},
    testing::{Fault, Operation},
};

use crate::support::{RunEnds, World, applied, secs};

#[tokio::test(start_paused = true)]
async fn handlers_are_stopped_before_the_lease_can_have_ended() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let guards = ends.clone();
    let ttl = secs(15);
    let node = world
        .node("n")
        .lease_ttl(ttl)
        .handler("k", move |task| guards.clone().hold(task))
        .start()
        .await
        .unwrap();
    let id = world.running("k").await;
    let renewals = world.faults.calls(Operation::Renew);
    world
        .until("a renewal", || async {
            world.faults.calls(Operation::Renew) > renewals
        })
        .await;
    // From the last renewal that succeeded on, the store answers none.
    let renewed = Instant::now();
    world.faults.fail(Operation::Renew, Fault::Before, 100_000);
    world
        .until("the handler is gone", || async { !ends.all().is_empty() })
        .await;
    let after = ends.all()[0].at - renewed;
    assert!(
        after.as_millis() < 12_100,
        "with a margin before {ttl:?}: {after:?}"
    );
    // The store is well again: the node comes back by itself and goes on with the task.
    world.faults.heal();
    world
        .until("it runs again", || async {
            world.client.get(&id).await.unwrap().state.unwrap().claims == 2
        })
        .await;
    assert!(!node.is_stopped());
    let ends = ends.all();
    assert_eq!(ends.len(), 1, "the second run goes on: {ends:?}");
    assert_eq!(ends[0].stop, Some(Stop::Node(StopReason::LeaseLost)));
}

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
    let lease = Lease {
        id: lease,
        node: node.node().clone(),
        ttl: secs(15),
    };
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

/// The list tells of the claim before its answer is known to be lost.
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

/// A second signal is for those who do not want to wait: not for a lease of an hour either.
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

#[tokio::test(start_paused = true)]
async fn a_node_with_a_store_wait_waits_for_an_absent_store() {
    let world = World::new().await;
    let handler = |_: TaskContext| async { Message::complete() };
    let node = |name: &str| world.node(name).lease_ttl(secs(15)).handler("k", handler);
    // It fails at once, unless it is told to wait.
    world.faults.fail(Operation::Join, Fault::Before, 1);
    let refused = node("n").start().await.unwrap_err();
    assert!(matches!(
        refused,
        StartError::Store(Error::Unavailable { .. })
    ));
    world.faults.fail(Operation::Join, Fault::Before, 100);
    let refused = node("n").wait_for_store(secs(5)).start().await;
    assert!(matches!(refused, Err(StartError::Store(_))));
    world.faults.heal();

    // The answer to one that joined is lost: the name is its own then.
    world.faults.fail(Operation::Join, Fault::After, 1);
    let patient = node("n").wait_for_store(secs(60)).wait_for_name(secs(20));
    let running = patient.start().await.unwrap();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    running.shutdown().await;
}

/// The answer to a join took so long that the lease would count as lost when it begins.
#[tokio::test(start_paused = true)]
async fn a_join_that_was_answered_late_is_renewed_before_it_is_used() {
    let world = World::new().await;
    let late = Fault::Late(secs(13));
    world.faults.fail(Operation::Join, late, 1);
    let node = world.node("n").lease_ttl(secs(15));
    let node = node.handler("k", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    let began = world.now();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    assert!(world.now().duration_since(began).as_secs() < 1);
    assert_eq!(world.faults.calls(Operation::Join), 1);
    node.shutdown().await;

    // Longer than the lease: that one is over, and the next is taken.
    world.faults.fail(Operation::Join, Fault::Late(secs(20)), 1);
    let node = world.node("m").lease_ttl(secs(15)).wait_for_store(secs(60));
    let node = node.handler("k", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    assert_eq!(world.faults.calls(Operation::Join), 3);
    node.shutdown().await;
}

/// The engine had stopped the handlers, while the lease was renewed on and on: no node could have
/// the tasks any more.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_seen_after_its_time_counts_as_lost_for_all() {
    let world = World::new().await;
    let obeys = |task: TaskContext| async move { task.stop_requested().await.message() };
    let node = world.node("n").lease_ttl(secs(15)).handler("k", obeys);
    let node = node.start().await.unwrap();
    let id = world.running("k").await;
    let before = node.snapshot().await.unwrap().lease.unwrap();
    let renewals = world.faults.calls(Operation::Renew);
    // It is under way when the process stands still for longer than what is left of the lease.
    world.faults.fail(Operation::Renew, Fault::Late(secs(6)), 1);
    world
        .until("it is being renewed", || async {
            world.faults.calls(Operation::Renew) > renewals
        })
        .await;
    tokio::time::advance(secs(9)).await;
    let stood_still = Instant::now();
    world
        .until("it has a new lease and the task", || async {
            let lease = node.snapshot().await.and_then(|now| now.lease);
            let state = world.client.get(&id).await.unwrap().state.unwrap();
            lease.is_some_and(|lease| lease != before) && state.claims == 2
        })
        .await;
    assert!(stood_still.elapsed() < secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_machine_costs_no_attempt_and_slows_only_its_kind() {
    let world = World::new().await;
    let broken = Arc::new(AtomicBool::new(true));
    let runs = Arc::new(AtomicU32::new(0));
    let (is_broken, counted) = (broken.clone(), runs.clone());
    let _node = world
        .node("n")
        .handler("k", move |task: TaskContext| {
            let (is_broken, counted) = (is_broken.clone(), counted.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                match is_broken.load(Ordering::SeqCst) {
                    true => task.node_fault("no file descriptors left"),
                    false => Message::complete(),
                }
            }
        })
        .handler("other", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let ids = [(); 20].map(|()| NewTask::new("k"));
    let mut tasks = Vec::new();
    for task in ids {
        tasks.push(world.client.submit(task).await.unwrap());
    }
    tokio::time::sleep(secs(600)).await;
    // All twenty at first at most, then single trials after 1, 2, 4 … 60 s, each with jitter.
    let tried = runs.load(Ordering::SeqCst);
    assert!(
        (10..=20 + 26).contains(&tried),
        "{tried} runs in 10 minutes"
    );
    let other = world.client.submit(NewTask::new("other")).await.unwrap();
    world.rest(other.id(), StateKind::Completed).await;
    for id in &tasks {
        let state = world.client.get(id).await.unwrap().state.unwrap();
        assert_eq!(state.code(), StateKind::Runnable);
        assert_eq!((state.attempts, state.errors.total()), (0, 0), "{id}");
    }
    broken.store(false, Ordering::SeqCst);
    let fixed = Instant::now();
    for id in &tasks {
        world.rest(id.id(), StateKind::Completed).await;
        let state = world.client.get(id).await.unwrap().state.unwrap();
        assert_eq!((state.attempts, state.errors.total()), (0, 0), "{id}");
    }
    assert!(fixed.elapsed() < secs(63), "{:?}", fixed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_what_a_machine_with_a_fault_cannot_run() {
    let world = World::new().await;
    let faulty = |task: TaskContext| async move { task.node_fault("no memory left") };
    let _faulty = world.node("faulty").handler("k", faulty).start().await;
    let id = world.client.submit(NewTask::new("k")).await.unwrap();
    world
        .until("it was released", || async {
            let record = world.client.get(&id).await.unwrap();
            record.node.is_none() && record.state.unwrap().claims > 0
        })
        .await;
    let well = |_: TaskContext| async { Message::complete() };
    let _well = world.node("well").handler("k", well).start().await.unwrap();
    let began = Instant::now();
    world.rest(id.id(), StateKind::Completed).await;
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
}
