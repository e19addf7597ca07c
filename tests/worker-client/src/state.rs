//! What the worker holds: its claims, their reports and their runs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use windlass::{
    Fence, TaskId,
    workers::protocol::{Held, Item, ItemResult, ResultCode, RunPhase, Signalled, What},
};

use crate::{Fault, Faults};

/// The name of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) id: TaskId,
    pub(crate) fence: Fence,
    pub(crate) run: u64,
}

/// A report that is not answered.
#[derive(Debug)]
struct Out {
    what: What,
    ticket: u64,
    /// Its number, once it was sent.
    n: Option<u64>,
}

/// A claim of the worker.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) held: Held,
    /// The number of the last report that is not refused.
    n: u64,
    out: VecDeque<Out>,
    pub(crate) grace: Duration,
    /// When the grace of the stop ends, if it was asked to stop.
    pub(crate) stop_at: Option<Instant>,
    /// Whether the handler has ended or is aborted.
    pub(crate) over: bool,
    pub(crate) signals: Vec<Signalled>,
}

impl Claim {
    pub(crate) fn new(held: Held, n: u64, grace: Duration) -> Self {
        Self {
            held,
            n,
            out: VecDeque::new(),
            grace,
            stop_at: None,
            over: false,
            signals: Vec::new(),
        }
    }

    fn is(&self, name: &Name) -> bool {
        self.held.run == name.run
    }

    /// Notes the end of the run, with its last report.
    pub(crate) fn end(&mut self, what: What) {
        self.over = true;
        self.held.phase = RunPhase::Ended;
        self.report(what, 0);
    }

    fn report(&mut self, what: What, ticket: u64) {
        let n = None;
        self.out.push_back(Out { what, ticket, n });
    }
}

/// What the threads of a worker share.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// The name by which paths call the worker; empty before it has registered.
    pub(crate) worker: String,
    pub(crate) servers: Vec<String>,
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    seq: u64,
    /// Requests that are not answered, with the moment when each was sent.
    open: BTreeMap<u64, Instant>,
    /// The exchanges that may renew the lease, with the moment when each was sent.
    sent: BTreeMap<u64, Instant>,
    /// When the exchange was sent that has renewed the lease.
    pub(crate) renewed: Option<Instant>,
    pub(crate) claims: BTreeMap<(TaskId, Fence), Claim>,
    /// Every run that was started.
    pub(crate) started: BTreeSet<Name>,
    pub(crate) answers: HashMap<u64, Result<(), String>>,
    tickets: u64,
    pub(crate) drain: bool,
    /// Why the worker has ended.
    pub(crate) ended: Option<String>,
    /// Registrations so far.
    pub(crate) leases: u64,
    /// Whether the lease is over, so that the worker has to register again.
    pub(crate) again: bool,
    /// No request is sent before this.
    pub(crate) not_before: Option<Instant>,
}

impl State {
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    pub(crate) fn claim(&self, name: &Name) -> Option<&Claim> {
        let claim = self.claims.get(&(name.id.clone(), name.fence));
        claim.filter(|claim| claim.is(name))
    }

    pub(crate) fn claim_mut(&mut self, name: &Name) -> Option<&mut Claim> {
        let claim = self.claims.get_mut(&(name.id.clone(), name.fence));
        claim.filter(|claim| claim.is(name))
    }

    /// Returns whether the handler of a run goes on although a greater one of its claim has replaced it.
    pub(crate) fn keeps(&self, name: &Name) -> bool {
        let goes_on = self.has(Fault::KeepsReplaced) || self.has(Fault::StartsEarlier);
        goes_on && self.claims.contains_key(&(name.id.clone(), name.fence))
    }

    /// Begins a lease.
    pub(crate) fn registered(&mut self, seq: u64, sent: Instant) {
        self.leases += 1;
        self.again = false;
        self.seq = self.seq.max(seq);
        self.renewed = Some(sent);
        (self.open, self.sent) = (BTreeMap::new(), BTreeMap::new());
        self.drain = false;
    }

    /// Takes the number of the next request, and returns it with the number up to which all are settled.
    pub(crate) fn next(&mut self, exchange: bool) -> (u64, u64) {
        self.seq += 1;
        let now = Instant::now();
        self.open.insert(self.seq, now);
        if exchange {
            self.sent.insert(self.seq, now);
        }
        let first = self.open.keys().next().copied();
        (self.seq, first.unwrap_or(self.seq).saturating_sub(1))
    }

    /// Notes that a request was answered, or that its answer is not awaited any more.
    pub(crate) fn settle(&mut self, seq: u64, answered: bool) {
        self.open.remove(&seq);
        if !answered && self.has(Fault::ReusesSeq) && self.seq == seq {
            self.seq -= 1;
        }
    }

    /// Notes that the exchange of this number has renewed the lease.
    pub(crate) fn renewed(&mut self, seq: u64) {
        let mut sent = self.sent.get(&seq).copied();
        if sent.is_some() && self.has(Fault::TtlFromAnswer) {
            sent = Some(Instant::now());
        }
        self.renewed = self.renewed.max(sent);
        self.sent = self.sent.split_off(&seq);
    }

    /// Asks for a report, and returns the ticket of its answer.
    pub(crate) fn ask(&mut self, name: &Name, what: What) -> Option<u64> {
        self.tickets += 1;
        let ticket = self.tickets;
        let claim = self.claim_mut(name).filter(|claim| !claim.over)?;
        claim.report(what, ticket);
        Some(ticket)
    }

    /// Returns every claim, as an exchange lists them.
    pub(crate) fn held(&self) -> Vec<Held> {
        match self.has(Fault::ForgetsHeld) {
            true => Vec::new(),
            false => self.claims.values().map(|c| c.held.clone()).collect(),
        }
    }

    /// Returns the next report of each claim. A report that was sent before has the number that it had.
    pub(crate) fn reports(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        for claim in self.claims.values_mut() {
            let Some(front) = claim.out.front_mut() else {
                continue;
            };
            let n = *front.n.get_or_insert_with(|| {
                claim.n += 1;
                claim.n
            });
            items.push(Item::new(&claim.held, n, front.what.clone()));
        }
        items
    }

    pub(crate) fn has_reports(&self) -> bool {
        self.claims.values().any(|claim| !claim.out.is_empty())
    }

    /// Notes that the reports of a request have no answer.
    pub(crate) fn unanswered(&mut self) {
        if !self.has(Fault::NewNumber) {
            return;
        }
        for claim in self.claims.values_mut() {
            if let Some(n) = claim.out.front_mut().and_then(|front| front.n.as_mut()) {
                claim.n += 1;
                *n = claim.n;
            }
        }
    }

    /// Takes the result of a report.
    pub(crate) fn result(&mut self, result: &ItemResult) {
        let key = (result.id.clone(), result.fence);
        let Some(claim) = self.claims.get_mut(&key) else {
            return;
        };
        let is_it = |front: &&mut Out| front.n == Some(result.n);
        let Some(front) = claim.out.front_mut().filter(is_it) else {
            return;
        };
        let ends = matches!(front.what, What::Return(_) | What::Aborted);
        let answer = match result.result {
            ResultCode::Retry => return,
            ResultCode::Lost => return self.lose(&key),
            ResultCode::Refused if !ends => {
                claim.n -= 1;
                Err(result.error.clone().unwrap_or_default())
            }
            _ => Ok(()),
        };
        let ticket = front.ticket;
        claim.out.pop_front();
        if ends {
            self.claims.remove(&key);
        } else {
            self.answers.insert(ticket, answer);
        }
    }

    /// Ends a claim of which nothing is reported any more.
    pub(crate) fn lose(&mut self, key: &(TaskId, Fence)) {
        if self.has(Fault::IgnoresLost) {
            return;
        }
        let reports = self.has(Fault::ReportsAfterLost);
        match self.claims.get_mut(key) {
            Some(claim) if reports && !claim.over => claim.end(What::Aborted),
            Some(_) if reports => {}
            _ => {
                self.claims.remove(key);
            }
        }
    }

    /// Ends every claim.
    pub(crate) fn lose_all(&mut self) {
        self.claims.clear();
    }
}

/// The state, and a signal for each change of it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits until something changes, at most this long.
    pub(crate) fn wait(&self, time: Duration) {
        drop(self.changed.wait_timeout(self.lock(), time));
    }
}
