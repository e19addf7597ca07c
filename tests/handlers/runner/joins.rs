//! Nodes that join: which tasks move, and how many handlers start again for that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{
    Message, NewTask, Runner, TaskContext,
    balancer::{Fair, Slower},
    runner::Builder,
};

use super::support::{World, secs};

const TASKS: usize = 120;

/// Counts its starts, and takes up to six seconds to stop, each task another time.
async fn stops_slowly(starts: Arc<AtomicU32>, task: TaskContext) -> Message {
    starts.fetch_add(1, Ordering::SeqCst);
    let stop = task.stop_requested().await;
    let number: u64 = task.id().as_str()[1..].parse().unwrap();
    tokio::time::sleep(Duration::from_millis(number * 997 % 6000)).await;
    stop.message()
}

async fn claims(nodes: &[Runner]) -> Vec<usize> {
    let mut claims = Vec::new();
    for node in nodes {
        claims.push(node.snapshot().await.unwrap().tasks.len());
    }
    claims
}

fn node(world: &World, name: &str, starts: &Arc<AtomicU32>) -> Builder {
    let starts = starts.clone();
    let handler = move |task| stops_slowly(starts.clone(), task);
    world.node(name).slots(1000).handler("k", handler)
}

async fn fair(world: &World, name: &str, starts: &Arc<AtomicU32>) -> Runner {
    let node = node(world, name, starts).balancer(Fair::default());
    node.start().await.unwrap()
}

async fn submit(world: &World, count: usize) {
    let tasks = (0..count).map(|n| NewTask::new("k").id(format!("t{n}")).build().unwrap());
    for answer in world.client.submit_many(tasks).await {
        answer.unwrap();
    }
}

/// Regression: the claims of the other nodes were as old as the last read of the nodes, and tasks on their way
/// counted for none: 79 handlers started again where 72 had to move.
#[tokio::test(start_paused = true)]
async fn a_join_moves_no_more_than_the_difference() {
    for joining in 1..=3 {
        // Nodes balance at random times.
        for round in 0..8 {
            let world = World::new().await;
            let starts = Arc::new(AtomicU32::new(0));
            let mut nodes = vec![fair(&world, "a", &starts).await];
            submit(&world, TASKS).await;
            world
                .until("a has all", || async { claims(&nodes).await == [TASKS] })
                .await;
            for n in 0..joining {
                nodes.push(fair(&world, &format!("b{n}"), &starts).await);
            }
            tokio::time::sleep(secs(300)).await;
            let shared = claims(&nodes).await;
            let restarted = starts.load(Ordering::SeqCst) as usize - TASKS;
            let most = (TASKS * 12).div_ceil(nodes.len() * 10);
            let what = format!("{joining} join, round {round}: {shared:?}, {restarted} restarts");
            assert_eq!(shared.iter().sum::<usize>(), TASKS, "{what}");
            assert!(shared.iter().all(|n| *n <= most), "{what}");
            assert!(restarted <= TASKS - most, "{what}");
        }
    }
}

/// Regression: the first node took every task before it knew of the second one, and nearly half of the handlers
/// started again.
#[tokio::test(start_paused = true)]
async fn the_first_of_two_nodes_that_start_together_does_not_take_all() {
    for apart in [0, 0, 0, 5, 5, 300, 300, 600] {
        let world = World::new().await;
        submit(&world, 100).await;
        let starts = Arc::new(AtomicU32::new(0));
        let first = fair(&world, "a", &starts).await;
        tokio::time::sleep(Duration::from_millis(apart)).await;
        let nodes = [first, fair(&world, "b", &starts).await];
        world
            .until("all are claimed", || async {
                claims(&nodes).await.iter().sum::<usize>() == 100
            })
            .await;
        tokio::time::sleep(secs(100)).await;
        let shared = claims(&nodes).await;
        assert!(shared.iter().all(|n| *n <= 60), "{apart} ms: {shared:?}");
        let starts = starts.load(Ordering::SeqCst);
        assert_eq!(starts, 100, "{apart} ms: no handler starts twice");
    }
}

#[tokio::test(start_paused = true)]
async fn of_nodes_that_wait_for_each_claim_the_one_with_the_fewest_goes_first() {
    let world = World::new().await;
    let starts = Arc::default();
    let slower = |name| node(&world, name, &starts).balancer(Slower::default());
    let busy = slower("busy").start().await.unwrap();
    submit(&world, 40).await;
    let mut nodes = vec![busy];
    world
        .until("busy has all", || async { claims(&nodes).await == [40] })
        .await;
    nodes.push(slower("idle").start().await.unwrap());
    tokio::time::sleep(secs(5)).await;
    for n in 40..60 {
        let task = NewTask::new("k").id(format!("t{n}"));
        world.client.submit(task).await.unwrap();
        tokio::time::sleep(secs(3)).await;
    }
    assert_eq!(claims(&nodes).await, [40, 20], "nothing is released");
    for n in 60..70 {
        let task = NewTask::new("k").id(format!("t{n}"));
        world.client.submit(task).await.unwrap();
        tokio::time::sleep(secs(5)).await;
    }
    assert_eq!(claims(&nodes).await, [40, 30]);
}
