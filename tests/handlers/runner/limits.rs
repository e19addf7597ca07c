//! Limits per node and kind, and the order in which tasks are claimed.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    KindConfig, Limit, Message, NewTask, StateKind, TaskContext,
    store::Filter,
    testing::{Fault, Operation},
};

use super::support::{World, secs};

/// Counts how many run at once, and the most there have been.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
}

impl Gauge {
    async fn work(self) -> Message {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(secs(1)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Message::complete()
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_the_node_and_the_kind_allow() {
    let world = World::new().await;
    let (all, of_a) = (Gauge::default(), Gauge::default());
    let (for_a, for_b) = ((all.clone(), of_a.clone()), all.clone());
    for n in 0..40 {
        let kind = if n % 2 == 0 { "a" } else { "b" };
        world.client.submit(NewTask::new(kind)).await.unwrap();
    }
    let _node = world
        .node("n")
        .slots(7)
        .handler_with(
            "a",
            KindConfig::default().slots(3),
            move |_: TaskContext| {
                let (all, of_a) = for_a.clone();
                async move {
                    let (message, _) = tokio::join!(all.work(), of_a.work());
                    message
                }
            },
        )
        .handler("b", move |_: TaskContext| for_b.clone().work())
        .start()
        .await
        .unwrap();
    world.client.wait_idle(&Filter::default()).await.unwrap();
    assert_eq!(all.most.load(Ordering::SeqCst), 7);
    assert_eq!(of_a.most.load(Ordering::SeqCst), 3);
    let counts = world.client.counts().await.unwrap();
    assert!(
        counts.iter().all(|c| c.state == Some(StateKind::Completed)),
        "{counts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_order_is_priority_then_due_time_then_submit() {
    let world = World::new().await;
    for (id, priority) in [("c", 0), ("d", 0), ("b", 5), ("a", 9)] {
        world
            .client
            .submit(NewTask::new("k").id(id).priority(priority))
            .await
            .unwrap();
    }
    assert_eq!(order_on_one_slot(&world).await, ["a", "b", "c", "d"]);
}

/// Returns a task of a customer who may have many tasks at once.
fn of_customer(name: &str, n: u32) -> NewTask {
    let limit = Limit::at_once(format!("customer={name}"), 1000).unwrap();
    NewTask::new("k").id(format!("{name}{n}")).limit(limit)
}

/// Runs the tasks that are there on a node with one slot, and returns their ids in the order of their starts.
async fn order_on_one_slot(world: &World) -> Vec<String> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let _node = world
        .node("n")
        .slots(1)
        .handler("k", move |task: TaskContext| {
            seen.lock().unwrap().push(task.id().to_string());
            async { Message::complete() }
        })
        .start()
        .await
        .unwrap();
    world.client.wait_idle(&Filter::default()).await.unwrap();
    order.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn keys_of_limits_take_turns_when_the_slots_of_the_node_are_few() {
    let world = World::new().await;
    let (many, few) = (0..100, 0..3);
    for n in many {
        world.client.submit(of_customer("a", n)).await.unwrap();
    }
    for n in few {
        world.client.submit(of_customer("b", n)).await.unwrap();
    }
    let order = order_on_one_slot(&world).await;
    let of_b = |ids: &[String]| ids.iter().filter(|id| id.starts_with('b')).count();
    assert_eq!((order.len(), of_b(&order[..8])), (103, 3), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_priority_goes_before_a_turn() {
    let world = World::new().await;
    for n in 0..10 {
        let urgent = of_customer("a", n).priority(1);
        world.client.submit(urgent).await.unwrap();
    }
    world.client.submit(of_customer("b", 0)).await.unwrap();
    world
        .client
        .submit(NewTask::new("k").id("plain"))
        .await
        .unwrap();
    let order = order_on_one_slot(&world).await;
    assert_eq!(order[10..], ["b0", "plain"]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_free_while_the_end_of_its_task_is_stored() {
    let world = World::new().await;
    let ids = [
        world.client.submit(NewTask::new("k")).await.unwrap(),
        world.client.submit(NewTask::new("k")).await.unwrap(),
    ];
    let begins = Arc::new(Mutex::new(Vec::new()));
    let seen = begins.clone();
    let slow = Fault::Late(secs(4));
    world.faults.fail(Operation::Commit, slow, 1);
    let began = tokio::time::Instant::now();
    let _node = world
        .node("n")
        .slots(1)
        .handler("k", move |_: TaskContext| {
            seen.lock().unwrap().push(began.elapsed().as_secs());
            async { Message::complete() }
        })
        .start()
        .await
        .unwrap();
    for id in &ids {
        assert!(world.client.wait(id).await.unwrap().is_completed());
    }
    assert_eq!(*begins.lock().unwrap(), [0, 0], "seconds from the start");
}

#[tokio::test(start_paused = true)]
async fn short_sleepers_do_not_keep_others_from_running() {
    let world = World::new().await;
    // More pollers than slots, each of which sleeps for less than it takes to be parked.
    let _node = world
        .node("n")
        .slots(2)
        .handler("poll", |task: TaskContext| async move {
            let turns: u32 = task.data()?.unwrap_or(0);
            let next = if turns == 5 {
                Message::complete()
            } else {
                Message::sleep_for(secs(5))
            };
            Ok::<_, windlass::BoxError>(next.with_data(&(turns + 1)))
        })
        .start()
        .await
        .unwrap();
    let began = world.now();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(world.client.submit(NewTask::new("poll")).await.unwrap());
    }
    for id in &ids {
        assert!(world.client.wait(id).await.unwrap().is_completed());
    }
    let took = world.now().duration_since(began).as_secs();
    assert!(
        took < 60,
        "25 s of sleep each, all at the same time, took {took} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_only_its_kinds_and_labels() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .select("region", "eu")
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let mine = world
        .client
        .submit(NewTask::new("k").label("region", "eu"))
        .await
        .unwrap();
    let far = world
        .client
        .submit(NewTask::new("k").label("region", "us"))
        .await
        .unwrap()
        .into_id();
    let other = world
        .client
        .submit(NewTask::new("x").label("region", "eu"))
        .await
        .unwrap()
        .into_id();
    world.client.wait(&mine).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(world.code(&far).await, StateKind::Runnable);
    assert_eq!(world.code(&other).await, StateKind::Runnable);
    let _any = world
        .node("any")
        .default_handler(KindConfig::default(), |_: TaskContext| async {
            Message::complete()
        })
        .start()
        .await
        .unwrap();
    assert!(world.client.wait(&far).await.unwrap().is_completed());
    assert!(world.client.wait(&other).await.unwrap().is_completed());
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_start_is_not_early() {
    let world = World::new().await;
    let at = world.now() + jiff::SignedDuration::from_hours(2);
    let started = Arc::new(Mutex::new(None));
    let (seen, clock) = (started.clone(), world.store.clock().clone());
    let _node = world
        .node("n")
        .handler("k", move |_: TaskContext| {
            *seen.lock().unwrap() = Some(clock.now());
            async { Message::complete() }
        })
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("k").start_at(at))
        .await
        .unwrap()
        .into_id();
    assert_eq!(world.code(&id).await, StateKind::Sleeping);
    world.client.wait(&id).await.unwrap();
    let started = started.lock().unwrap().unwrap();
    let late = started.duration_since(at);
    assert!(!late.is_negative() && late.as_millis() < 1000, "{late}");
}

/// Retries and sleeps counted as no start while the claim was kept, so more calls were made than the limit allows.
#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_task_with_a_limit_on_starts_is_a_start() {
    let world = World::new().await;
    let starts = Arc::new(Mutex::new(Vec::new()));
    let (seen, node) = (starts.clone(), world.node("n"));
    let _node = node
        .handler("k", move |task: TaskContext| {
            let mut seen = seen.lock().unwrap();
            seen.push(tokio::time::Instant::now());
            let message = match task.attempt() {
                1 if seen.len() == 1 => Message::sleep_for(secs(1)),
                1..4 => Message::error("no"),
                _ => Message::complete(),
            };
            async { message }
        })
        .start()
        .await
        .unwrap();
    let task = NewTask::new("k").limit(Limit::starts("api", 2, secs(10)).unwrap());
    let id = world.client.submit(task).await.unwrap().into_id();
    let record = world.client.wait(&id).await.unwrap();
    let starts = starts.lock().unwrap();
    assert_eq!(starts.len(), 5, "a sleep, three failures and the end");
    assert_eq!(record.state.claims, 5);
    for three in starts.windows(3) {
        let apart = three[2] - three[0];
        assert!(apart >= secs(10), "three starts within {apart:?}");
    }
}
