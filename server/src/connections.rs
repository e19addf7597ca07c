//! [`Connections`]: how many connections are open, of whom, and which one is ended for a new one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::{Caller, Refused};

/// How many connections of strangers there is room for beyond the others: so that `/healthz` is answered, and a new caller can
/// say who it is, when every place is taken.
const STRANGERS: usize = 64;

/// The places for connections, by TCP or by the sockets. A new connection never waits: when all places are taken, it gets that
/// of another one on which no request is in work.
///
/// - A stranger is a connection on which no request of a known caller has come. When there are many, the oldest one is ended.
/// - Otherwise it is the one that was idle for the longest time, of the caller who has the most.
/// - A caller has at most a part of the places. Connections for requests of workers do not count in it: exchanges have a bound
///   of their own, and waits of a caller must not refuse the reports for which they wait.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    /// The most connections of one caller.
    each: usize,
    state: Mutex<State>,
}

/// Why a connection of a caller gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// A request is in work on every connection.
    All,
    /// A request is in work on as many connections of the caller as it may have.
    Caller(usize),
}

#[derive(Debug, Default)]
struct State {
    /// The open connections by their numbers, the oldest first.
    open: BTreeMap<u64, Open>,
    /// The numbers of those of strangers.
    strangers: BTreeSet<u64>,
    /// How many connections a caller has.
    callers: HashMap<String, Count>,
    last: u64,
}

#[derive(Debug, Default)]
struct Count {
    all: usize,
    /// Those without the ones for requests of workers.
    counted: usize,
}

#[derive(Debug)]
struct Open {
    ended: CancellationToken,
    caller: Option<Known>,
    /// How many requests are in work on it.
    requests: usize,
    /// Since when it is idle, or that of a stranger.
    since: Instant,
}

#[derive(Debug)]
struct Known {
    caller: Arc<Caller>,
    key: String,
    /// Whether its last request was one of a worker.
    is_of_worker: bool,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            each: (most / 2).max(1),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a new connection a place, and returns its number.
    pub(super) fn open(&self, ended: CancellationToken) -> u64 {
        let mut state = self.state();
        if state.open.len() >= self.most {
            let has_many = state.strangers.len() >= STRANGERS.min(self.most);
            let found = match has_many {
                true => state.oldest_stranger(),
                false => state.idlest(None),
            };
            if let Some(number) = found {
                state.end(number);
            }
        }
        if state.open.len() >= self.most.saturating_add(STRANGERS)
            && let Some(oldest) = state.oldest_stranger()
        {
            state.end(oldest);
        }
        state.last += 1;
        let number = state.last;
        state.strangers.insert(number);
        let open = Open {
            ended,
            caller: None,
            requests: 0,
            since: Instant::now(),
        };
        state.open.insert(number, open);
        number
    }

    pub(super) fn close(&self, number: u64) {
        self.state().remove(number);
    }

    pub(super) fn begin(&self, number: u64) {
        if let Some(open) = self.state().open.get_mut(&number) {
            open.requests += 1;
        }
    }

    pub(super) fn end(&self, number: u64) {
        if let Some(open) = self.state().open.get_mut(&number) {
            open.requests = open.requests.saturating_sub(1);
            if open.caller.is_some() {
                open.since = Instant::now();
            }
        }
    }

    /// Gives a connection to a caller. Another one of the caller may be ended for it.
    pub(super) fn known(
        &self,
        number: u64,
        caller: &Arc<Caller>,
        is_of_worker: bool,
    ) -> Result<(), Crowd> {
        let mut state = self.state();
        let Some(open) = state.open.get(&number) else {
            // It is being ended.
            return Ok(());
        };
        let key = caller.key();
        let before = open.caller.as_ref();
        let is_own = before.is_some_and(|before| before.key == key);
        let counts = before.is_some_and(|before| before.key == key && !before.is_of_worker);
        if before.is_none() && state.open.len() - state.strangers.len() >= self.most {
            let idlest = state.idlest(None).ok_or(Crowd::All)?;
            state.end(idlest);
        }
        let counted = state.callers.get(&key).map_or(0, |count| count.counted);
        if !counts && !is_of_worker && counted >= self.each {
            let full = Crowd::Caller(self.each);
            let idlest = state.idlest(Some((&key, number))).ok_or(full)?;
            state.end(idlest);
        }
        if !is_own || counts == is_of_worker {
            state.forget(number);
            state.strangers.remove(&number);
            let count = state.callers.entry(key.clone()).or_default();
            count.all += 1;
            count.counted += usize::from(!is_of_worker);
        }
        if let Some(open) = state.open.get_mut(&number) {
            open.caller = Some(Known {
                caller: caller.clone(),
                key,
                is_of_worker,
            });
        }
        Ok(())
    }

    pub(super) fn stranger_since(&self, number: u64) -> Option<Instant> {
        let state = self.state();
        let open = state.open.get(&number)?;
        open.caller.is_none().then_some(open.since)
    }

    /// Ends the idle connections of callers who are no longer who they were, such as the holder of a token that was revoked.
    /// Their other connections are those of strangers.
    pub(crate) fn end_refused(&self, now: impl Fn(&Caller) -> Result<(), Refused>) {
        let mut state = self.state();
        let mut asked = HashMap::new();
        let mut refused = Vec::new();
        for (number, open) in &state.open {
            let Some(known) = &open.caller else { continue };
            let is_refused = asked
                .entry(Arc::as_ptr(&known.caller))
                .or_insert_with(|| now(&known.caller) == Err(Refused::Unknown));
            if *is_refused {
                refused.push((*number, open.requests == 0));
            }
        }
        for (number, is_idle) in refused {
            match is_idle {
                true => state.end(number),
                false => state.estrange(number),
            }
        }
    }

    /// Ends one connection: the process has no file left for another one.
    pub(crate) fn end_one(&self) {
        let mut state = self.state();
        let found = state.oldest_stranger().or_else(|| state.idlest(None));
        if let Some(number) = found {
            state.end(number);
        }
    }
}

impl State {
    fn oldest_stranger(&self) -> Option<u64> {
        self.strangers.first().copied()
    }

    /// Returns the connection that was idle for the longest time: of a caller, but another one than this; or of the caller who
    /// has the most of those that are idle.
    fn idlest(&self, of: Option<(&str, u64)>) -> Option<u64> {
        let mut idle: HashMap<&str, (usize, Instant, u64)> = HashMap::new();
        for (number, open) in &self.open {
            let Some(known) = &open.caller else { continue };
            let is_meant = of.is_none_or(|(key, than)| {
                known.key == key && *number != than && !known.is_of_worker
            });
            if open.requests > 0 || !is_meant {
                continue;
            }
            let all = self.callers.get(&known.key).map_or(0, |count| count.all);
            let found = idle.entry(&known.key);
            let found = found.or_insert((all, open.since, *number));
            if open.since < found.1 {
                *found = (all, open.since, *number);
            }
        }
        let most = idle.into_values().max_by_key(|(all, _, _)| *all);
        most.map(|(_, _, number)| number)
    }

    /// Ends a connection. Its place is free at once.
    fn end(&mut self, number: u64) {
        if let Some(open) = self.remove(number) {
            open.ended.cancel();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Open> {
        self.forget(number);
        self.strangers.remove(&number);
        self.open.remove(&number)
    }

    /// Makes a connection that of a stranger, from now on.
    fn estrange(&mut self, number: u64) {
        if !self.forget(number) {
            return;
        }
        if let Some(open) = self.open.get_mut(&number) {
            open.since = Instant::now();
            self.strangers.insert(number);
        }
    }

    /// Takes a connection from its caller. Returns whether it had one.
    fn forget(&mut self, number: u64) -> bool {
        let open = self.open.get_mut(&number);
        let Some(known) = open.and_then(|open| open.caller.take()) else {
            return false;
        };
        if let Some(count) = self.callers.get_mut(&known.key) {
            count.all -= 1;
            count.counted -= usize::from(!known.is_of_worker);
            if count.all == 0 {
                self.callers.remove(&known.key);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32) -> Arc<Caller> {
        Arc::new(Caller::peer(uid))
    }

    fn open(connections: &Connections) -> (u64, CancellationToken) {
        let ended = CancellationToken::new();
        (connections.open(ended.clone()), ended)
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_half_of_the_places_and_loses_the_idle_ones_first() {
        let connections = Connections::new(8);
        let (greedy, other) = (caller(70_001), caller(70_002));
        let mut opened = Vec::new();
        for _ in 0..4 {
            let one = open(&connections);
            connections.begin(one.0);
            connections.known(one.0, &greedy, false).unwrap();
            opened.push(one);
        }
        let fifth = open(&connections);
        let full = connections.known(fifth.0, &greedy, false);
        assert_eq!(full, Err(Crowd::Caller(4)), "a request is in work on each");
        // A request of a worker does not count, and neither does a request of another caller.
        connections.known(fifth.0, &greedy, true).unwrap();
        connections.known(fifth.0, &other, false).unwrap();
        connections.end(opened[1].0);
        let sixth = open(&connections);
        connections.known(sixth.0, &greedy, false).unwrap();
        let is_ended: Vec<bool> = opened.iter().map(|one| one.1.is_cancelled()).collect();
        assert_eq!(
            is_ended,
            [false, true, false, false],
            "the idle one is ended"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_the_place_of_an_idle_one_or_one_for_strangers() {
        let connections = Connections::new(4);
        let mut opened = Vec::new();
        for uid in 0..4 {
            let one = open(&connections);
            connections.begin(one.0);
            connections
                .known(one.0, &caller(70_000 + uid / 2), false)
                .unwrap();
            opened.push(one);
        }
        // A request is in work on each: a stranger is answered, and a caller is refused.
        let stranger = open(&connections);
        assert!(!stranger.1.is_cancelled());
        assert!(opened.iter().all(|one| !one.1.is_cancelled()));
        let last = &opened[3];
        connections.end(last.0);
        connections
            .known(stranger.0, &caller(70_009), false)
            .unwrap();
        assert!(last.1.is_cancelled(), "the idle one is ended for it");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_a_revoked_token_lose_their_place() {
        let connections = Connections::new(4);
        let (idle, busy) = (open(&connections), open(&connections));
        connections.begin(busy.0);
        for one in [&idle, &busy] {
            connections.known(one.0, &caller(70_001), false).unwrap();
        }
        connections.end_refused(|_| Err(Refused::Unconfirmed));
        assert!(!idle.1.is_cancelled(), "a store that is down ends none");
        connections.end_refused(|_| Err(Refused::Unknown));
        assert!(idle.1.is_cancelled());
        assert!(!busy.1.is_cancelled());
        assert!(connections.stranger_since(busy.0).is_some());
    }
}
