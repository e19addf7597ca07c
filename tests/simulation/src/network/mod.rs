//! [`Network`]: the lines between processes and members, with their faults.
//!
//! A request and its answer are carried by a task of the network, not of the process that asks: what is under way arrives also
//! when its sender has given up or was killed.

mod body;
mod connect;
mod streams;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};
use tonic::Status;

use crate::{
    etcd::{
        Servers,
        service::{self, Answer, Call},
    },
    locked, micros,
    trace::Trace,
};

/// A process and a member.
type Ends = (usize, usize);

/// What happens on a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// The longest delay of a message; each is drawn.
    pub slow: Duration,
    /// Of a hundred requests, how many never arrive.
    pub lose_requests: u32,
    /// Of a hundred answers, how many never arrive.
    pub lose_answers: u32,
    /// Of a hundred requests, how many break the connection before or after they are carried out.
    pub breaks: u32,
    /// Nothing goes to the member until the line is as before.
    pub cut_up: bool,
    /// Nothing comes from the member until then.
    pub cut_down: bool,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            slow: Duration::from_millis(3),
            lose_requests: 0,
            lose_answers: 0,
            breaks: 0,
            cut_up: false,
            cut_down: false,
        }
    }
}

/// The network. Clones are the same.
#[derive(Debug, Clone)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    servers: Arc<Servers>,
    state: Mutex<State>,
    /// Counts the changes of the lines.
    changes: watch::Sender<u64>,
    carrier: mpsc::UnboundedSender<Carried>,
    trace: Trace,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    lines: BTreeMap<Ends, Condition>,
    /// How often each line was broken.
    broken: BTreeMap<Ends, u64>,
    down: Vec<bool>,
    requests: u64,
    /// What is looked for in the messages of watches: a process, and a key that is deleted.
    wanted: Vec<(usize, Vec<u8>)>,
    /// What was found of that.
    noticed: Vec<(usize, Vec<u8>)>,
    /// The processes that have sent a renewal.
    renewing: BTreeSet<usize>,
    /// Answers that nobody gets, so that their connections stay silent instead of broken.
    silent: Vec<oneshot::Sender<Answer>>,
}

/// A request on its way.
#[derive(Debug)]
struct Carried {
    ends: Ends,
    call: Call,
    answer: oneshot::Sender<Answer>,
}

/// What becomes of one request.
struct Fate {
    number: u64,
    up: Duration,
    down: Duration,
    loses_request: bool,
    loses_answer: bool,
    breaks_before: bool,
    breaks_after: bool,
    is_down: bool,
}

fn broken() -> Answer {
    Status::unavailable("transport error: the line broke").into_http()
}

impl Network {
    /// Returns a network without faults, and what carries its messages.
    pub fn new(servers: Arc<Servers>, seed: u64, trace: Trace) -> (Self, impl Future<Output = ()>) {
        let (carrier, mut messages) = mpsc::unbounded_channel::<Carried>();
        let members = servers.members();
        let network = Self(Arc::new(Inner {
            servers,
            state: Mutex::new(State {
                rng: Rng::with_seed(seed),
                lines: BTreeMap::new(),
                broken: BTreeMap::new(),
                down: vec![false; members],
                requests: 0,
                wanted: Vec::new(),
                noticed: Vec::new(),
                renewing: BTreeSet::new(),
                silent: Vec::new(),
            }),
            changes: watch::Sender::new(0),
            carrier,
            trace,
        }));
        // The processes have the network; this task ends with its runtime.
        let carries = network.clone();
        let carry = async move {
            while let Some(message) = messages.recv().await {
                // Boxed, since tokio moves what it spawns more than once, and this has kilobytes.
                tokio::spawn(Box::pin(carries.clone().carry(message)));
            }
        };
        (network, carry)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.0.state)
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Changes a line.
    pub fn set(&self, process: usize, member: usize, condition: Condition) {
        self.lock().lines.insert((process, member), condition);
        self.changed();
    }

    /// Makes all lines whole, and all members run.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.lines.clear();
        state.down.fill(false);
        state.silent.clear();
        drop(state);
        self.changed();
    }

    /// Stops or starts a member. Its connections break.
    pub fn set_down(&self, member: usize, is_down: bool) {
        self.lock().down[member] = is_down;
        self.break_lines(|(_, of)| of == member);
    }

    /// Breaks the connections of a process, or of all.
    pub fn break_all(&self, process: Option<usize>) {
        self.break_lines(|(of, _)| process.is_none_or(|process| process == of));
    }

    fn break_lines(&self, which: impl Fn(Ends) -> bool) {
        let mut state = self.lock();
        let broken = state.broken.iter_mut().filter(|(ends, _)| which(**ends));
        broken.for_each(|(_, times)| *times += 1);
        state.silent.clear();
        drop(state);
        self.changed();
    }

    fn changed(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    fn condition(&self, ends: Ends) -> Condition {
        self.lock().lines.get(&ends).copied().unwrap_or_default()
    }

    /// Returns how often a line was broken.
    fn times_broken(&self, ends: Ends) -> u64 {
        *self.lock().broken.entry(ends).or_default()
    }

    fn fate(&self, ends: Ends) -> Fate {
        let condition = self.condition(ends);
        let mut state = self.lock();
        state.requests += 1;
        let (number, is_down) = (state.requests, state.down[ends.1]);
        let rng = &mut state.rng;
        let slow = micros(condition.slow);
        let mut happens = |share: u32| share > 0 && rng.u32(0..100) < share;
        let (loses_request, loses_answer) = (
            happens(condition.lose_requests),
            happens(condition.lose_answers),
        );
        let breaks = happens(condition.breaks);
        let before = rng.bool();
        Fate {
            number,
            up: Duration::from_micros(rng.u64(0..=slow)),
            down: Duration::from_micros(rng.u64(0..=slow)),
            loses_request,
            loses_answer,
            breaks_before: breaks && before,
            breaks_after: breaks && !before,
            is_down,
        }
    }

    /// Draws the delay of a message of a stream.
    fn delay(&self, ends: Ends) -> Duration {
        let slow = micros(self.condition(ends).slow);
        Duration::from_micros(self.lock().rng.u64(0..=slow))
    }

    /// Waits until a message can pass; `false` when the line broke before.
    async fn pass(&self, ends: Ends, is_cut: impl Fn(Condition) -> bool, since: u64) -> bool {
        let mut changes = self.0.changes.subscribe();
        loop {
            if self.times_broken(ends) != since {
                return false;
            }
            if !is_cut(self.condition(ends)) {
                return true;
            }
            if changes.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Resolves when the line breaks.
    async fn breaks(&self, ends: Ends, since: u64) {
        let mut changes = self.0.changes.subscribe();
        while self.times_broken(ends) == since {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn carry(self, carried: Carried) {
        let Carried { ends, call, answer } = carried;
        let path = call.uri().path().to_owned();
        let fate = self.fate(ends);
        let say = |what: std::fmt::Arguments<'_>| {
            let (process, member) = ends;
            let number = fate.number;
            self.0
                .trace
                .say(|| format!("request {number} {process}→{member} {path}: {what}"));
        };
        if fate.is_down {
            say(format_args!("the member is down"));
            let refused = Status::unavailable("transport error: tcp connect error");
            let _ = answer.send(refused.into_http());
            return;
        }
        let since = self.times_broken(ends);
        sleep(fate.up).await;
        if !self.pass(ends, |line| line.cut_up, since).await || fate.breaks_before {
            say(format_args!("broke before it was carried out"));
            let _ = answer.send(broken());
            return;
        }
        if fate.loses_request {
            say(format_args!("lost"));
            self.lock().silent.push(answer);
            return;
        }
        if service::is_stream(&path) {
            say(format_args!("a stream"));
            return self.carry_stream(ends, since, call, answer).await;
        }
        let answered = service::answer(&self.0.servers, ends, call).await;
        let revision = self.0.servers.revision();
        say(format_args!("carried out at {revision}"));
        sleep(fate.down).await;
        if fate.loses_answer {
            say(format_args!("its answer is lost"));
            self.lock().silent.push(answer);
            return;
        }
        let passed = self.pass(ends, |line| line.cut_down, since).await;
        match passed && !fate.breaks_after {
            true => drop(answer.send(answered)),
            false => {
                say(format_args!("its answer met a broken line"));
                drop(answer.send(broken()));
            }
        }
    }
}
