//! The node's lease: joins, renews in time, and leaves in time.
//!
//! The node trusts its lease only until a deadline by its own monotonic clock, a margin before the
//! store can let it end. When a renewal has not succeeded by then, the node considers the lease
//! lost, whatever the store reports later. The handlers are stopped before another node can get the
//! tasks.

use std::{pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::{
        mpsc,
        oneshot::{self, error::TryRecvError},
        watch,
    },
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::{error, info, warn};
use windlass_statemachine::Backoff;

use super::{
    input::{EngineInput, LeaseEvent},
    store_errors::Errors,
};
use crate::{
    store::{Coordinator, Error, Lease, NodeSpec, NodeStatus},
    telemetry,
};

/// A request of the engine to the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The description of the node.
    pub(super) spec: Arc<NodeSpec>,
    pub(super) status: NodeStatus,
    pub(super) leave: bool,
}

pub(super) struct Keeper {
    pub(super) coordinator: Arc<dyn Coordinator>,
    /// The description that the store has.
    pub(super) spec: Arc<NodeSpec>,
    pub(super) ttl: Duration,
    pub(super) to_engine: mpsc::UnboundedSender<EngineInput>,
    pub(super) until: watch::Sender<Instant>,
    pub(super) wanted: watch::Receiver<Wanted>,
    pub(super) errors: Errors,
}

/// Returns how long before its end a node considers its lease lost, and has stopped its handlers. A
/// process that outlives a node, and ends the processes that the node has started, has at least this
/// time for that.
pub fn lease_margin(ttl: Duration) -> Duration {
    (ttl / 5).min(Duration::from_secs(3))
}

/// Joins once, and returns any error to the caller. If the answer took so long that little is left of
/// the lease, the lease is renewed before it is used: a lease that counts as lost from the start would
/// only keep the name taken until it ends.
pub(super) async fn join(
    coordinator: &dyn Coordinator,
    spec: &NodeSpec,
    ttl: Duration,
) -> Result<(Lease, Instant), Error> {
    let asked = Instant::now();
    let lease = coordinator.join(spec, ttl).await?;
    if asked.elapsed() < ttl / 3 {
        return Ok((lease, asked + ttl - lease_margin(ttl)));
    }
    let asked = Instant::now();
    let renewed = timeout(ttl / 3, coordinator.renew(&lease, &NodeStatus::default())).await;
    let failed = match renewed {
        Ok(Ok(())) => return Ok((lease, asked + ttl - lease_margin(ttl))),
        Ok(Err(e)) if e.is_retryable() => e,
        // The lease had ended already. The next join may be quicker.
        Ok(Err(_)) => Error::unavailable("join", "the answer came after the lease"),
        Err(_) => Error::unavailable(
            "join",
            "the answer came late, and the lease was not renewed",
        ),
    };
    // If this call fails, the lease ends on its own.
    let _ = timeout(ttl / 3, coordinator.leave(&lease)).await;
    Err(failed)
}

/// The shortest pause before a failed renewal is tried again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The interval at which the log repeats that a node cannot work.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// A lease that counts as lost.
struct Lost {
    lease: Lease,
    /// Resolves when the handlers of its claims have ended.
    handlers: oneshot::Receiver<()>,
}

impl Keeper {
    pub(super) async fn run(mut self, first: (Lease, Instant)) {
        let (mut lease, mut until) = first;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            telemetry::joined(Timestamp::now(), self.ttl, left);
            self.until.send_replace(until);
            if !self.report(LeaseEvent::Gained(lease.clone())) {
                return;
            }
            if self.keep(&lease, until).await {
                // The engine has asked to leave: every task has been released.
                self.leave(&lease).await;
                return;
            }
            self.until.send_replace(Instant::now());
            telemetry::lease_lost();
            let (ended, handlers) = oneshot::channel();
            if !self.report(LeaseEvent::Lost(ended)) {
                return;
            }
            match self.rejoin(Lost { lease, handlers }).await {
                Some(held) => (lease, until) = held,
                None => return,
            }
        }
    }

    /// Ends the lease. If the store does not respond soon, the lease ends on its own.
    async fn leave(&self, lease: &Lease) {
        let left = timeout(self.last_wait(), self.coordinator.leave(lease)).await;
        let why = match left {
            Ok(Ok(())) => return,
            Ok(Err(e)) => e.to_string(),
            Err(_) => "the store did not answer".to_owned(),
        };
        warn!(node = %self.spec.name, lease = lease.id, why,
            "could not end the lease; it ends on its own within {:?}", self.ttl);
    }

    /// Returns how long a node that leaves waits for the store.
    fn last_wait(&self) -> Duration {
        (self.ttl / 3).min(Duration::from_secs(5))
    }

    /// Resolves when the engine asks to leave. Does not mark the change as seen for other waiters.
    fn asked_to_leave(&self) -> impl Future<Output = ()> + use<> {
        let mut wanted = self.wanted.clone();
        async move {
            // An error means that the engine is gone.
            let _ = wanted.wait_for(|wanted| wanted.leave).await;
        }
    }

    /// Renews the lease until the engine asks to leave (true) or the lease is lost (false).
    async fn keep(&mut self, lease: &Lease, mut until: Instant) -> bool {
        let node = self.spec.name.clone();
        let mut next = Instant::now() + self.ttl / 3;
        if self.is_changed() {
            // The description has changed while the node joined.
            next = Instant::now();
        }
        let mut backoff = Backoff::new(self.ttl / 60, self.ttl / 6);
        let mut reported = false;
        let mut last = String::from("no answer");
        loop {
            let leave = tokio::select! {
                biased;
                () = sleep_until(next.min(until)) => false,
                changed = self.wanted.changed() => match changed {
                    Ok(()) => self.wanted.borrow_and_update().leave,
                    Err(_) => true,
                },
            };
            if leave {
                return true;
            }
            let asked = Instant::now();
            if asked >= until {
                error!(%node, lease = lease.id, why = last, "the lease could not be renewed in time: it counts as lost");
                return false;
            }
            let status = self.wanted.borrow().status.clone();
            let renewed = timeout_at(until, self.coordinator.renew(lease, &status));
            let renewed = tokio::select! {
                biased;
                renewed = renewed => renewed,
                () = self.asked_to_leave() => return true,
            };
            match &renewed {
                Ok(Ok(())) => telemetry::renewed(until.saturating_duration_since(Instant::now())),
                Ok(Err(error)) => {
                    telemetry::not_renewed();
                    telemetry::store_error("renew", error);
                }
                Err(_) => telemetry::not_renewed(),
            }
            match renewed {
                Ok(Ok(())) => {
                    let renewed = asked + self.ttl - lease_margin(self.ttl);
                    // A renewal that is answered after the deadline is too late, even if the process
                    // stood still and the answer arrived before: the engine may have stopped the
                    // handlers already. Whichever of keeper and engine checks first decides for both.
                    let in_time = self.until.send_if_modified(|until| {
                        let in_time = Instant::now() < *until;
                        if in_time {
                            *until = renewed;
                        }
                        in_time
                    });
                    if !in_time {
                        error!(%node, lease = lease.id,
                            "the lease was renewed after its time: it counts as lost");
                        return false;
                    }
                    until = renewed;
                    self.errors.succeeded();
                    next = asked + self.ttl / 3;
                    backoff.restart();
                    if reported {
                        info!(%node, lease = lease.id, "the lease is renewed again");
                        reported = false;
                    }
                    let leave = self.asked_to_leave();
                    let described = tokio::select! {
                        biased;
                        described = self.describe(lease) => described,
                        () = leave => return true,
                    };
                    match described {
                        Ok(()) => {}
                        Err(Error::Fenced(why)) => {
                            error!(%node, lease = lease.id, %why, "the lease is lost");
                            return false;
                        }
                        Err(error) => {
                            warn!(%node, lease = lease.id, %error,
                                "could not update the node's description in the store; trying again");
                            next = Instant::now() + self.ttl / 15;
                        }
                    }
                }
                Ok(Err(Error::Fenced(why))) => {
                    error!(%node, lease = lease.id, %why, "the lease is lost");
                    return false;
                }
                Ok(Err(e @ Error::StoreGone { .. })) => {
                    return self.give_up(e).await;
                }
                Ok(Err(e)) => {
                    if let Some(last) = self.errors.count(&e) {
                        return self.give_up(last).await;
                    }
                    // Tries come closer together towards the end of the lease, so that an outage that ends
                    // shortly before costs nothing.
                    let left = until.saturating_duration_since(Instant::now());
                    let pause = backoff.jittered(fastrand::f64());
                    next = Instant::now() + pause.min((left / 4).max(SHORTEST_PAUSE));
                    last = e.to_string();
                    if !reported {
                        warn!(%node, lease = lease.id, error = %e, "the lease could not be renewed; trying again");
                        reported = true;
                    }
                }
                Err(_) => {
                    if let Some(last) = self.errors.count("no answer in time") {
                        return self.give_up(last).await;
                    }
                    error!(%node, lease = lease.id, "the store did not answer in time: the lease counts as lost");
                    return false;
                }
            }
        }
    }

    /// Sends an event to the engine. Returns false if the engine has ended.
    fn report(&self, event: LeaseEvent) -> bool {
        self.to_engine.send(EngineInput::Lease(event)).is_ok()
    }

    /// Stops the engine, which then asks the keeper to leave.
    async fn give_up(&self, why: Error) -> bool {
        self.report(LeaseEvent::StoreGone(why));
        self.asked_to_leave().await;
        true
    }

    fn is_changed(&self) -> bool {
        !Arc::ptr_eq(&self.spec, &self.wanted.borrow().spec)
    }

    /// Describes the node to the store again, if it has changed.
    async fn describe(&mut self, lease: &Lease) -> Result<(), Error> {
        if !self.is_changed() {
            return Ok(());
        }
        let spec = self.wanted.borrow().spec.clone();
        let described = timeout(self.ttl / 6, self.coordinator.describe(lease, &spec)).await;
        let late = || Err(Error::unavailable("describe the node", "no answer in time"));
        described.unwrap_or_else(|_| late())?;
        self.spec = spec;
        Ok(())
    }

    /// Joins again, without a time limit; `None` when the engine asks to leave in the meantime.
    async fn rejoin(&mut self, lost: Lost) -> Option<(Lease, Instant)> {
        let mut lost = Some(lost);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let mut reported: Option<Instant> = None;
        loop {
            if self.wanted.borrow().leave {
                return None;
            }
            self.spec = self.wanted.borrow().spec.clone();
            let mut joining = pin!(join(&*self.coordinator, &self.spec, self.ttl));
            let joined = tokio::select! {
                biased;
                joined = &mut joining => joined,
                () = self.asked_to_leave() => {
                    // A join that still succeeds would keep the name taken until its lease ends.
                    if let Ok(Ok((lease, _))) = timeout(self.last_wait(), joining).await {
                        self.leave(&lease).await;
                    }
                    return None;
                }
            };
            match joined {
                Ok(held) => {
                    self.errors.succeeded();
                    info!(node = %self.spec.name, lease = held.0.id, "joined again with a new lease");
                    return Some(held);
                }
                Err(e @ Error::StoreGone { .. }) => {
                    self.report(LeaseEvent::StoreGone(e));
                    return None;
                }
                // A renewal that reached the store late can have made the lost lease as long as a new
                // one.
                Err(Error::AlreadyExists { .. }) if self.abandon(&mut lost).await => {}
                Err(e) => {
                    if e.is_retryable() {
                        telemetry::store_error("join", &e);
                    }
                    if e.is_retryable()
                        && let Some(last) = self.errors.count(&e)
                    {
                        self.report(LeaseEvent::StoreGone(last));
                        return None;
                    }
                    if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                        self.report_no_lease(&e);
                        reported = Some(Instant::now());
                    }
                    let pause = backoff.jittered(fastrand::f64());
                    tokio::select! {
                        biased;
                        () = sleep(pause) => {}
                        changed = self.wanted.changed() => if changed.is_err() { return None },
                    }
                }
            }
        }
    }

    /// Ends the lost lease once its handlers have ended, so that its name and its tasks are free now. Returns
    /// whether it did.
    async fn abandon(&self, lost: &mut Option<Lost>) -> bool {
        let have_ended = |lost: &mut Lost| lost.handlers.try_recv() != Err(TryRecvError::Empty);
        let Some(lost) = lost.take_if(have_ended) else {
            return false;
        };
        let ended = timeout(self.last_wait(), self.coordinator.abandon(&lost.lease));
        match ended.await {
            Ok(Ok(())) => true,
            // The lease ends on its own.
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Reports that the node could not join again.
    fn report_no_lease(&self, error: &Error) {
        let node = &self.spec.name;
        match error {
            // The lost lease stays in the store until its time has passed.
            Error::AlreadyExists { .. } => warn!(%node,
                "could not join again yet: the store has a lease of this name, most likely the one that this \
                 node has lost, which ends within {:?}; trying again", self.ttl),
            error => error!(%node, %error,
                "could not join: this node does not work; trying again"),
        }
    }
}
