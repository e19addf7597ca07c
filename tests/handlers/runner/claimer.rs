//! Programs that claim tasks themselves, and handlers that work on several tasks in one call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use windlass::{
    BoxError, Command, Message, NewTask, StateKind, TaskContext, TaskId,
    handler::TaskBatch,
    runner::{ClaimError, Claimer, FinishError},
};

use super::support::{World, secs};

impl World {
    async fn submits(&self, kind: &str, number: usize) -> Vec<TaskId> {
        let mut ids = Vec::new();
        for n in 0..number {
            let task = NewTask::new(kind).id(format!("{kind}-{n}")).props(&n);
            ids.push(self.client.submit(task).await.unwrap().into_id());
        }
        ids
    }

    async fn claimer(&self) -> Claimer {
        Claimer::start_with(self.node("pulls"), ["k"])
            .await
            .unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_claimer_takes_one_task_for_each_call() {
    let world = World::new().await;
    let ids = world.submits("k", 3).await;
    let claimer = world.claimer().await;
    tokio::time::sleep(secs(60)).await;
    let nodes = world.client.nodes().await.unwrap();
    assert_eq!(nodes[0].spec.slots, 0);
    for id in &ids {
        assert!(world.client.get(id).await.unwrap().node.is_none());
    }

    let first = claimer.claim(secs(10)).await.unwrap().unwrap();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(*first.id(), ids[0]);
    assert!(world.client.get(&ids[1]).await.unwrap().node.is_none());
    first.checkpoint(&7).await.unwrap();
    let state = first.finish(Message::complete_with(1)).await.unwrap();
    assert_eq!(state, StateKind::Completed);
    // The state was stored before the call returned.
    let record = world.client.get(&ids[0]).await.unwrap();
    assert_eq!(record.state.unwrap().code(), StateKind::Completed);

    let second = claimer.try_claim().await.unwrap().unwrap();
    assert_eq!(second.props::<usize>().unwrap(), 1);
    let asleep = second.finish(Message::sleep_for(secs(3600))).await;
    assert_eq!(asleep, Ok(StateKind::Sleeping));
    let third = claimer.try_claim().await.unwrap().unwrap();
    third.finish(Message::pause()).await.unwrap();
    assert!(claimer.try_claim().await.unwrap().is_none());
    assert_eq!(world.code(&ids[2]).await, StateKind::Paused);
    claimer.shutdown().await;
    assert!(world.client.nodes().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn callers_wait_and_get_tasks_in_their_order() {
    let world = World::new().await;
    let claimer = world.claimer().await;
    let got: Arc<Mutex<Vec<(usize, TaskId)>>> = Arc::default();
    let callers: Vec<_> = (0..3)
        .map(|n| {
            let (claimer, got) = (claimer.clone(), got.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(n as u64)).await;
                let task = claimer.claim(secs(600)).await.unwrap().unwrap();
                got.lock().unwrap().push((n, task.id().clone()));
                task.finish(Message::complete()).await.unwrap();
            })
        })
        .collect();
    tokio::time::sleep(secs(60)).await;
    let ids = world.submits("k", 3).await;
    for caller in callers {
        caller.await.unwrap();
    }
    let mut got = got.lock().unwrap().clone();
    got.sort();
    let tasks: Vec<TaskId> = got.into_iter().map(|(_, id)| id).collect();
    assert_eq!(tasks, ids);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_takes_no_task_with_it() {
    let world = World::new().await;
    let claimer = world.claimer().await;
    let waits = tokio::time::timeout(secs(5), claimer.claim(secs(600))).await;
    assert!(waits.is_err());
    assert!(claimer.claim(secs(1)).await.unwrap().is_none());
    let ids = world.submits("k", 1).await;
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&ids[0]).await.unwrap().node.is_none());

    // A task that is dropped is free again, with its data, and no attempt is counted.
    let task = claimer.claim(secs(5)).await.unwrap().unwrap();
    task.checkpoint(&"half").await.unwrap();
    drop(task);
    let again = claimer.claim(secs(60)).await.unwrap().unwrap();
    assert_eq!(again.data::<String>().unwrap().unwrap(), "half");
    assert_eq!(again.attempt(), 1);
    again.finish(Message::complete()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_store_refuses_is_reported_to_its_caller() {
    let world = World::new().await;
    let claimer = world.claimer().await;
    let ids = world.submits("k", 1).await;
    let task = claimer.claim(secs(5)).await.unwrap().unwrap();
    let refused = task.finish(Message::complete().and_delete("nothing")).await;
    let Err(FinishError::Refused(reason)) = refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("'nothing' does not exist"), "{reason}");
    // The failed attempt is stored, and the policy of the kind retries.
    let record = world.client.get(&ids[0]).await.unwrap();
    assert_eq!(record.state.unwrap().attempts, 1);
    let again = claimer.claim(secs(60)).await.unwrap().unwrap();
    assert_eq!(again.attempt(), 2);
    let again = again.finish(Message::run()).await;
    assert_eq!(again, Ok(StateKind::Runnable));
    let last = claimer.claim(secs(60)).await.unwrap().unwrap();
    assert_eq!(
        last.finish(Message::fail("no")).await,
        Ok(StateKind::Failed)
    );
}

#[tokio::test(start_paused = true)]
async fn a_claimed_task_obeys_commands() {
    let world = World::new().await;
    let claimer = world.claimer().await;
    let ids = world.submits("k", 2).await;
    let task = claimer.claim(secs(5)).await.unwrap().unwrap();
    world.client.command(&ids[0], Command::Pause).await.unwrap();
    let stop = task.stop_requested().await;
    assert_eq!(task.finish(stop.message()).await, Ok(StateKind::Paused));

    // A task that does not stop is lost at the end of the grace.
    let task = claimer.claim(secs(5)).await.unwrap().unwrap();
    world.command(&ids[1], Command::Kill).await;
    assert_eq!(world.code(&ids[1]).await, StateKind::Killed);
    let late = task.finish(Message::complete()).await;
    assert_eq!(late, Err(FinishError::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_claimer_whose_node_has_stopped_says_so() {
    let world = World::new().await;
    let claimer = world.claimer().await;
    let other = claimer.clone();
    let waits = tokio::spawn(async move { other.claim(secs(3600)).await.map(|_| ()) });
    tokio::time::sleep(secs(1)).await;
    let node = claimer.node().clone();
    world
        .client
        .command_node(&node, windlass::store::NodeCommand::Freeze)
        .await
        .unwrap();
    // A frozen node claims nothing, and the caller still waits.
    world.submits("k", 1).await;
    tokio::time::sleep(secs(60)).await;
    assert!(!waits.is_finished());
    waits.abort();
    let _ = waits.await;
    claimer.shutdown().await;
    let gone = ClaimError::Stopped {
        node,
        failure: None,
    };
    assert!(gone.to_string().contains("start another claimer"));
}

/// A batch handler that completes each task with the number of tasks of its batch.
async fn counts(batch: TaskBatch) -> Message {
    Message::complete_with(batch.tasks().len())
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_called_when_it_is_full_or_its_time_is_over() {
    let world = World::new().await;
    let ids = world.submits("k", 5).await;
    let node = world.node("n").batch_handler("k", 3, secs(2), counts);
    let node = node.start().await.unwrap();
    let mut sizes = Vec::new();
    for id in &ids {
        let done = world.client.wait(id).await.unwrap();
        sizes.push(done.result::<usize>().unwrap());
    }
    assert_eq!(sizes, [3, 3, 3, 2, 2]);
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_task_of_a_batch_has_its_own_message() {
    let world = World::new().await;
    let ids = world.submits("k", 4).await;
    let own = |batch: TaskBatch| async move {
        batch.each(|task: &TaskContext| match task.props::<usize>() {
            Ok(0) => Message::fail("zero"),
            Ok(n) => Message::complete_with(n * 10),
            Err(error) => Message::fail(error),
        })
    };
    let node = world.node("n").batch_handler("k", 4, secs(1), own);
    let node = node.start().await.unwrap();
    world.rest(&ids[0], StateKind::Failed).await;
    let done = world.client.wait(&ids[3]).await.unwrap();
    assert_eq!(done.result::<usize>().unwrap(), 30);
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_fails_the_attempt_of_each_task() {
    let world = World::new().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let fails = move |batch: TaskBatch| {
        let call = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            match call {
                0 => Err::<Vec<Message>, BoxError>("the database is away".into()),
                1 => panic!("out of luck"),
                2 => Ok(vec![Message::complete()]),
                _ => Ok(batch.each(|_| Message::complete())),
            }
        }
    };
    let ids = world.submits("k", 2).await;
    let node = world.node("n").batch_handler("k", 2, secs(60), fails);
    let node = node.start().await.unwrap();
    for id in &ids {
        world.client.wait(id).await.unwrap();
        let record = world.client.get(id).await.unwrap();
        let state = record.state.unwrap();
        let errors: Vec<String> = state
            .errors
            .entries()
            .iter()
            .map(|e| e.error.clone())
            .collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].contains("the database is away"), "{errors:?}");
        assert!(errors[1].contains("panicked: out of luck"), "{errors:?}");
        assert!(errors[2].contains("1 messages for 2 tasks"), "{errors:?}");
    }
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_batch_that_is_stopped_does_not_stop_the_others() {
    let world = World::new().await;
    let ids = world.submits("k", 2).await;
    let waits = |batch: TaskBatch| async move {
        let (at, stop) = batch.stop_requested().await;
        let mut place = 0..;
        batch.each(|_| match place.next() == Some(at) {
            true => stop.message(),
            false => Message::complete(),
        })
    };
    let node = world.node("n").batch_handler("k", 2, secs(1), waits);
    let node = node.start().await.unwrap();
    world.claimed(&ids[1]).await;
    tokio::time::sleep(secs(5)).await;
    world.command(&ids[1], Command::Pause).await;
    world.client.wait(&ids[0]).await.unwrap();
    assert_eq!(world.code(&ids[1]).await, StateKind::Paused);
    node.shutdown().await;
}
