//! Several nodes: which node takes a free task, and which tasks a node releases for others.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    Message, NewTask, Runner, TaskContext,
    balancer::{Balancer, Cluster, Decision, Fair},
    store::{ChangeKind, NodeCommand, TaskView},
    testing::Operation,
};

use super::support::{World, secs};

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

async fn claims(nodes: &[Runner]) -> Vec<usize> {
    let mut claims = Vec::new();
    for node in nodes {
        claims.push(node.snapshot().await.unwrap().tasks.len());
    }
    claims
}

#[tokio::test(start_paused = true)]
async fn eight_idle_nodes_make_about_one_claim_for_each_free_task() {
    let world = World::new().await;
    let mut nodes = Vec::new();
    for n in 0..8 {
        let node = world
            .node(&format!("n{n}"))
            .handler("k", obeys)
            .start()
            .await
            .unwrap();
        nodes.push(node);
    }
    // They know of each other after a few seconds.
    tokio::time::sleep(secs(5)).await;
    let counted = world.faults.calls(Operation::Claim);
    for n in 0..200 {
        world
            .client
            .submit(NewTask::new("k").id(format!("t{n}")))
            .await
            .unwrap();
        tokio::time::sleep(secs(1)).await;
    }
    let asked = world.faults.calls(Operation::Claim) - counted;
    assert!(
        (200..=240).contains(&asked),
        "at most 1.2 for each of 200 tasks, not {asked} in all"
    );
    let claims = claims(&nodes).await;
    assert_eq!(claims.iter().sum::<usize>(), 200);
    assert!(
        claims.iter().all(|n| (10..=45).contains(n)),
        "spread: {claims:?}"
    );
}

/// Regression: a task that was left to another node once was claimed by both the next time.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_due_again_and_again_costs_one_claim_each_time() {
    let world = World::new().await;
    let mut nodes = Vec::new();
    for n in 0..8 {
        let sleeps = |_: TaskContext| async { Message::sleep_for(secs(60)) };
        let node = world.node(&format!("n{n}")).handler("k", sleeps);
        nodes.push(node.start().await.unwrap());
    }
    // They know of each other after a few seconds.
    tokio::time::sleep(secs(5)).await;
    let counted = world.faults.calls(Operation::Claim);
    for n in 0..20 {
        let task = NewTask::new("k").id(format!("t{n}"));
        world.client.submit(task).await.unwrap();
        // Two that are due at once can be asked for at once, which counts as one.
        tokio::time::sleep(secs(1)).await;
    }
    tokio::time::sleep(secs(60 * 10 - 10)).await;
    let asked = world.faults.calls(Operation::Claim) - counted;
    assert!(
        (195..=240).contains(&asked),
        "at most 1.2 for each of about 200 times that one was due, not {asked} in all"
    );
}

#[tokio::test(start_paused = true)]
async fn when_the_first_does_not_take_it_the_next_does() {
    #[derive(Debug)]
    struct Never;
    impl Balancer for Never {
        fn takes(&self, _: &Cluster<'_>, _: &TaskView) -> Decision {
            Decision::NotNow
        }
    }
    let world = World::new().await;
    let _lazy = world
        .node("lazy")
        .balancer(Never)
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    let _busy = world
        .node("busy")
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(5)).await;
    for n in 0..20 {
        let id = world
            .client
            .submit(NewTask::new("k").id(format!("t{n}")))
            .await
            .unwrap()
            .into_id();
        let before = world.now();
        world.claimed(&id).await;
        let took = world.now().duration_since(before).as_millis();
        assert!(took < 700, "{took} ms");
        let node = world.client.get(&id).await.unwrap().node.unwrap();
        assert_eq!(node.as_str(), "busy");
    }
}

#[tokio::test(start_paused = true)]
async fn fair_nodes_share_with_one_that_comes_later_and_come_to_rest() {
    let world = World::new().await;
    let mut nodes = Vec::new();
    let fair = |name: &str| world.node(name).slots(1000).balancer(Fair::default());
    nodes.push(fair("a").handler("k", obeys).start().await.unwrap());
    let tasks = (0..120).map(|n| NewTask::new("k").id(format!("t{n}")).build().unwrap());
    for answer in world.client.submit_many(tasks).await {
        answer.unwrap();
    }
    world
        .until("a has all", || async { claims(&nodes).await == [120] })
        .await;
    nodes.push(fair("b").handler("k", obeys).start().await.unwrap());
    nodes.push(fair("c").handler("k", obeys).start().await.unwrap());
    tokio::time::sleep(secs(120)).await;
    let shared = claims(&nodes).await;
    assert_eq!(shared.iter().sum::<usize>(), 120);
    assert!(
        shared.iter().all(|n| *n <= 48),
        "at most 120 % of 40: {shared:?}"
    );
    let moves = |changes: Vec<windlass::store::Change>| {
        changes
            .iter()
            .filter(|c| matches!(c.what, ChangeKind::Claimed { .. }))
            .count()
    };
    let mut before = 0;
    for n in 0..120 {
        let id = format!("t{n}");
        before += moves(world.client.history(&id, 100).await.unwrap());
    }
    tokio::time::sleep(secs(600)).await;
    let mut after = 0;
    for n in 0..120 {
        let id = format!("t{n}");
        after += moves(world.client.history(&id, 100).await.unwrap());
    }
    assert_eq!(before, after, "nothing moves any more");
    assert!(
        before <= 120 + 80 + 40,
        "{before} claims: more than was needed"
    );
    assert_eq!(claims(&nodes).await, shared);
}

/// Regression: a node with too many tasks released them again and again, although no other node
/// could take them.
#[tokio::test(start_paused = true)]
async fn fair_nodes_keep_what_no_other_can_take() {
    for same_kind in [false, true] {
        let world = World::new().await;
        let fair = |name: &str| world.node(name).balancer(Fair::default());
        let (a, b) = (fair("a").handler("k", obeys), fair("b"));
        let b = if same_kind {
            b.handler("k", obeys).select("zone", "x")
        } else {
            b.handler("other", obeys)
        };
        let (_a, _b) = (a.start().await.unwrap(), b.start().await.unwrap());
        tokio::time::sleep(secs(5)).await;
        let tasks = (0..40).map(|n| NewTask::new("k").id(format!("t{n}")).build().unwrap());
        for answer in world.client.submit_many(tasks).await {
            answer.unwrap();
        }
        tokio::time::sleep(secs(60)).await;
        for n in 0..40 {
            let id = format!("t{n}");
            let state = world.client.get(&id).await.unwrap().state.unwrap();
            assert_eq!(state.claims, 1, "{id}");
        }
    }
}

/// Regression: idle nodes of another kind or zone, and full ones, lowered the average: the nodes that
/// could run the tasks took a few of them and left the others for ever.
#[tokio::test(start_paused = true)]
async fn fair_nodes_take_what_idle_and_full_nodes_cannot() {
    let world = World::new().await;
    let fair = |name: &str| world.node(name).slots(100).balancer(Fair::default());
    let nodes = [
        fair("a").handler("k", obeys).select("zone", "x"),
        fair("b").handler("k", obeys).select("zone", "x"),
        fair("other-zone").handler("k", obeys).select("zone", "y"),
        fair("other-kind").handler("other", obeys),
        fair("full")
            .handler("k", obeys)
            .select("zone", "x")
            .slots(2),
    ];
    let mut running = Vec::new();
    for node in nodes {
        running.push(node.start().await.unwrap());
    }
    tokio::time::sleep(secs(5)).await;
    let task = |n| NewTask::new("k").id(format!("t{n}")).label("zone", "x");
    let tasks = (0..40).map(|n| task(n).build().unwrap());
    for answer in world.client.submit_many(tasks).await {
        answer.unwrap();
    }
    tokio::time::sleep(secs(60)).await;
    let shared = claims(&running).await;
    assert_eq!(shared.iter().sum::<usize>(), 40, "{shared:?}");
    assert!(shared[..2].iter().all(|n| *n <= 24), "{shared:?}");
    tokio::time::sleep(secs(600)).await;
    assert_eq!(claims(&running).await, shared, "nothing moves to and fro");
    let mut claimed = 0;
    for n in 0..40 {
        let id = format!("t{n}");
        let state = world.client.get(&id).await.unwrap().state.unwrap();
        claimed += state.claims;
    }
    assert!(claimed <= 60, "{claimed} claims of 40 tasks");
}

/// Nodes with several kinds share each kind with the nodes that run it.
#[tokio::test(start_paused = true)]
async fn fair_nodes_share_each_kind_with_the_nodes_that_run_it() {
    let world = World::new().await;
    let fair = |name: &str| world.node(name).slots(100).balancer(Fair::default());
    let both = |name: &str| fair(name).handler("x", obeys).handler("y", obeys);
    let mut running = vec![both("a").start().await.unwrap()];
    let tasks = (0..40).map(|n| {
        let kind = if n < 4 { "x" } else { "y" };
        NewTask::new(kind).id(format!("t{n}")).build().unwrap()
    });
    for answer in world.client.submit_many(tasks).await {
        answer.unwrap();
    }
    world
        .until("a has all", || async { claims(&running).await == [40] })
        .await;
    running.push(both("b").start().await.unwrap());
    running.push(fair("x").handler("x", obeys).start().await.unwrap());
    tokio::time::sleep(secs(120)).await;
    let shared = claims(&running).await;
    assert_eq!(shared.iter().sum::<usize>(), 40, "{shared:?}");
    assert!(shared[..2].iter().all(|n| *n <= 24), "{shared:?}");
    tokio::time::sleep(secs(600)).await;
    assert_eq!(claims(&running).await, shared, "nothing moves to and fro");
}

#[tokio::test(start_paused = true)]
async fn a_node_balances_on_command_and_moves_no_parked_task() {
    let world = World::new().await;
    let asked = Arc::new(AtomicU32::new(0));
    #[derive(Debug)]
    struct Counts(Arc<AtomicU32>);
    impl Balancer for Counts {
        fn releases(
            &self,
            _: &Cluster<'_>,
            mine: &[windlass::TaskId],
            _: f64,
        ) -> Vec<windlass::TaskId> {
            self.0.fetch_add(1, Ordering::SeqCst);
            mine.to_vec()
        }
    }
    let _node = world
        .node("n")
        .balancer(Counts(asked.clone()))
        .handler("sleeps", |_: TaskContext| async {
            Message::sleep_for(secs(3600))
        })
        .start()
        .await
        .unwrap();
    let id = world
        .client
        .submit(NewTask::new("sleeps"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, windlass::StateKind::Sleeping).await;
    let before = asked.load(Ordering::SeqCst);
    let node = "n";
    let order = world
        .client
        .command_node(node, NodeCommand::Balance)
        .await
        .unwrap();
    world
        .until("it answers", || async {
            world.client.node_outcome(order).await.unwrap().as_deref()
                == Some("balanced: 0 tasks released")
        })
        .await;
    world
        .until("it was asked", || async {
            asked.load(Ordering::SeqCst) > before
        })
        .await;
    let record = world.client.get(&id).await.unwrap();
    assert_eq!(
        record.state.unwrap().claims,
        1,
        "the sleeper is where it was"
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_node_balances_on_command_and_takes_nothing_back() {
    #[derive(Debug)]
    struct All;
    impl Balancer for All {
        fn releases(
            &self,
            _: &Cluster<'_>,
            mine: &[windlass::TaskId],
            _: f64,
        ) -> Vec<windlass::TaskId> {
            mine.to_vec()
        }
    }
    let world = World::new().await;
    let node = world
        .node("n")
        .balancer(All)
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    let id = world.running("k").await;
    node.freeze();
    let order = world
        .client
        .command_node(node.node(), NodeCommand::Balance)
        .await
        .unwrap();
    world
        .until("it is released", || async {
            world.client.get(&id).await.unwrap().node.is_none()
        })
        .await;
    let answer = world.client.node_outcome(order).await.unwrap();
    assert_eq!(answer.as_deref(), Some("balanced: 1 task released"));
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&id).await.unwrap().node.is_none());
}
