//! A namespace with some tasks, in which the examples are requests.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header, request::Builder as RequestBuilder},
};
use futures::StreamExt;
use serde_json::{Value, json};
use windlass::{
    Client, Command, Message, NewTask, Runner, TaskContext,
    schedule::Schedule,
    store::{NodeCommand, Store},
    testing::ManualClock,
};

use crate::{Builder, NewToken, Role, Server, Tokens};

/// The most that a step of an example waits.
const BOUND: Duration = Duration::from_secs(30);

/// The time of the examples.
const NOW: &str = "2030-01-01T12:00:00Z";

pub(super) struct Fixture {
    client: Client,
    pub(super) server: Server,
    pub(super) admin: String,
    pub(super) reader: String,
    /// The number of a command to the node.
    pub(super) order: u64,
    _node: Runner,
    _folder: tempfile::TempDir,
}

/// An answer, read to its end; of events the first one.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) media: String,
    pub(super) text: String,
}

/// Completes a report, or holds it until it is stopped.
async fn report(task: TaskContext) -> Message {
    task.log("7 rows");
    let props: Value = task.props().unwrap_or_default();
    match props["hold"].as_bool() {
        Some(true) => task.stop_requested().await.message(),
        _ => Message::complete_with(json!({"rows": 7})),
    }
}

impl Fixture {
    pub(super) async fn new(is_file: bool, build: fn(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = match is_file {
            true => format!("sqlite:{}", folder.path().join("w.db").display()),
            false => "memory:".to_owned(),
        };
        let clock = Arc::new(ManualClock::new(NOW.parse().unwrap()));
        let store = Store::open_with_clock(&url, clock).await.unwrap();
        let tokens = Tokens::new(&store);
        let made = async |name: &str, role| {
            let made = tokens.make(NewToken::new(name, role), None).await;
            made.unwrap().1
        };
        let admin = made("admin", Role::Admin).await;
        made("ci", Role::Operate).await;
        let reader = made("viewer", Role::Read).await;
        let node = Runner::builder(&store)
            .node("worker-1")
            .slots(4)
            .handler("report", report)
            .without_schedules()
            .start()
            .await
            .unwrap();
        let client = Client::new(&store).on_behalf_of("ann".parse().unwrap());
        let filled = tokio::time::timeout(BOUND, fill(&client)).await;
        Self {
            client,
            server: build(Server::builder(&store)).build(),
            admin,
            reader,
            order: filled.expect("a filled namespace in time"),
            _node: node,
            _folder: folder,
        }
    }

    pub(super) fn request(&self, line: &str) -> RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost:7474")
    }

    pub(super) fn by(&self, token: &str, line: &str) -> RequestBuilder {
        let bearer = format!("Bearer {token}");
        self.request(line).header(header::AUTHORIZATION, bearer)
    }

    /// Returns the key of the dry run of the bulk operation in the examples.
    pub(super) async fn bulk_key(&self) -> String {
        let request = self.by(&self.admin, "POST /v1/bulk");
        let body = r#"{"filter":{"kind":"mail","state":["failed"]},"action":"retry"}"#;
        let counted = self.send(request.body(Body::from(body)).unwrap()).await;
        let counted: Value = serde_json::from_str(&counted.text).unwrap();
        assert_eq!(counted["tasks"], 0, "{counted}");
        counted["key"].as_str().unwrap().to_owned()
    }

    /// Registers the worker of the examples, for which there is a task that waits for these; `has_claimed` after its first
    /// exchange. Returns its last answer.
    pub(super) async fn register(&self, has_claimed: bool, after: &[&str]) -> Value {
        let mut thumb = NewTask::new("thumbnail").id("thumb-1");
        if !after.is_empty() {
            thumb = thumb.after(after.iter().copied());
        }
        self.client
            .submit(thumb.props(&json!({"url": "a.png"})))
            .await
            .unwrap();
        let secret = "0f1e2d3c4b5a6978";
        let register =
            json!({"name": "py-1", "secret": secret, "kinds": {"thumbnail": {"slots": 4}}});
        let exchange = json!({"secret": secret, "seq": 1, "wait_ms": 10_000});
        let requests = [
            ("POST /v1/workers", register),
            ("POST /v1/workers/py-1/exchange", exchange),
        ];
        let mut last = Value::Null;
        for (line, body) in requests.into_iter().take(1 + usize::from(has_claimed)) {
            let request = self.by(&self.admin, line);
            let request = request.body(Body::from(body.to_string())).unwrap();
            let answered = self.send(request).await;
            assert_eq!(answered.status, 200, "{line}: {}", answered.text);
            last = serde_json::from_str(&answered.text).unwrap();
        }
        last
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Answered {
        let sent = tokio::time::timeout(BOUND, self.sent(request)).await;
        sent.expect("an answer in time")
    }

    async fn sent(&self, request: Request<Body>) -> Answered {
        let mut router = self.server.router();
        let answer = tower_service::Service::call(&mut router, request);
        let (head, body) = answer.await.unwrap().into_parts();
        let media = head.headers.get(header::CONTENT_TYPE);
        let media = media.map_or("", |media| media.to_str().unwrap());
        let bytes = match media == crate::routes::table::EVENTS {
            false => to_bytes(body, 64 << 20).await.unwrap().to_vec(),
            true => {
                let mut read = Vec::new();
                let mut parts = body.into_data_stream();
                while !read.windows(2).any(|two| two == b"\n\n") {
                    read.extend(parts.next().await.unwrap().unwrap());
                }
                read
            }
        };
        Answered {
            status: head.status,
            media: media.to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}

/// Fills the namespace, and returns the number of a command to the node.
async fn fill(client: &Client) -> u64 {
    let submit = async |task: NewTask| client.submit(task).await.unwrap();
    submit(
        NewTask::new("report")
            .id("report-1")
            .props(&json!({"month": 1})),
    )
    .await;
    client.wait("report-1").await.unwrap();
    submit(
        NewTask::new("report")
            .id("report-3")
            .props(&json!({"hold": true})),
    )
    .await;
    let is_claimed = async |id: &str| client.get(id).await.unwrap().node.is_some();
    while !is_claimed("report-3").await {
        tokio::task::yield_now().await;
    }
    let mail = NewTask::new("mail").id("mail-1").label("team", "a");
    submit(mail.props(&json!({"to": "ann"}))).await;
    submit(NewTask::new("mail").id("mail-2").after(["mail-1"])).await;
    let sent = client.command_with_id("mail-1", "c1", Command::Pause).await;
    sent.unwrap();
    let run = NewTask::new("mail").props(&json!({"to": "all"}));
    let nightly = Schedule::new(run).cron("30 2 * * *").zone("Europe/Berlin");
    client.schedules().create("nightly", nightly).await.unwrap();
    let hourly = Schedule::new(NewTask::new("mail")).cron("0 * * * *");
    let created = client.schedules().create_paused("hourly", hourly).await;
    created.unwrap();
    let order = client
        .command_node("worker-1", NodeCommand::Unfreeze)
        .await
        .unwrap();
    while client.node_outcome(order).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    order.0
}
