//! [`Worker`]: registers, exchanges, reports and watches its time.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass::{
    Kind,
    workers::protocol::{Exchanged, ItemResult, Offer, Registered, Reported, ResultCode, VERSION},
};

use crate::{
    BoxError, Fault, Faults, Handler, claims,
    http::{self, Answer},
    state::{Shared, State},
};

/// The pause after a failure that names none.
const PAUSE: Duration = Duration::from_millis(100);
/// How much longer than the wait of an exchange an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a worker is.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The address of a server.
    pub url: String,
    /// The token.
    pub token: String,
    /// The name of the worker.
    pub name: String,
    /// The secret: 16 to 200 characters.
    pub secret: String,
    /// The kinds, with what is offered for each.
    pub kinds: BTreeMap<Kind, Offer>,
    /// The TTL; that of the protocol by default.
    pub ttl: Option<Duration>,
    /// The faults of the worker.
    pub faults: Faults,
}

/// A worker: [`run`](Self::run) blocks until it has ended. Clones share it.
#[derive(Clone)]
pub struct Worker {
    setup: Arc<Setup>,
    handler: Handler,
    shared: Arc<Shared>,
}

/// What follows a request.
enum Next {
    /// It was answered with this body.
    Answered(String),
    /// Its outcome is not known, or it may succeed later. The pause has passed.
    Again,
    /// The lease is over, or the worker.
    Over,
}

impl Worker {
    /// Returns a worker that has not registered.
    pub fn new(setup: Setup, handler: Handler) -> Self {
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.lock();
            state.faults.clone_from(&setup.faults);
            state.servers = vec![setup.url.clone()];
        }
        Self {
            setup: Arc::new(setup),
            handler,
            shared,
        }
    }

    /// Works until the worker has ended: it was refused, or left.
    ///
    /// # Errors
    ///
    /// Why the worker has ended.
    pub fn run(&self) -> Result<(), BoxError> {
        self.register();
        for work in [Self::exchange_on, Self::report_on, Self::watch_on] {
            let worker = self.clone();
            thread::spawn(move || work(&worker));
        }
        loop {
            if let Some(why) = self.shared.lock().ended.clone() {
                return match why.as_str() {
                    "left" => Ok(()),
                    why => Err(why.into()),
                };
            }
            self.shared.wait(Duration::from_millis(50));
        }
    }

    /// Leaves: the handlers are aborted, and the lease ends.
    pub fn leave(&self) {
        let path = {
            let mut state = self.shared.lock();
            state.lose_all();
            format!("/v1/workers/{}/leave", state.worker)
        };
        let body = json!({"secret": self.setup.secret});
        // The lease ends by itself if nobody answers.
        let _ = self.post(&path, &body, PATIENCE);
        self.end("left");
    }

    fn end(&self, why: &str) {
        let mut state = self.shared.lock();
        state.lose_all();
        state.ended.get_or_insert(why.to_owned());
        drop(state);
        self.shared.notify();
    }

    fn is_over(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Registers, with the same name and secret until a server has answered.
    fn register(&self) {
        let setup = &self.setup;
        let body = json!({
            "protocol": [VERSION], "name": setup.name, "secret": setup.secret, "kinds": setup.kinds,
            "ttl_ms": setup.ttl.map(|ttl| ttl.as_millis() as u64),
            "sdk": concat!("windlass-worker-client ", env!("CARGO_PKG_VERSION")), "pid": std::process::id(),
        });
        while !self.is_over() {
            let sent = Instant::now();
            let answer = self.post("/v1/workers", &body, PATIENCE);
            let known = matches!(&answer.1, Ok(answer) if answer.status == 409);
            let Next::Answered(text) = self.next_step(answer) else {
                if known {
                    thread::sleep(PAUSE);
                }
                continue;
            };
            let Some(registered) = self.read::<Registered>(&text) else {
                continue;
            };
            let mut state = self.shared.lock();
            state.worker = registered.worker.to_string();
            state.ttl = Duration::from_millis(registered.ttl_ms);
            state.wait = Duration::from_millis(registered.wait_ms);
            use_servers(&mut state, registered.servers);
            return state.registered(registered.seq, sent);
        }
    }

    fn exchange_on(&self) {
        let mut failed = true;
        while !self.is_over() {
            if self.shared.lock().again {
                self.register();
            }
            let (path, wait, (seq, body)) = {
                let mut state = self.shared.lock();
                let wait = if failed { Duration::ZERO } else { state.wait };
                let (seq, settled) = state.next(true);
                let body = json!({
                    "secret": self.setup.secret, "seq": seq, "settled": settled, "held": state.held(),
                    "wait_ms": wait.as_millis() as u64,
                });
                let path = format!("/v1/workers/{}/exchange", state.worker);
                (path, wait, (seq, body))
            };
            let next = self.next_step(self.post(&path, &body, wait + PATIENCE));
            let answer = match &next {
                Next::Answered(text) => self.read::<Exchanged>(text),
                _ => None,
            };
            failed = answer.is_none();
            if let Some(answer) = answer {
                {
                    let mut state = self.shared.lock();
                    claims::take(&mut state, &answer);
                    use_servers(&mut state, answer.servers.clone());
                }
                claims::start_all(&self.shared, &self.handler, answer.claims);
            }
            // Only now: what it has brought is in `held`.
            self.shared.lock().settle(seq, !failed);
        }
    }

    fn report_on(&self) {
        while !self.is_over() {
            let (path, seq, body) = {
                let mut state = self.shared.lock();
                if !state.has_reports() {
                    drop(state);
                    self.shared.wait(Duration::from_millis(50));
                    continue;
                }
                let (seq, settled) = state.next(false);
                let wanted = !state.drain || state.has(Fault::IgnoresDrain);
                let body = json!({
                    "secret": self.setup.secret, "seq": seq, "settled": settled, "items": state.reports(),
                    "claims_wanted": wanted,
                });
                (format!("/v1/workers/{}/report", state.worker), seq, body)
            };
            let next = self.next_step(self.post(&path, &body, PATIENCE));
            let answer = match &next {
                Next::Answered(text) => self.read::<Reported>(text),
                _ => None,
            };
            let Some(answer) = answer else {
                let mut state = self.shared.lock();
                state.settle(seq, false);
                state.unanswered();
                continue;
            };
            let again = |result: &ItemResult| result.result == ResultCode::Retry;
            let pause = answer.results.iter().any(again);
            for result in &answer.results {
                self.shared.lock().result(result);
            }
            claims::start_all(&self.shared, &self.handler, answer.claims);
            self.shared.lock().settle(seq, true);
            if pause {
                thread::sleep(PAUSE);
            }
        }
    }

    fn watch_on(&self) {
        while !self.is_over() {
            claims::watch(&mut self.shared.lock());
            self.shared.notify();
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a request to the server that answered last. Returns the lease in whose name it was sent, and the answer.
    fn post(&self, path: &str, body: &Value, patience: Duration) -> (u64, io::Result<Answer>) {
        let (lease, url, pause) = {
            let state = self.shared.lock();
            let url = state.servers.first().cloned().unwrap_or_default();
            let now = Instant::now();
            let pause = state.not_before.map(|at| at.saturating_duration_since(now));
            (state.leases, url, pause)
        };
        thread::sleep(pause.unwrap_or_default());
        let body = body.to_string();
        let answer = http::post(&url, path, &self.setup.token, &body, patience);
        (lease, answer)
    }

    /// Decides what follows an answer, or none.
    fn next_step(&self, (lease, answer): (u64, io::Result<Answer>)) -> Next {
        let Ok(answer) = answer else {
            self.next_server();
            thread::sleep(PAUSE);
            return Next::Again;
        };
        let retry = answer.retry_after.unwrap_or(PAUSE);
        let mut state = self.shared.lock();
        let (at_401, at_410) = (Fault::GoesOnAfter401, Fault::GoesOnAfter410);
        let pause = match answer.status {
            200..=299 => return Next::Answered(answer.body),
            401 | 403 if !state.has(at_401) => {
                drop(state);
                self.end(&format!(
                    "a server answered {}: {}",
                    answer.status, answer.body
                ));
                return Next::Over;
            }
            410 if !state.has(at_410) => {
                // An answer to a request of the lease before counts no more.
                if state.leases == lease {
                    state.lose_all();
                    state.again = true;
                }
                return Next::Over;
            }
            429 if state.has(Fault::HotLoopAfter429) => return Next::Again,
            503 if state.has(Fault::GivesUpAt503) => {
                drop(state);
                self.end("a server answered 503");
                return Next::Over;
            }
            503 if state.servers.len() > 1 => {
                drop(state);
                self.next_server();
                thread::sleep(PAUSE);
                return Next::Again;
            }
            409 => PAUSE,
            _ => retry,
        };
        state.not_before = state.not_before.max(Some(Instant::now() + pause));
        Next::Again
    }

    fn next_server(&self) {
        let mut state = self.shared.lock();
        if state.servers.len() > 1 {
            state.servers.rotate_left(1);
        }
    }

    /// Reads an answer; one that is not of the protocol counts as none.
    fn read<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        let drops = self.shared.lock().has(Fault::DropsUnreadable);
        let is_dropped = drops && serde_json::from_str::<Value>(text).is_err();
        let read = serde_json::from_str(text).ok().filter(|_| !is_dropped);
        if read.is_none() {
            thread::sleep(PAUSE);
        }
        read
    }
}

/// Uses the addresses of the servers, with the one that has just answered first.
fn use_servers(state: &mut State, servers: Vec<String>) {
    let Some(current) = state
        .servers
        .first()
        .cloned()
        .filter(|_| !servers.is_empty())
    else {
        return;
    };
    let others = servers.into_iter().filter(|server| *server != current);
    state.servers = std::iter::once(current.clone()).chain(others).collect();
}
