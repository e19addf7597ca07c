//! What the clients look at beside their traffic: answers to node commands, clocks that were wrong, and nodes that work again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use tokio::time::{Instant, sleep};
use windlass::{
    Client, Command, Limit, NewTask, StateKind,
    schedule::KIND,
    store::{Error, Filter, NodeCommand, NodeCommandId, Page},
};
use windlass_robustness::{
    BoxError, kinds, kinds::Job, node_commands::Ordered, time, traffic::Traffic,
};

use super::{Phase, Plan, Shared, nodes};
use crate::process::WallClock;

/// How often the clients look.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the answer to a drain may take once the answer to the command after it, which unfreezes the node, is there.
const DRAINS: Duration = Duration::from_secs(1);
/// Within which time every node works again when everything has settled.
const JOINS: Duration = Duration::from_secs(30);
/// A task that sleeps for longer than this was put to sleep by a clock that was ahead.
const MISDATED: SignedDuration = SignedDuration::from_secs(60);
/// The period of the limit on starts.
const PERIOD: Duration = Duration::from_millis(200);
/// How many tasks have that limit.
const STARTS: u32 = 12;

/// Looks for drains that are not answered although their node was unfrozen. Returns what is wrong.
pub(super) async fn drains(shared: &Shared, client: &Client, traffic: &Traffic) -> BoxError {
    let mut over: BTreeSet<NodeCommandId> = BTreeSet::new();
    // When each was first seen, and when it was first seen to wait although its node was unfrozen.
    let mut waits: BTreeMap<NodeCommandId, (Instant, Option<Instant>)> = BTreeMap::new();
    loop {
        sleep(AGAIN).await;
        let sent = traffic.promised().node_commands;
        for (at, drain) in sent.iter().enumerate() {
            if drain.command != NodeCommand::Drain || over.contains(&drain.order) {
                continue;
            }
            let (sent_at, since) = waits
                .entry(drain.order)
                .or_insert_with(|| (Instant::now(), None));
            let is_next = |other: &&Ordered| {
                let of_node = other.node == drain.node && other.lease == drain.lease;
                of_node && other.command == NodeCommand::Unfreeze
            };
            let Some(unfreeze) = sent[at..].iter().find(is_next) else {
                continue;
            };
            // First the drain: both are answered at once.
            match client.node_outcome(drain.order).await {
                Ok(Some(_)) | Err(Error::NotFound { .. }) => {
                    over.insert(drain.order);
                    continue;
                }
                Ok(None) => {}
                Err(_) => continue,
            }
            let Ok(Some(_)) = client.node_outcome(unfreeze.order).await else {
                continue;
            };
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            let is_it = |number: &usize| nodes::node_name(*number) == drain.node;
            // A remote worker has no bound.
            let Some(number) = (1..=shared.plan.nodes).find(is_it) else {
                continue;
            };
            // No request from before is under way.
            let calm = sent_at.elapsed() + shared.plan.timeout + AGAIN * 2;
            let is_calm = |process| shared.calm.quiet_for(process) > calm;
            if waited > DRAINS && is_calm(0) && is_calm(number) {
                let (node, order) = (&drain.node, drain.order);
                return format!(
                    "{node} was unfrozen; it has not answered the drain {order} {waited:?} later"
                )
                .into();
            }
        }
    }
}

/// Wakes tasks that a clock which was ahead has put to sleep for long, again and again.
pub(super) async fn wake_misdated(shared: &Shared, client: &Client, traffic: &Traffic) -> BoxError {
    let filter = Filter::new().states([StateKind::Sleeping, StateKind::Fault]);
    loop {
        sleep(AGAIN).await;
        // Earlier, a task may be deleted meanwhile.
        if !shared.is_in(Phase::Settling) {
            continue;
        }
        let Ok(found) = client.list(&filter, Page::new(10_000)).await else {
            continue;
        };
        for record in found {
            let Ok(state) = &record.state else { continue };
            let kind = record.task.kind.as_str();
            let is_misdated = state.due().is_some_and(|due| due > time::wall() + MISDATED);
            // Signals that its handler has kept do not wake it.
            let is_commanded = record.commands > 0 && state.kept_signals == 0;
            if !is_misdated || kinds::stays(kind) || kind == KIND || is_commanded {
                continue;
            }
            let id = format!("wake-{}-{}", record.task.id, state.version);
            if let Err(error) = traffic.command(&record.task.id, &id, Command::Run).await {
                return error;
            }
        }
    }
}

/// Submits tasks with a limit on starts while clocks are wrong: one that is ahead may take its slot.
pub(super) async fn starts(plan: &Plan, traffic: &Traffic) -> Result<(), BoxError> {
    let count = if plan.has_wrong_clocks() { STARTS } else { 0 };
    for n in 0..count {
        start(traffic, &format!("starts-{n}")).await?;
        sleep(plan.over.mul_f64(0.9) / STARTS).await;
    }
    Ok(())
}

/// One step of a millisecond.
pub(super) fn short_job() -> Job {
    Job {
        total: 1,
        ms: 1,
        ..Job::default()
    }
}

fn short(id: &str) -> NewTask {
    let task = NewTask::new("steps").props(&short_job());
    task.id(id).idempotent()
}

async fn start(traffic: &Traffic, id: &str) -> Result<(), BoxError> {
    let task = short(id).limit(Limit::starts("starts", 1, PERIOD)?);
    traffic.submit_all(vec![task.build()?]).await
}

/// A client whose clock is a day ahead submits a task with a unique key. A task with that key is accepted at once by others.
pub(super) async fn unique_key(
    shared: &Shared,
    traffic: &Traffic,
    clock: &WallClock,
) -> Result<(), BoxError> {
    const KEY: &str = "once";
    let within = Duration::from_secs(2);
    let ahead = Arc::new(clock.ahead_by(86_400_000));
    let ahead = Client::new(&nodes::open(shared, 0, ahead).await?);
    loop {
        match ahead
            .submit(short("unique-ahead").unique(KEY, within))
            .await
        {
            Ok(_) | Err(Error::AlreadyFinished { .. }) => break,
            Err(e) if e.is_retryable() => sleep(AGAIN).await,
            Err(e) => return Err(e.into()),
        }
    }
    start(traffic, "starts-last").await?;
    let next = short("unique-next").unique(KEY, within).build()?;
    let submitted = traffic.submit_all(vec![next]).await;
    submitted
        .map_err(|error| format!("a key of a clock that was a day ahead is taken: {error}").into())
}

/// Waits until every node is there.
pub(super) async fn all_join(shared: &Shared, client: &Client) -> Result<(), BoxError> {
    let began = Instant::now();
    loop {
        let there = client.nodes().await.unwrap_or_default();
        let is_missing = |number: &usize| {
            !there
                .iter()
                .any(|node| node.spec.name == nodes::node_name(*number))
        };
        let Some(missing) = (1..=shared.plan.nodes).find(is_missing) else {
            return Ok(());
        };
        if began.elapsed() > JOINS {
            let name = nodes::name(missing);
            return Err(format!(
                "{name} has not joined within {JOINS:?} after everything has settled"
            )
            .into());
        }
        sleep(AGAIN).await;
    }
}

/// Waits until other programs have written beside the namespace, and the history before was compacted.
pub(super) async fn be_idle(shared: &Shared) {
    let began = Instant::now();
    shared.idle.ask();
    // Where nobody follows the changes, there is nothing to see.
    while !shared.idle.is_over() && began.elapsed() < JOINS {
        sleep(Duration::from_millis(20)).await;
    }
}
