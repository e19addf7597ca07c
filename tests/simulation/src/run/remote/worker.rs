//! A remote worker that follows the duties of docs/reference/workers.md, without threads.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use windlass::{
    Command, Fence, NodeName, TaskId,
    workers::{
        WorkerError,
        protocol::{Exchange, Exchanged, Held, Leave, Register, RunPhase, Signalled, Start, What},
    },
};
use windlass_robustness::{
    BoxError, time,
    witness::{Journal, Said},
};

use super::{
    Answer, KIND, Request, WorkerServers,
    claims::{Claim, Inner, Key, Out, State},
};
use crate::{locked, run::Shared};

/// How long after the last renewal the lease ends: the least that servers accept.
pub(super) const TTL: Duration = Duration::from_secs(15);
/// How much longer than the wait of an exchange an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// The pause after a failure.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// One worker. Clones share it.
#[derive(Clone)]
pub(super) struct Worker(pub(super) Arc<Inner>);

/// What the process of a worker does, until it is asked to stop.
pub(in crate::run) async fn work(
    shared: &Shared,
    number: usize,
    journal: &Journal,
    stop: &Notify,
) -> Result<(), BoxError> {
    let worker = Worker(Arc::new(Inner {
        shared: shared.clone(),
        secret: format!("the secret of process {}", time::pid()),
        own_name: format!("worker-{number}-{}", time::pid()),
        ledger: shared.ledger.clone(),
        state: Mutex::default(),
        reports: Notify::new(),
    }));
    let node = NodeName::new(worker.0.own_name.clone())?;
    journal.say(Said::Serves {
        node,
        kinds: vec![KIND.to_owned()],
        side: None,
    });
    loop {
        worker.register(stop).await?;
        let ended = tokio::select! {
            biased;
            () = stop.notified() => true,
            () = worker.exchange_on() => false,
            () = worker.report_on() => false,
            () = worker.watch_on() => false,
        };
        worker.lose_all();
        if ended {
            // The attempts whose ends it has not reported count as lost.
            worker.0.ledger.killed(time::pid());
            let name = worker.lock().name.clone();
            let leave = Request::Leave(
                name.ok_or("has not registered")?,
                form::<Leave>(json!({"secret": worker.0.secret}))?,
            );
            loop {
                match worker.ask(leave.clone(), PATIENCE).await {
                    Some(Answer::Left) => return Ok(()),
                    _ => sleep(PAUSE).await,
                }
            }
        }
    }
}

/// Returns the order of a signal; `None` for another command.
fn signal(of: &Signalled) -> Option<u64> {
    matches!(of.command, Command::Signal(_)).then_some(of.order)
}

pub(super) fn form<T: serde::de::DeserializeOwned>(
    value: serde_json::Value,
) -> Result<T, BoxError> {
    Ok(serde_json::from_value(value)?)
}

impl Worker {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.0.state)
    }

    pub(super) async fn ask(&self, request: Request, within: Duration) -> Option<Answer> {
        let shared = &self.0.shared;
        let (servers, trace): (&WorkerServers, _) = (&shared.worker_servers, &shared.trace);
        let name = &self.0.own_name;
        trace.say(|| format!("{name} asks {request}"));
        let answer = servers.ask(request, within, shared.is_disturbed()).await;
        trace.say(|| format!("{name} gets {answer:?}"));
        answer
    }

    /// Registers until a server has answered. Fails when it is asked to stop.
    async fn register(&self, stop: &Notify) -> Result<(), BoxError> {
        let request = form::<Register>(json!({
            "name": self.0.own_name, "secret": self.0.secret, "ttl_ms": TTL.as_millis() as u64,
            "kinds": {KIND: {"slots": 4, "grace_ms": 2000, "signals": true}},
        }))?;
        loop {
            let sent = Instant::now();
            let asked = self.ask(Request::Register(request.clone()), PATIENCE);
            let answer = tokio::select! {
                biased;
                () = stop.notified() => {
                    // It may be registered all the same.
                    self.0.ledger.killed(time::pid());
                    return Err("it was asked to stop".into());
                }
                answer = asked => answer,
            };
            if let Some(Answer::Registered(registered)) = answer {
                let mut state = self.lock();
                state.seq = state.seq.max(registered.seq);
                state.name = Some(registered.worker);
                state.renewed = Some(sent);
                state.open.clear();
                state.sent.clear();
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    /// Takes the number of the next request, with that up to which all are settled.
    pub(super) fn next(&self, is_exchange: bool) -> (u64, u64, Option<NodeName>) {
        let mut state = self.lock();
        state.seq += 1;
        let seq = state.seq;
        state.open.insert(seq);
        if is_exchange {
            state.sent.insert(seq, Instant::now());
        }
        let first = state.open.first().copied().unwrap_or(seq);
        (seq, first - 1, state.name.clone())
    }

    /// Exchanges until the lease is over.
    async fn exchange_on(&self) {
        let mut failed = true;
        loop {
            let (seq, settled, name) = self.next(true);
            let wait = if failed { Duration::ZERO } else { TTL / 4 };
            let held: Vec<Held> = {
                let state = self.lock();
                state.claims.values().map(|c| c.held.clone()).collect()
            };
            let request = form::<Exchange>(json!({
                "secret": self.0.secret, "seq": seq, "settled": settled, "held": held,
                "wait_ms": wait.as_millis() as u64,
            }));
            let (Some(name), Ok(request)) = (name, request) else {
                return;
            };
            let answer = self.ask(Request::Exchange(name, request), wait + PATIENCE);
            match answer.await {
                Some(Answer::Exchanged(answer)) => {
                    failed = false;
                    self.take(answer);
                }
                Some(Answer::Refused(WorkerError::Over(_))) => return,
                _ => failed = true,
            }
            self.lock().open.remove(&seq);
            if failed {
                sleep(PAUSE).await;
            }
        }
    }

    /// Takes the answer of an exchange.
    fn take(&self, answer: Exchanged) {
        {
            let mut state = self.lock();
            let sent = state.sent.get(&answer.renewed_seq).copied();
            state.renewed = state.renewed.max(sent);
            state.sent = state.sent.split_off(&answer.renewed_seq);
            state.drain = answer.drain;
        }
        for lost in answer.lost {
            self.lose(&(lost.id, lost.fence));
        }
        for stop in answer.stop {
            let mut state = self.lock();
            let claim = state.claims.get_mut(&(stop.id, stop.fence));
            if let Some(claim) = claim.filter(|claim| claim.held.run == stop.run) {
                let grace = Duration::from_millis(stop.grace_ms);
                claim.stop_at.get_or_insert(Instant::now() + grace);
                claim.held.took = claim.held.took.max(stop.order.unwrap_or(0));
                if claim.held.phase == RunPhase::Running {
                    claim.held.phase = RunPhase::Stopping;
                }
            }
        }
        for signal in answer.signals {
            let mut state = self.lock();
            let (run, order, asks) = (signal.run, signal.order, self::signal(&signal));
            let claim = state.claims.get_mut(&(signal.id, signal.fence));
            // Signals are repeated until the server knows that they have come.
            let is_new = |claim: &&mut Claim| claim.held.run == run && claim.held.took < order;
            if let Some(claim) = claim.filter(is_new) {
                claim.held.took = order;
                claim.signals.extend(asks);
            }
        }
        self.start_all(answer.claims);
    }

    /// Starts runs, each at most once.
    pub(super) fn start_all(&self, starts: Vec<Start>) {
        // The answer may have come late: another worker may have the tasks by now.
        if self.lock().is_over() {
            return;
        }
        for start in starts {
            let name = (start.id.clone(), start.fence, start.run);
            let key = (start.id.clone(), start.fence);
            let is_old = {
                let mut state = self.lock();
                let of_task = state.started.iter().filter(|(id, ..)| *id == start.id);
                let is_later = |(_, fence, run): &(TaskId, Fence, u64)| {
                    (*fence, *run) > (start.fence, start.run)
                };
                let is_late = of_task.clone().any(is_later);
                !state.started.insert(name) || is_late
            };
            if is_old {
                continue;
            }
            // It replaces what the worker has of earlier claims and runs of the task.
            let earlier: Vec<Key> = {
                let state = self.lock();
                let keys = state.claims.keys();
                let of = |(id, fence): &&Key| *id == start.id && *fence <= start.fence;
                keys.filter(of).cloned().collect()
            };
            for key in earlier {
                self.lose(&key);
            }
            let mut held = Held::new(start.id.clone(), start.fence, start.run);
            held.took = start.signals.iter().map(|s| s.order).max().unwrap_or(0);
            let claim = Claim {
                held,
                n: start.n.saturating_sub(1),
                start: start.clone(),
                out: VecDeque::new(),
                stop_at: None,
                signals: start.signals.iter().filter_map(signal).collect(),
                handler: None,
            };
            self.lock().claims.insert(key.clone(), claim);
            let step = start.data.as_ref();
            let step = step
                .and_then(|data| data.get::<u64>("data").ok())
                .unwrap_or(0);
            self.0.ledger.starts(&start, time::pid(), step);
            let (worker, at) = (self.clone(), key.clone());
            let handler = tokio::spawn(async move { worker.handle(start, at, step).await });
            if let Some(claim) = self.lock().claims.get_mut(&key) {
                claim.handler = Some(handler);
            }
        }
    }

    /// Aborts what has to end: after its grace, and everything when the lease was not renewed for too long.
    async fn watch_on(&self) {
        loop {
            sleep(Duration::from_millis(10)).await;
            let now = Instant::now();
            let keys: Vec<Key> = {
                let state = self.lock();
                let is_over = state.is_over();
                if is_over {
                    self.0.ledger.lapsed();
                }
                let ends = |claim: &Claim| {
                    let is_running = claim.held.phase != RunPhase::Ended;
                    is_running && (is_over || claim.stop_at.is_some_and(|at| at <= now))
                };
                let ending = state.claims.iter().filter(|(_, claim)| ends(claim));
                ending.map(|(key, _)| key.clone()).collect()
            };
            for key in keys {
                self.abort(&key);
            }
        }
    }

    /// Ends a handler, and reports it.
    fn abort(&self, key: &Key) {
        let mut state = self.lock();
        if let Some(claim) = state.claims.get_mut(key) {
            if let Some(handler) = claim.handler.take() {
                handler.abort();
            }
            self.0.ledger.ends(&claim.start);
            claim.held.phase = RunPhase::Ended;
            // A checkpoint that was sent comes before, with its number; one that was not is given up.
            claim.out.retain(|out| out.n.is_some());
            claim.out.push_back(Out {
                what: What::Aborted,
                n: None,
                to: None,
            });
        }
        drop(state);
        self.0.reports.notify_one();
    }

    pub(super) fn lose(&self, key: &Key) {
        if let Some(claim) = self.lock().claims.remove(key) {
            if let Some(handler) = claim.handler {
                handler.abort();
            }
            self.0.ledger.ends(&claim.start);
        }
    }

    fn lose_all(&self) {
        let keys: Vec<Key> = self.lock().claims.keys().cloned().collect();
        for key in keys {
            self.lose(&key);
        }
    }
}
