//! The node of this process: it watches the tasks of the kinds of its workers, and runs nothing itself.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error, info, warn};
use windlass_statemachine::{Kind, NodeName};

use super::{renewals::Renewal, service::Service, worker::Notice};
use crate::store::{Error, Event, Lease, NodeCommand, NodeSpec, NodeStatus};

/// The time to live of the lease.
const TTL: Duration = Duration::from_secs(15);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the node tries to leave.
const LEAVE: Duration = Duration::from_secs(2);

/// How often workers are forgotten that send nothing here any more.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How long a renewal of a worker waits for others.
const GROUPED: Duration = Duration::from_millis(200);

/// Runs the node until the process stops.
pub(super) async fn run(service: Arc<Service>) {
    tokio::spawn(store_renewals(service.clone()));
    tokio::spawn(dispatch(service.clone()));
    let name = match NodeName::new(&service.name) {
        Ok(name) => name,
        Err(invalid) => return error!(server = %service.name, %invalid, "could not serve workers"),
    };
    let mut spec = NodeSpec::new(name);
    (spec.slots, spec.kinds) = (0, Some(Vec::new()));
    loop {
        let joined = tokio::select! {
            joined = service.coordinator.join(&spec, TTL) => joined,
            () = service.stop.cancelled() => return,
        };
        match joined {
            Ok(lease) => {
                let ended = tokio::select! {
                    error = renew(&service, &lease) => Some(error),
                    () = watch(&service, &lease) => None,
                    () = service.stop.cancelled() => {
                        let _ = timeout(LEAVE, service.coordinator.leave(&lease)).await;
                        return;
                    }
                };
                if let Some(error) = ended {
                    info!(server = %service.name, %error, "the lease of the server is over; joining again");
                }
                // A lease that may still live has the name.
                let _ = timeout(LEAVE, service.coordinator.leave(&lease)).await;
            }
            Err(error) => {
                warn!(server = %service.name, %error, "could not join to serve workers; trying again");
            }
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = service.stop.cancelled() => return,
        }
    }
}

/// Renews the lease until it is over.
async fn renew(service: &Service, lease: &Lease) -> Error {
    let mut renewed = Instant::now();
    loop {
        sleep_until(renewed + TTL / 3).await;
        let asked = Instant::now();
        let status = NodeStatus::default();
        match timeout(TTL / 3, service.coordinator.renew(lease, &status)).await {
            Ok(Ok(())) => renewed = asked,
            Ok(Err(error)) if !error.is_retryable() => return error,
            Ok(Err(error)) if renewed.elapsed() > TTL => return error,
            Ok(Err(_)) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}

/// Watches the tasks, and again when the kinds change or the watch has ended.
async fn watch(service: &Arc<Service>, lease: &Lease) {
    let mut kinds = service.kinds.subscribe();
    loop {
        let wanted: Vec<Kind> = kinds.borrow_and_update().iter().cloned().collect();
        match service.coordinator.watch(lease, Some(wanted)).await {
            Ok(stream) => {
                let mut stream = pin!(stream);
                loop {
                    tokio::select! {
                        events = stream.next() => match events {
                            Some(events) => handle(service, lease, events),
                            None => break,
                        },
                        _ = kinds.changed() => break,
                    }
                }
            }
            Err(Error::Fenced(_)) => return,
            Err(error) => {
                warn!(server = %service.name, %error, "could not watch the tasks; trying again");
            }
        }
        if !kinds.has_changed().unwrap_or(false) {
            sleep(PAUSE).await;
        }
    }
}

/// Applies the events of a watch.
fn handle(service: &Arc<Service>, own: &Lease, events: Vec<Event>) {
    let now = service.moment();
    let mut concerned = Vec::new();
    let mut dispatcher = service.dispatcher();
    for event in events {
        match event {
            Event::Reset => dispatcher.list_begins(),
            Event::Listed => {
                for worker in dispatcher.workers() {
                    worker.tell(Notice::Refresh);
                    concerned.push(worker);
                }
            }
            Event::Task(view) => concerned.extend(dispatcher.view(view, now)),
            Event::Gone { id, order, fence } => {
                concerned.extend(dispatcher.gone(&id, order, fence));
            }
            Event::Node(command) if command.lease == own.id => {
                let outcome = match command.command {
                    NodeCommand::Freeze => "frozen",
                    NodeCommand::Unfreeze => "unfrozen",
                    NodeCommand::Drain => "drained",
                    NodeCommand::Balance => "balanced: 0 tasks released",
                    NodeCommand::StopTask { .. } => "the task is not on this node",
                };
                // The node claims nothing itself, and has no state that an operator could change.
                service.acknowledge(own, command.id, outcome);
            }
            Event::Node(command) => concerned.extend(dispatcher.order(command)),
            // Reported for the own lease, which claims nothing.
            Event::Commands { .. } | Event::Peers => {}
        }
    }
    drop(dispatcher);
    concerned.sort_unstable_by_key(|worker| worker.lease.id);
    concerned.dedup_by_key(|worker| worker.lease.id);
    for worker in concerned {
        service.wake(worker);
    }
    service.work.notify_one();
}

/// Claims due tasks for waiting workers, until the process stops.
async fn dispatch(service: Arc<Service>) {
    let mut swept = Instant::now();
    loop {
        if swept.elapsed() > SWEEP_EVERY {
            swept = Instant::now();
            service.sweep();
        }
        let next = service.dispatcher().next_due_in(service.moment());
        let next = next.unwrap_or(SWEEP_EVERY);
        let next = next.clamp(Duration::from_millis(1), SWEEP_EVERY);
        tokio::select! {
            () = service.work.notified() => {}
            () = sleep(next) => {}
            () = service.stop.cancelled() => return,
        }
        service.dispatch();
    }
}

/// Stores the renewals, until the process stops.
async fn store_renewals(service: Arc<Service>) {
    loop {
        tokio::select! {
            () = service.renewals.added.notified() => {}
            () = service.stop.cancelled() => return,
        }
        sleep(GROUPED).await;
        let service = &service;
        let all = service.renewals.take().into_iter();
        join_all(all.map(|renewal| renew_worker(service, renewal))).await;
    }
}

/// Returns whether the server of this lease still speaks for the worker: its status is then stored. Otherwise the next one
/// finds the commands of operators without an answer, and carries them out.
async fn is_speaker(service: &Service, lease: &Lease) -> Result<bool, Error> {
    let record = service.coordinator.worker(&lease.node).await?;
    Ok(record.is_some_and(|record| lease.speaker.as_ref() == Some(&record.speaker)))
}

/// Renews the lease of a worker.
async fn renew_worker(service: &Arc<Service>, renewal: Renewal) {
    let Renewal {
        worker,
        lease,
        seq,
        came,
    } = renewal;
    let (status, answers) = {
        let mut shared = worker.shared();
        (shared.status.clone(), std::mem::take(&mut shared.answers))
    };
    let renewed = service.coordinator.renew(&lease, &status).await;
    if !answers.is_empty() {
        let answerable = match &renewed {
            Ok(()) => is_speaker(service, &lease).await,
            Err(error) => Err(error.clone()),
        };
        match answerable {
            // Another server finds in the store what the operator has asked for.
            Ok(true) => {
                for (command, outcome) in answers {
                    service.acknowledge(&worker.lease, command, outcome);
                }
            }
            // They are dropped when this server speaks again.
            _ => worker.shared().answers.extend(answers),
        }
    }
    match renewed {
        Ok(()) => {
            let tells = {
                let mut shared = worker.shared();
                shared.is_renewed(seq, came);
                shared.has_renewal_to_tell(worker.lease.ttl)
            };
            if tells {
                worker.news.notify_waiters();
            }
        }
        Err(Error::Fenced(_)) => service.drop_worker(&worker).await,
        Err(error) => {
            debug!(worker = %worker.lease.node, %error, "could not renew the lease of a worker");
        }
    }
}
