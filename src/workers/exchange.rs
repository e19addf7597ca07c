//! The exchange: renews a lease, compares what a worker holds with its claims, and waits for news.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use windlass_statemachine::{Invalid, Message, NodeName, StopReason, TaskId, machine::Input};

use super::{
    error::WorkerError,
    protocol::{Exchange, Exchanged, Held, Lost, RunPhase},
    renewals::Renewal,
    secret,
    service::Service,
    session::{Entry, Session},
    task::Reconciled,
    worker::Worker,
};

/// The most claims that an exchange may name.
const MOST_HELD: usize = 2_000;

/// Counts an exchange that waits for work.
struct Waits<'a>(&'a Worker);

impl<'a> Waits<'a> {
    fn new(service: &Service, worker: &'a Arc<Worker>) -> Self {
        worker.shared().waiting += 1;
        if service.dispatcher().waits(worker, service.moment()) {
            service.work.notify_one();
        }
        Self(worker)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.shared().waiting -= 1;
    }
}

/// Refuses a number with which the worker would soon have no greater one.
pub(super) fn check_seq(seq: u64) -> Result<(), Invalid> {
    match i64::try_from(seq) {
        Ok(_) => Ok(()),
        Err(_) => Err(Invalid::new(
            "seq",
            format!("{seq} is not below 2^63; begin with 1"),
        )),
    }
}

/// Handles an exchange.
pub(super) async fn exchange(
    service: Arc<Service>,
    name: NodeName,
    request: Exchange,
) -> Result<Exchanged, WorkerError> {
    if request.held.len() > MOST_HELD {
        let reason = format!(
            "{} claims; a worker has at most {MOST_HELD}",
            request.held.len()
        );
        return Err(Invalid::new("held", reason).into());
    }
    check_seq(request.seq)?;
    if request.settled > request.seq {
        let reason = format!(
            "{} is after this request, {}; give the number of an earlier one",
            request.settled, request.seq
        );
        return Err(Invalid::new("settled", reason).into());
    }
    let request = Arc::new(request);
    // Once begun, it is carried out even if the connection ends.
    let begun = tokio::spawn(begin(service.clone(), name.clone(), request.clone()));
    let worker = match begun.await {
        Ok(worker) => worker?,
        Err(_) => {
            return Err(WorkerError::Store(crate::store::Error::unavailable(
                "exchange",
                "the request failed",
            )));
        }
    };
    let longest = worker.lease.ttl / 4;
    let wait = Duration::from_millis(request.wait_ms).min(longest);
    let until = Instant::now() + wait;
    let was_closed = worker.shared().is_closed();
    loop {
        let news = worker.news.notified();
        let mut news = std::pin::pin!(news);
        news.as_mut().enable();
        if worker.shared().is_over {
            return Err(WorkerError::Over(name));
        }
        let (answer, mut ends) = {
            let mut session = worker.session.lock().await;
            let answer = session.news(&service, &worker, &request);
            (answer, !session.speaks || session.exchange != request.seq)
        };
        ends |= worker.shared().has_renewal_to_tell(worker.lease.ttl);
        let is_late = Instant::now() >= until || service.stop.is_cancelled();
        if ends || is_late || answer.drain != was_closed || !answer.is_empty() {
            worker.shared().tells(answer.renewed_seq);
            return Ok(answer);
        }
        let _waits = Waits::new(&service, &worker);
        tokio::select! {
            biased;
            () = news => {}
            () = sleep_until(until) => {}
            () = service.stop.cancelled() => {}
        }
    }
}

/// Admits an exchange, compares what the worker holds with its claims, and claims what is due.
async fn begin(
    service: Arc<Service>,
    name: NodeName,
    request: Arc<Exchange>,
) -> Result<Arc<Worker>, WorkerError> {
    let record = service
        .record(&name, &secret::hash(&request.secret))
        .await?;
    let worker = service.worker(&record);
    worker.is_seen();
    let mut session = worker.session.lock().await;
    session
        .enter(&service, &worker, request.seq, Some(record))
        .await?;
    session.exchange = request.seq;
    worker.shared().pause(request.pause_kinds.clone());
    service.renewals.add(Renewal {
        worker: worker.clone(),
        lease: session.lease.clone(),
        seq: request.seq,
        came: Instant::now(),
    });
    session.compare(&service, &worker, &request).await?;
    let views = service.dispatcher().take_for(&worker, service.moment());
    if !views.is_empty() {
        session.claim(&service, &worker, views).await;
    }
    drop(session);
    // An earlier exchange of the worker ends.
    worker.news.notify_waiters();
    Ok(worker)
}

impl Session {
    /// Compares what the worker holds with its claims.
    async fn compare(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        request: &Exchange,
    ) -> Result<(), WorkerError> {
        let held: HashMap<&TaskId, &Held> =
            request.held.iter().map(|held| (&held.id, held)).collect();
        // Only a read of now tells that a claim is over, or that another server has written.
        let unknown = request.held.iter().filter(|held| !self.knows(held));
        let unknown: Vec<&Held> = unknown.collect();
        if !unknown.is_empty() {
            let ids = unknown.iter().map(|held| held.id.clone()).collect();
            self.read_newer(service, worker, ids, request.seq).await?;
            let over = unknown.into_iter().filter(|held| {
                let entry = self.tasks.get(&held.id);
                entry.is_none_or(|entry| entry.fence() != held.fence)
            });
            let over: Vec<_> = over.map(|held| (held.id.clone(), held.fence)).collect();
            self.fenced.extend(over);
        }
        self.fenced
            .retain(|(id, fence)| held.get(id).is_some_and(|held| held.fence == *fence));
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let held = held.get(&id).copied();
            self.compare_one(service, worker, &id, held, request);
        }
        self.settle(service, worker).await;
        Ok(())
    }

    /// Returns whether this process knows the claim, and a state from which the run can have begun.
    fn knows(&self, held: &Held) -> bool {
        if held.phase == RunPhase::Ended {
            return true;
        }
        match self.tasks.get(&held.id) {
            Some(entry) if entry.fence() != held.fence => false,
            Some(Entry::Live(task)) => held.run <= task.state().version,
            Some(Entry::Unconfirmed(claimed)) => held.run <= claimed.state.version,
            None => false,
        }
    }

    fn compare_one(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        id: &TaskId,
        held: Option<&Held>,
        request: &Exchange,
    ) {
        let held = held.filter(|held| {
            self.tasks
                .get(id)
                .is_some_and(|entry| entry.fence() == held.fence)
        });
        self.start_machine(service, worker, id, held, false);
        let Some(Entry::Live(task)) = self.tasks.get_mut(id) else {
            return;
        };
        let numbers = (request.seq, request.settled);
        let reconciled = task.reconcile(held, numbers, service.env());
        if let Some(held) = held.filter(|held| task.machine.run() == Some(held.run)) {
            let took = Input::Took(held.took);
            self.feed(service, id, took);
        }
        match reconciled {
            Reconciled::Fine => {}
            Reconciled::Dropped => {
                let text = "the worker no longer holds the run, and has not reported its end";
                self.feed(service, id, Input::Returned(Message::error(text)));
            }
            Reconciled::NotTaken => self.feed(service, id, Input::Stop(StopReason::Balance)),
            Reconciled::NeverStarts => self.feed(service, id, Input::Aborted),
        }
    }

    /// Returns what is to be answered to an exchange now.
    fn news(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        request: &Exchange,
    ) -> Exchanged {
        let mut answer = Exchanged::default();
        {
            let shared = worker.shared();
            (answer.drain, answer.renewed_seq) = (shared.is_closed(), shared.renewed());
        }
        if self.exchange != request.seq || !self.speaks {
            return answer;
        }
        for held in &request.held {
            if self.fenced.contains(&(held.id.clone(), held.fence)) {
                answer.lost.push(Lost {
                    id: held.id.clone(),
                    fence: held.fence,
                });
            }
            if let Some(Entry::Live(task)) = self.tasks.get_mut(&held.id)
                && task.claim.fence == held.fence
            {
                let (signals, stop) = task.news(held, request.seq);
                answer.signals.extend(signals);
                answer.stop.extend(stop);
            }
        }
        for entry in self.tasks.values_mut() {
            if let Entry::Live(task) = entry
                && let Some(run) = task.runs_since(request.seq)
                && !request.held.iter().any(|held| held.id == run.id)
            {
                let (signals, stop) = task.news(&run, request.seq);
                answer.signals.extend(signals);
                answer.stop.extend(stop);
            }
        }
        let env = service.env();
        for entry in self.tasks.values_mut() {
            if let Entry::Live(task) = entry {
                answer.claims.extend(task.take_start(request.seq, env));
            }
        }
        answer
    }
}

impl Exchanged {
    /// Returns whether there is nothing to tell that the worker waits for.
    fn is_empty(&self) -> bool {
        let Self {
            claims,
            stop,
            signals,
            lost,
            ..
        } = self;
        claims.is_empty() && stop.is_empty() && signals.is_empty() && lost.is_empty()
    }
}
