//! A worker that speaks the protocol with servers in this process, one step at a time.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass::{
    Client, NewTask, TaskId,
    store::Store,
    workers::{
        WorkerError, Workers,
        protocol::{
            Exchanged, Held, ItemResult, Registered, Reported, ResultCode, RunPhase, Start,
        },
    },
};

/// The longest time that a step may take.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const SECRET: &str = "a secret of sixteen characters";

/// A server of a store.
pub(crate) fn server(store: &Store) -> Workers {
    Workers::new(store, || vec!["http://127.0.0.1:7474".to_owned()])
}

pub(crate) async fn memory() -> (Store, Client) {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    (store, client)
}

/// Waits for a step, and names it when it takes too long.
pub(crate) async fn within<T>(what: &str, step: impl Future<Output = T>) -> T {
    let done = timeout(LIMIT, step).await;
    done.unwrap_or_else(|_| panic!("{what} has taken longer than {LIMIT:?}"))
}

pub(crate) async fn submit(client: &Client, id: &str) -> TaskId {
    let task = NewTask::new("k").id(id).props(&json!({"n": 1}));
    client.submit(task).await.unwrap().into_id()
}

/// A run that the worker has.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) start: Start,
    pub(crate) held: Held,
    /// The number of the next report.
    pub(crate) n: u64,
}

/// A worker. Its answers can be dropped by the test.
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) secret: String,
    pub(crate) seq: u64,
    pub(crate) settled: u64,
    pub(crate) runs: BTreeMap<String, Run>,
    /// The runs that were started, by their names: each once.
    pub(crate) started: Vec<(String, u64, u64)>,
}

impl Worker {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            secret: SECRET.to_owned(),
            seq: 0,
            settled: 0,
            runs: BTreeMap::new(),
            started: Vec::new(),
        }
    }

    /// Registers with this many slots of kind `k`, which takes signals and has a grace of 2 s.
    pub(crate) async fn register(&mut self, server: &Workers, slots: u32) -> Registered {
        let offer = json!({"k": {"slots": slots, "grace_ms": 2000, "signals": true}});
        self.try_register(server, offer).await.unwrap()
    }

    pub(crate) async fn try_register(
        &mut self,
        server: &Workers,
        kinds: Value,
    ) -> Result<Registered, WorkerError> {
        let form =
            json!({"name": self.name, "secret": self.secret, "kinds": kinds, "ttl_ms": 15000});
        let form = serde_json::from_value(form).unwrap();
        within("a registration", server.register(form)).await
    }

    fn held(&self) -> Vec<Held> {
        self.runs.values().map(|run| run.held.clone()).collect()
    }

    /// Sends an exchange, and returns its answer without taking it.
    pub(crate) async fn send_exchange(
        &mut self,
        server: &Workers,
        wait_ms: u64,
    ) -> Result<Exchanged, WorkerError> {
        self.seq += 1;
        let form = json!({"secret": self.secret, "seq": self.seq, "settled": self.settled,
            "held": self.held(), "wait_ms": wait_ms});
        let form = serde_json::from_value(form).unwrap();
        let name = self.name.parse().unwrap();
        within("an exchange", server.exchange(&name, form)).await
    }

    /// Sends an exchange, and takes its answer.
    pub(crate) async fn exchange(&mut self, server: &Workers, wait_ms: u64) -> Exchanged {
        let answer = self.send_exchange(server, wait_ms).await.unwrap();
        self.settled = self.seq;
        self.take(&answer.claims);
        for lost in &answer.lost {
            self.runs
                .retain(|id, run| id != lost.id.as_str() || run.held.fence != lost.fence);
        }
        answer
    }

    /// Starts the runs that are new.
    pub(crate) fn take(&mut self, claims: &[Start]) {
        for start in claims {
            let name = (start.id.to_string(), start.fence.0, start.run);
            if self.started.contains(&name) {
                continue;
            }
            self.started.push(name);
            let mut held = Held::new(start.id.clone(), start.fence, start.run);
            held.took = start
                .signals
                .iter()
                .map(|signal| signal.order)
                .max()
                .unwrap_or(0);
            let run = Run {
                start: start.clone(),
                held,
                n: start.n,
            };
            self.runs.insert(start.id.to_string(), run);
        }
    }

    /// Returns the form of a report of a run, with its next number.
    pub(crate) fn item(&self, id: &str, what: Value) -> Value {
        let Run { held, n, .. } = &self.runs[id];
        let mut item =
            json!({"id": id, "fence": held.fence, "run": held.run, "n": n, "took": held.took});
        for (name, value) in what.as_object().unwrap() {
            item[name] = value.clone();
        }
        item
    }

    /// Sends a report, and returns its answer without taking it.
    pub(crate) async fn send_report(
        &mut self,
        server: &Workers,
        items: Vec<Value>,
        claims_wanted: bool,
    ) -> Result<Reported, WorkerError> {
        self.seq += 1;
        let form = json!({"secret": self.secret, "seq": self.seq, "settled": self.settled,
            "items": items, "claims_wanted": claims_wanted});
        let form = serde_json::from_value(form).unwrap();
        let name = self.name.parse().unwrap();
        within("a report", server.report(&name, form)).await
    }

    /// Reports one thing, and takes the answer.
    pub(crate) async fn report(&mut self, server: &Workers, id: &str, what: Value) -> ItemResult {
        let is_end = what.get("return").is_some() || what.get("aborted").is_some();
        let item = self.item(id, what);
        let answer = self.send_report(server, vec![item], false).await.unwrap();
        self.settled = self.seq;
        let result = answer.results[0].clone();
        if result.result == ResultCode::Applied || is_end && result.result == ResultCode::Refused {
            self.runs.get_mut(id).unwrap().n += 1;
            if is_end {
                self.runs.remove(id);
            }
        }
        self.take(&answer.claims);
        result
    }

    pub(crate) fn phase(&mut self, id: &str, phase: RunPhase) {
        self.runs.get_mut(id).unwrap().held.phase = phase;
    }
}

pub(crate) fn complete() -> Value {
    json!({"return": {"message": "complete", "result": "done"}})
}
