//! The requests of remote workers: who may send them, for which tasks, and what each status means.

mod limits;
mod masked;
mod scopes;
mod servers;
mod waited;

use serde_json::{Value, json};
use windlass::{NewTask, StateKind, store::Store};
use windlass_server::{Mask, Masks, Role, Server};

use crate::kit::{Answer, Kit};

pub(super) const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A worker under test, which says the truth about what it has.
pub(super) struct Worker {
    pub(super) token: String,
    pub(super) name: String,
    pub(super) seq: u64,
    pub(super) held: Vec<Value>,
}

impl Worker {
    pub(super) fn new(token: &str, name: &str) -> Self {
        Self {
            token: token.to_owned(),
            name: name.to_owned(),
            seq: 0,
            held: Vec::new(),
        }
    }

    pub(super) async fn register(&self, kit: &Kit, kinds: &[&str], labels: Value) -> Answer {
        let kinds = kinds
            .iter()
            .map(|kind| ((*kind).to_owned(), json!({"slots": 4})));
        let kinds: serde_json::Map<String, Value> = kinds.collect();
        let body = json!({"name": self.name, "secret": SECRET, "kinds": kinds, "labels": labels});
        kit.call_as(&self.token, "POST /v1/workers", body.to_string())
            .await
    }

    async fn post(&mut self, kit: &Kit, what: &str, more: Value) -> Answer {
        self.seq += 1;
        let mut body = json!({"secret": SECRET, "seq": self.seq, "settled": self.seq - 1});
        let fields = body.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let line = format!("POST /v1/workers/{}/{what}", self.name);
        kit.call_as(&self.token, &line, body.to_string()).await
    }

    pub(super) async fn exchange(&mut self, kit: &Kit, wait_ms: u64) -> Answer {
        let held = json!(self.held);
        self.post(kit, "exchange", json!({"held": held, "wait_ms": wait_ms}))
            .await
    }

    /// Exchanges until the answer has a run, and returns it. The worker has it from then on.
    pub(super) async fn claim(&mut self, kit: &Kit) -> Value {
        let claim = async {
            loop {
                let answer = self.exchange(kit, 5_000).await;
                assert_eq!(answer.status, 200, "{}", answer.text);
                if let Some(run) = answer.json()["claims"].get(0) {
                    self.held.push(name_of(run));
                    return run.clone();
                }
            }
        };
        let claimed = tokio::time::timeout(crate::kit::BOUND, claim).await;
        claimed.expect("a run to start in time")
    }

    pub(super) async fn report(&mut self, kit: &Kit, items: Value) -> Answer {
        self.post(kit, "report", json!({"items": items})).await
    }

    pub(super) async fn leave(&self, kit: &Kit) -> Answer {
        let line = format!("POST /v1/workers/{}/leave", self.name);
        let body = json!({"secret": SECRET}).to_string();
        kit.call_as(&self.token, &line, body).await
    }
}

/// Returns the name of a run, as `held` and the items of a report have it.
pub(super) fn name_of(run: &Value) -> Value {
    json!({"id": run["id"], "fence": run["fence"], "run": run["run"]})
}

/// Returns the report that the handler of a run has returned a message.
pub(super) fn returned(run: &Value, message: &Value) -> Value {
    let mut item = name_of(run);
    item["n"] = run["n"].clone();
    item["return"] = message.clone();
    item
}

/// A server with a worker of the kind `k` that has registered.
pub(super) async fn registered() -> (Kit, Worker) {
    let kit = Kit::new().await;
    let token = kit.token("w", Role::Work, &["k"]).await;
    let worker = Worker::new(&token, "w1");
    let answer = worker.register(&kit, &["k"], json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    (kit, worker)
}

#[tokio::test]
async fn a_worker_runs_a_task_to_its_end_and_leaves() {
    let (kit, mut worker) = registered().await;
    let task = NewTask::new("k").id("a").props(&json!({"to": "ann"}));
    kit.client.submit(task).await.unwrap();
    let run = worker.claim(&kit).await;
    assert_eq!(
        (&run["id"], &run["props"]["to"]),
        (&json!("a"), &json!("ann"))
    );
    let message = json!({"message": "complete", "result": {"sent": 1}});
    let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
    let result = &answer.json()["results"][0];
    assert_eq!(
        (&result["result"], &result["state"]),
        (&json!("applied"), &json!("completed"))
    );
    worker.held.clear();
    let task = kit.get("/v1/tasks/a").await.json();
    assert_eq!(task["result"]["sent"], 1, "{task}");
    for _ in 0..2 {
        assert_eq!(worker.leave(&kit).await.status, 204);
    }
    let over = worker.exchange(&kit, 0).await;
    assert_eq!(over.problem(410), "over");
}

/// An answer to a worker does not pass the masks: it runs the task.
#[tokio::test]
async fn a_worker_gets_what_others_see_masked() {
    let (kit, mut worker) = registered().await;
    let mask = Mask::new("k", ["/props", "/data"]).unwrap();
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    // A change by a request waits until the server itself applies every mask.
    let body = r#"{"kind":"zzz","pointers":["/props"]}"#;
    assert_eq!(kit.call("POST /v1/masks", body).await.status, 204);
    let task = NewTask::new("k").id("a").props(&json!("S3CRET"));
    kit.client.submit(task).await.unwrap();
    let run = worker.claim(&kit).await;
    assert_eq!(run["props"], "S3CRET");
    let mut stored = name_of(&run);
    (stored["n"], stored["checkpoint"]) = (run["n"].clone(), json!("S3CRET"));
    let answer = worker.report(&kit, json!([stored])).await;
    assert_eq!(
        answer.json()["results"][0]["result"],
        "applied",
        "{}",
        answer.text
    );
    let shown = kit.get("/v1/tasks/a").await;
    assert!(!shown.text.contains("S3CRET"), "{}", shown.text);
}

#[tokio::test]
async fn fields_that_are_not_known_are_ignored_in_the_bodies_of_workers_only() {
    let kit = Kit::new().await;
    let body = json!({"name": "w1", "secret": SECRET, "kinds": {"k": {"slots": 1, "xyzzy": 1}}, "xyzzy": {"a": 1}});
    let answer = kit.call("POST /v1/workers", body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = json!({"secret": SECRET, "seq": 1, "xyzzy": 1, "held": []});
    let answer = kit
        .call("POST /v1/workers/w1/exchange", body.to_string())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let progress =
        json!({"id": "a", "fence": 1, "run": 1, "progress": {"fraction": 0.5}, "xyzzy": 1});
    let body = json!({"secret": SECRET, "seq": 2, "xyzzy": 1, "items": [progress]});
    let answer = kit
        .call("POST /v1/workers/w1/report", body.to_string())
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["results"][0]["result"], "lost");
    let body = json!({"secret": SECRET, "xyzzy": 1}).to_string();
    assert_eq!(
        kit.call("POST /v1/workers/w1/leave", body).await.status,
        204
    );
    let task = r#"{"kind":"k","xyzzy":1}"#;
    assert_eq!(kit.call("POST /v1/tasks", task).await.field(), "xyzzy");
}

#[tokio::test]
async fn a_wrong_registration_names_the_field_and_quotes_no_secret() {
    let kit = Kit::new().await;
    let good = json!({"name": "w1", "secret": SECRET, "kinds": {"k": {"slots": 1}}});
    for (field, value, named) in [
        ("name", json!("a/b"), "name"),
        ("secret", json!("short-5ECRET"), "secret"),
        ("secret", json!(5_314_159_265_358_979_u64), "secret"),
        ("secret", json!({"s": "5ECRET"}), "secret"),
        ("kinds", json!({}), "kinds"),
        ("kinds", json!({"k": {"slots": 1001}}), "kinds"),
        ("ttl_ms", json!(14_999), "ttl_ms"),
        ("ttl_ms", json!(300_001), "ttl_ms"),
        ("protocol", json!([2]), "protocol"),
    ] {
        let mut body = good.clone();
        body[field] = value.clone();
        let refused = kit.call("POST /v1/workers", body.to_string()).await;
        assert_eq!(refused.problem(400), "invalid", "{field}: {value}");
        let text = &refused.text;
        assert!(text.contains(named), "{field}: {value}: {text}");
        for secret in [SECRET, "5ECRET", "5314159265358979"] {
            assert!(!text.contains(secret), "{field}: {value}: {text}");
        }
    }
    let query = kit.call("POST /v1/workers?x=1", good.to_string()).await;
    assert_eq!(query.field(), "x");
}

#[tokio::test]
async fn each_refusal_of_a_worker_has_its_status_and_code() {
    let (kit, mut worker) = registered().await;
    // The same name and secret are the same worker; another secret is another one.
    let again = worker.register(&kit, &["k"], json!({})).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let other =
        json!({"name": "w1", "secret": "another secret of 28 bytes", "kinds": {"k": {"slots": 1}}});
    let taken = kit.call("POST /v1/workers", other.to_string()).await;
    assert_eq!(taken.problem(409), "exists");
    assert!(!taken.text.contains("if_exists"), "{}", taken.text);

    assert_eq!(worker.exchange(&kit, 0).await.status, 200);
    worker.seq -= 1;
    assert_eq!(worker.exchange(&kit, 0).await.problem(409), "stale");
    let stolen = json!({"secret": "another secret of 28 bytes", "seq": 9});
    for what in ["exchange", "leave"] {
        let line = format!("POST /v1/workers/w1/{what}");
        let refused = kit.call(&line, stolen.to_string()).await;
        assert_eq!(refused.problem(403), "secret", "{what}");
        assert!(!refused.text.contains("28 bytes"), "{}", refused.text);
    }
    let mut report = stolen.clone();
    report["items"] = json!([]);
    let refused = kit
        .call("POST /v1/workers/w1/report", report.to_string())
        .await;
    assert_eq!(refused.problem(403), "secret");

    let body = json!({"secret": SECRET, "seq": 9, "items": []}).to_string();
    for what in ["exchange", "report"] {
        let unknown = kit
            .call(&format!("POST /v1/workers/nobody/{what}"), body.clone())
            .await;
        assert_eq!(unknown.problem(410), "over", "{what}");
    }
    let item = json!({"id": "a", "fence": 1, "run": 1, "n": 1, "checkpoint": 1, "aborted": true});
    let both = worker.report(&kit, json!([item])).await;
    assert_eq!(both.field(), "items");
    let keyed = kit.send({
        let mut request = crate::kit::request(&kit.admin, "POST /v1/workers/w1/leave", body);
        let key = "k".parse().unwrap();
        request.headers_mut().insert("idempotency-key", key);
        request
    });
    assert_eq!(keyed.await.field(), "Idempotency-Key");
    let small = Server::builder(&kit.store).max_body(100).build();
    let small = Kit::of_server(&kit, small);
    let large = worker
        .report(&small, json!([{"id": "x".repeat(200)}]))
        .await;
    assert_eq!(large.problem(413), "body");
}

/// A command that an operator sends reaches the worker in its open exchange, and the outcome is what it reports.
#[tokio::test]
async fn a_command_stops_a_run_of_a_worker() {
    let (kit, mut worker) = registered().await;
    kit.submit("a", "k").await;
    let run = worker.claim(&kit).await;
    let sent = kit
        .call(
            "POST /v1/tasks/a/commands",
            r#"{"id":"c1","command":"pause"}"#,
        )
        .await;
    assert_eq!(sent.status, 202, "{}", sent.text);
    let answer = worker.exchange(&kit, 10_000).await.json();
    let stop = &answer["stop"][0];
    assert_eq!(
        (&stop["reason"], &stop["command"]["message"]),
        (&json!("command"), &json!("pause")),
        "{answer}"
    );
    let mut item = returned(&run, &json!({"message": "pause"}));
    item["took"] = stop["order"].clone();
    let answer = worker.report(&kit, json!([item])).await;
    assert_eq!(
        answer.json()["results"][0]["state"],
        "paused",
        "{}",
        answer.text
    );
    let record = kit.client.get("a").await.unwrap();
    assert_eq!(record.state.unwrap().code(), StateKind::Paused);
    let command = kit.get("/v1/commands/c1?wait=10s").await.json();
    assert_eq!(command["outcome"]["outcome"], "applied", "{command}");
}

/// The secret of a worker is stored as a hash, and no answer shows it.
#[tokio::test]
async fn no_answer_shows_the_secret_of_a_worker() {
    let (kit, mut worker) = registered().await;
    kit.submit("a", "k").await;
    worker.claim(&kit).await;
    for path in [
        "/v1/nodes",
        "/v1/audit",
        "/v1/tasks/a",
        "/v1/tasks/a/history",
    ] {
        let answer = kit.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text.contains(SECRET), "{path}: {}", answer.text);
    }
}

/// Returns a store in memory, for several servers.
pub(super) async fn store() -> Store {
    Store::open("memory:").await.unwrap()
}
