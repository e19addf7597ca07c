//! [`StandInStore`]: the store that all stand-in servers of a scenario share.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    rules::{REGISTER_AGAIN, Rule, WORKS},
    task::{Earlier, End, Stopped, Task},
};

/// The TTL of every lease: the shortest of the protocol.
pub(super) const TTL: Duration = Duration::from_secs(15);
/// The longest wait of an exchange.
pub(super) const WAIT: Duration = Duration::from_millis(3750);

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Register,
    Exchange,
    Report,
    Leave,
}

/// A request of the client.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) endpoint: Endpoint,
    /// The number of the server that has got it.
    pub(super) server: usize,
    pub(super) body: Value,
    /// How many requests of this kind there were, with this one.
    pub(super) nth: usize,
    pub(super) at: Instant,
}

impl Ask {
    pub(super) fn number(&self, field: &str) -> u64 {
        self.body[field].as_u64().unwrap_or(0)
    }

    pub(super) fn list(&self, field: &str) -> &[Value] {
        self.body[field].as_array().map_or(&[], Vec::as_slice)
    }
}

/// What an answer tells the client, by the places of the tasks.
#[derive(Debug, Default)]
pub(super) struct Carried {
    starts: Vec<usize>,
    stops: Vec<usize>,
    /// Claims that are over.
    over: Vec<usize>,
}

/// A rule that the client has broken.
#[derive(Debug, Clone)]
pub(super) struct Broken {
    pub(super) rule: Rule,
    pub(super) text: String,
}

/// The store of the stand-in servers of a scenario.
#[derive(Debug)]
pub(super) struct StandInStore {
    pub(super) kind: String,
    folder: PathBuf,
    pub(super) servers: Vec<String>,
    /// The name and the secret of the worker, while its lease is live.
    pub(super) lease: Option<(String, String)>,
    pub(super) registrations: usize,
    pub(super) tasks: Vec<Task>,
    pub(super) broken: Vec<Broken>,
    /// The numbers of all requests of the lease, and when each was answered.
    pub(super) seqs: BTreeMap<u64, Option<Instant>>,
    /// Whether the last exchange has failed.
    pub(super) failed: bool,
    pub(super) drain: bool,
    /// Whether the kind takes signals.
    pub(super) takes_signals: bool,
    /// Whether answers have fields that no client knows.
    pub(super) novelties: bool,
    /// When the last request came, by kind: register, exchange, report, leave.
    pub(super) counts: [usize; 4],
}

impl StandInStore {
    pub(super) fn new(kind: &str, folder: &Path) -> Self {
        Self {
            kind: kind.to_owned(),
            folder: folder.to_owned(),
            servers: Vec::new(),
            lease: None,
            registrations: 0,
            tasks: Vec::new(),
            broken: Vec::new(),
            seqs: BTreeMap::new(),
            failed: false,
            drain: false,
            takes_signals: false,
            novelties: false,
            counts: [0; 4],
        }
    }

    /// Adds a task with these props.
    pub(super) fn add(&mut self, props: Value) -> usize {
        let place = self.tasks.len();
        let id = format!("check-{place}");
        let trace = self.folder.join(format!("task-{place}"));
        self.tasks.push(Task::new(id, props, trace));
        place
    }

    /// Notes that the client has broken a rule; only the first time counts.
    pub(super) fn breaks(&mut self, rule: Rule, text: impl Into<String>) {
        if !self.broken.iter().any(|b| b.rule.0 == rule.0) {
            let text = text.into();
            self.broken.push(Broken { rule, text });
        }
    }

    /// Returns whether every task has ended.
    pub(super) fn all_ended(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_live())
    }

    /// Asks for the end of a run.
    pub(super) fn stop(&mut self, place: usize, reason: &'static str, grace: Duration) {
        let sent = None;
        let stop = Stopped {
            reason,
            grace,
            sent,
        };
        self.tasks[place].stop.get_or_insert(stop);
    }

    /// Takes a claim away.
    pub(super) fn lose(&mut self, place: usize) {
        self.tasks[place].end.get_or_insert(End::Lost);
    }

    /// Ends the lease, and with it every claim.
    pub(super) fn end_lease(&mut self) {
        self.lease = None;
        self.seqs.clear();
        for task in self.tasks.iter_mut().filter(|task| task.is_live()) {
            task.end = Some(End::Lost);
        }
    }

    /// Returns whether an exchange has something to tell.
    pub(super) fn has_news(&self) -> bool {
        self.tasks.iter().any(|task| {
            let starts = task.is_live() && task.is_ready && task.sent.is_none();
            let stops = task.stop.as_ref().is_some_and(|stop| stop.sent.is_none());
            let lost = task.end == Some(End::Lost) && task.over_sent.is_none();
            let signal = matches!(task.signal, Some((_, false)));
            let is_late = task.earlier.as_ref().is_some_and(|earlier| earlier.is_due);
            is_late || (starts && !self.drain) || ((stops || signal) && task.is_live()) || lost
        })
    }

    /// Answers a request of a live lease, or a registration.
    pub(super) fn serve(&mut self, ask: &Ask) -> (u16, Value, Carried) {
        let mut carried = Carried::default();
        let (status, mut body) = match ask.endpoint {
            Endpoint::Register => self.register(ask),
            Endpoint::Leave => {
                self.end_lease();
                (200, json!({}))
            }
            _ if self.lease.is_none() => {
                let now = Instant::now();
                let lost = |task: &&mut Task| task.end == Some(End::Lost);
                for task in self.tasks.iter_mut().filter(lost) {
                    task.over_sent.get_or_insert(now);
                }
                return (410, Value::Null, carried);
            }
            Endpoint::Exchange => (200, self.exchange(ask, &mut carried)),
            Endpoint::Report => (200, self.report(ask, &mut carried)),
        };
        if self.novelties && status == 200 {
            body["novelty"] = json!({"in": [1, null, "more"]});
            for claim in body["claims"].as_array_mut().into_iter().flatten() {
                claim["novelty"] = json!([true]);
            }
            for result in body["results"].as_array_mut().into_iter().flatten() {
                result["novelty"] = json!(1);
            }
        }
        (status, body, carried)
    }

    fn register(&mut self, ask: &Ask) -> (u16, Value) {
        let text = |field: &str| ask.body[field].as_str().unwrap_or_default().to_owned();
        let lease = (text("name"), text("secret"));
        if ask.body["kinds"].get(&self.kind).is_none() {
            let kind = self.kind.clone();
            self.breaks(WORKS, format!("it offers no handler of the kind '{kind}'"));
        }
        let known = self.lease.as_ref();
        if known.is_some_and(|known| *known != lease) {
            let what = "it has registered with another name or secret while its lease is live";
            self.breaks(REGISTER_AGAIN, what);
            self.end_lease();
        }
        if self.lease.is_none() {
            self.seqs.clear();
        }
        self.takes_signals = ask.body["kinds"][&self.kind]["signals"] == json!(true);
        self.registrations += 1;
        let name = lease.0.clone();
        self.lease = Some(lease);
        let body = json!({
            "worker": name, "protocol": 1, "features": [], "ttl_ms": TTL.as_millis() as u64,
            "wait_ms": WAIT.as_millis() as u64, "seq": self.seqs.keys().next_back().unwrap_or(&0),
            "now": jiff::Timestamp::now(), "servers": self.servers,
        });
        (200, body)
    }

    /// Returns the runs to start.
    fn starts(&mut self, carried: &mut Carried) -> Vec<Value> {
        let mut starts = Vec::new();
        for (place, task) in self.tasks.iter_mut().enumerate() {
            if task.is_live() && task.is_ready && task.sent.is_none() && !self.drain {
                carried.starts.push(place);
                task.since.get_or_insert_with(Instant::now);
                let mut start = task.start();
                start["kind"] = json!(self.kind);
                if let Some(payload) = task
                    .signals_at_start
                    .as_ref()
                    .filter(|_| self.takes_signals)
                {
                    start["signals"] = json!([task.signalled(payload)]);
                }
                starts.push(start);
            }
            if let Some(mut start) = task.earlier.as_mut().and_then(Earlier::take_start) {
                start["kind"] = json!(self.kind);
                starts.push(start);
            }
        }
        starts
    }

    fn exchange(&mut self, ask: &Ask, carried: &mut Carried) -> Value {
        let claims = self.starts(carried);
        let (mut stops, mut lost, mut signals) = (Vec::new(), Vec::new(), Vec::new());
        for (place, task) in self.tasks.iter_mut().enumerate() {
            if task.is_live()
                && let Some((payload, is_sent)) = &mut task.signal
            {
                *is_sent = true;
                let payload = payload.clone();
                signals.push(task.signalled(&payload));
            }
            let name = json!({"id": task.id, "fence": task.fence});
            if task.end == Some(End::Lost) && task.over_sent.is_none() {
                carried.over.push(place);
                lost.push(name);
            } else if let Some(stop) = task.stop.as_ref().filter(|_| task.is_live()) {
                carried.stops.push(place);
                let mut entry = name;
                entry["run"] = json!(task.run);
                entry["reason"] = json!(stop.reason);
                entry["grace_ms"] = json!(stop.grace.as_millis() as u64);
                if stop.reason == "command" {
                    // As that of a server: the command is the first of the queue.
                    entry["order"] = json!(1);
                    entry["command"] = json!({"message": "pause"});
                }
                stops.push(entry);
            }
        }
        json!({
            "renewed_seq": ask.number("seq"), "claims": claims, "stop": stops, "lost": lost, "drain": self.drain,
            "servers": self.servers, "signals": signals,
        })
    }

    fn report(&mut self, ask: &Ask, carried: &mut Carried) -> Value {
        let mut results = Vec::new();
        for item in ask.list("items") {
            let place = self.tasks.iter().position(|task| item["id"] == task.id);
            let result = match place {
                Some(place) => self.apply(place, item, carried),
                None => "lost",
            };
            results.push(json!({
                "id": item["id"], "fence": item["fence"], "n": item["n"].as_u64().unwrap_or(0), "result": result,
            }));
        }
        let claims = match ask.body["claims_wanted"] == json!(true) {
            true => self.starts(carried),
            false => Vec::new(),
        };
        json!({"results": results, "claims": claims})
    }

    fn apply(&mut self, place: usize, item: &Value, carried: &mut Carried) -> &'static str {
        let task = &mut self.tasks[place];
        let n = item["n"].as_u64().unwrap_or(0);
        if task.end == Some(End::Lost) || item["fence"] != json!(task.fence) {
            return "lost";
        }
        if n <= task.n {
            if task.end.is_some() {
                carried.over.push(place);
            }
            return "applied";
        }
        if task.end.is_some() {
            return "lost";
        }
        task.n = n;
        if let Some(data) = item.get("checkpoint") {
            task.data = Some(data.clone());
        } else if let Some(message) = item.get("return").filter(|m| !m.is_null()) {
            if message["message"] == json!("run") {
                if let Some(data) = message.get("data") {
                    task.data = Some(data.clone());
                }
                task.run += 2;
                task.runs += 1;
                (task.sent, task.since) = (None, None);
            } else {
                task.end = Some(End::Returned(message.clone()));
                carried.over.push(place);
            }
        } else if item["aborted"] == json!(true) {
            task.end = Some(End::Aborted);
            carried.over.push(place);
        }
        "applied"
    }

    /// Notes whether the client has got an answer.
    pub(super) fn sent(&mut self, ask: &Ask, carried: &Carried, got: bool) {
        let (seq, now) = (ask.number("seq"), Instant::now());
        for place in &carried.starts {
            self.tasks[*place].sent = Some((seq, got));
        }
        if !got {
            return self.failed(ask);
        }
        if matches!(ask.endpoint, Endpoint::Exchange) {
            self.failed = false;
        }
        self.seqs.insert(seq, Some(now));
        for place in &carried.stops {
            if let Some(stop) = &mut self.tasks[*place].stop {
                stop.sent.get_or_insert(now);
            }
        }
        for place in &carried.over {
            self.tasks[*place].over_sent.get_or_insert(now);
        }
        for item in ask.list("items") {
            if let Some(task) = self.tasks.iter_mut().find(|task| item["id"] == task.id) {
                task.unanswered.remove(&item["n"].as_u64().unwrap_or(0));
            }
        }
    }

    /// Notes that a request has no answer that settles it.
    pub(super) fn failed(&mut self, ask: &Ask) {
        if matches!(ask.endpoint, Endpoint::Exchange) {
            self.failed = true;
        }
        for item in ask.list("items") {
            let n = item["n"].as_u64().filter(|n| *n > 0);
            let task = self.tasks.iter_mut().find(|task| item["id"] == task.id);
            if let (Some(task), Some(n)) = (task, n) {
                task.unanswered.insert(n, Task::content(item));
            }
        }
    }
}
