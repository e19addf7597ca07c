//! What the process of the clients does: traffic, then it waits until everything has settled, and reads what is left.

use std::{path::Path, sync::Arc, time::Duration};

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{
    Client, NewTask,
    schedule::{Missed, Overlap, Schedule},
    store::{Error, Store},
};
use windlass_robustness::{
    BoxError, feed::Feed, invariants::times, plan, settle::settle_tasks, time, traffic::Traffic,
    world::World,
};

use super::{Ground, Phase, Shared, extras, micros, nodes, probes, remote};
use crate::{locked, process::WallClock};

/// How many times a schedule has.
const TIMES: u64 = 8;
/// How long the last task may take to settle, in virtual time.
const SETTLE: Duration = Duration::from_secs(60);

pub(super) async fn main(shared: Shared, clock: Arc<WallClock>) {
    let end = work(&shared, clock).await.map_err(|e| e.to_string());
    *locked(&shared.end) = Some(end);
    shared.enter(Phase::Over);
}

async fn work(shared: &Shared, clock: Arc<WallClock>) -> Result<World, BoxError> {
    let plan = &shared.plan;
    let client = Client::new(&nodes::open(shared, 0, clock.clone()).await?);
    let store = nodes::open(shared, 0, clock.clone()).await?;
    let feed = loop {
        match Feed::follow(&client).await {
            Ok(feed) => break feed,
            // The line may be disturbed already.
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    };
    let traffic = Traffic::new(&client);
    let mut rng = Rng::with_seed(plan.seed ^ 0xc11e47);
    let mut tasks = plan::Plan::new(rng.u64(..), Path::new("/nowhere"))
        .with_deadlines()
        .with_batches()
        .with_silence(plan.ttl * 2)
        .without_kinds(&["exec"]);
    if plan.remote {
        let new = (0..remote::TASKS).map(|n| NewTask::new(remote::KIND).id(format!("remote-{n}")));
        let new: Result<Vec<_>, _> = new.map(|task| task.idempotent().build()).collect();
        traffic.submit_all(new?).await?;
    }
    for n in 0..plan.schedules {
        schedule(&client, &format!("every-{n}")).await?;
    }
    tokio::select! {
        biased;
        done = disturb_and_settle(shared, &traffic, (&client, &store, &feed), (&mut tasks, rng), &clock) => done?,
        wrong = probes::drains(shared, &client, &traffic), if plan.ground == Ground::Etcd => return Err(wrong),
        wrong = probes::wake_misdated(shared, &client, &traffic), if plan.has_wrong_clocks() => return Err(wrong),
    }
    let settled_at = time::wall();
    shared.enter(Phase::Ending);
    while !shared.is_in(Phase::Reading) {
        sleep(Duration::from_millis(20)).await;
    }
    let changes = feed.all(&client, SETTLE).await?;
    let mut lines = shared.lines().clone();
    if plan.ground == Ground::Memory {
        // The memory store answers at once, so a process may act in the turn of another one, which began later.
        let mut latest = 0;
        for line in &mut lines {
            latest = latest.max(line.at);
            line.at = latest;
        }
    }
    lines.sort_by_key(|line| line.at);
    let mut world = World::load_with(&client, lines, traffic.promised(), Some(changes)).await?;
    world.ttl = micros(plan.ttl);
    world.settled_at = Some(settled_at);
    world.lost_later = plan.ground == Ground::Etcd;
    let found = times::check(&world)?;
    match found.first() {
        None => Ok(world),
        Some((schedule, how)) => Err(format!("the schedule {schedule}: {how}").into()),
    }
}

/// Sends the traffic while there are faults, and then waits until all has settled.
async fn disturb_and_settle(
    shared: &Shared,
    traffic: &Traffic,
    (client, store, feed): (&Client, &Store, &Feed),
    (tasks, mut rng): (&mut plan::Plan, Rng),
    clock: &WallClock,
) -> Result<(), BoxError> {
    let plan = &shared.plan;
    let until = Instant::now() + plan.over;
    let mut fork = || rng.fork();
    let other = &Client::new(store);
    tokio::try_join!(
        traffic.submit(tasks, plan.tasks, plan.over.mul_f64(0.8)),
        traffic.command_at_random(fork(), until),
        traffic.command_nodes(fork(), until),
        traffic.reuse(fork(), until),
        traffic.race(other, fork(), until),
        traffic.pass(other, fork(), until),
        extras::send(shared, traffic, (store, feed), fork(), until),
        probes::starts(plan, traffic),
    )?;
    // Faults go on for as long as the traffic.
    tokio::time::sleep_until(until).await;
    shared.enter(Phase::Settling);
    if plan.has_wrong_clocks() && plan.ground == Ground::Etcd {
        probes::unique_key(shared, traffic, clock).await?;
    }
    settle_tasks(client, traffic, SETTLE, || Ok(())).await?;
    // The lease of a remote worker lasts for 15 s.
    let remote = plan.remote.then_some(Duration::from_secs(40));
    traffic.hear_nodes(remote.unwrap_or(plan.ttl * 4)).await?;
    extras::silent_ones_end(shared).await;
    probes::all_join(shared, client).await?;
    if plan.ground == Ground::Etcd {
        probes::be_idle(shared).await;
    }
    Ok(())
}

/// Creates a schedule of a time each second, which must neither be lost nor fire twice.
async fn schedule(client: &Client, id: &str) -> Result<(), BoxError> {
    let spec = Schedule::new(NewTask::new("steps").props(&probes::short_job()))
        .every(Duration::from_secs(1), None)
        .count(TIMES)
        .overlap(Overlap::Allow(u32::MAX))
        .missed(Missed::All, Duration::from_secs(3600));
    loop {
        match client.schedules().create(id, spec.clone()).await {
            // An earlier try succeeded.
            Ok(_) | Err(Error::AlreadyExists { .. }) => return Ok(()),
            Err(e) if e.is_retryable() => sleep(Duration::from_millis(100)).await,
            Err(e) => return Err(e.into()),
        }
    }
}
