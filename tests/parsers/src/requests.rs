//! Requests of the HTTP API: the parameters of lists, JSON Patch, and the other bodies.

use std::{str, time::Duration};

use serde_json::Value;
use windlass::{Client, NewTask, store::Store};
use windlass_server::{
    NewToken, Role, Server, Tokens,
    axum::{
        Router,
        body::{Body, to_bytes},
        http::{Request, StatusCode, header},
    },
};

use crate::{in_virtual_time, within_bounds};

/// The methods of the requests.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The most bytes of an answer.
const MOST: usize = 16 << 20;

/// The documents of the task `a`.
const PROPS: &str = r#"{"to":["ann",{"n":1.50}],"n":12345678901234567890123,"a/b":{"m~n":null}}"#;

/// A server on a store of its own.
struct TestServer {
    router: Router,
    secret: String,
}

/// Sends a request to a server in memory that has the task `a`: the first line is the method and the path, such as
/// `GET /v1/tasks?state=paused`, the rest is the body. Returns whether the answer is not an error.
///
/// No answer is an error of the server. A refusal is a problem document that names its code, and for an invalid value the
/// field. A refused request does not change the task.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let (line, body) = text.split_once('\n').unwrap_or((text, ""));
    let Some((method, path)) = line.split_once(' ') else {
        return false;
    };
    if !METHODS.contains(&method) || !path.starts_with("/v1/") {
        return false;
    }
    let runtime = in_virtual_time();
    within_bounds(|| runtime.block_on(exchange(method, path, body)))
}

async fn exchange(method: &str, path: &str, body: &str) -> bool {
    let server = TestServer::new().await;
    let Some(request) = server.request(method, path, body.to_owned()) else {
        return false;
    };
    let before = server.task().await;
    let (status, kind, answer) = server.send(request).await;
    let shown = format!("{method} {path}: {status} {answer}");
    assert!(
        !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED,
        "{shown}"
    );
    if !status.is_client_error() {
        return true;
    }
    assert_eq!(kind, "application/problem+json", "{shown}");
    let problem: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(problem["status"], status.as_u16(), "{shown}");
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    assert!(
        !text("code").is_empty() && !text("detail").is_empty(),
        "{shown}"
    );
    assert!(
        text("code") != "invalid" || !text("field").is_empty(),
        "{shown}"
    );
    assert_eq!(server.task().await, before, "{shown}");
    false
}

impl TestServer {
    async fn new() -> Self {
        let store = Store::open("memory:").await.unwrap();
        let task = NewTask::new("k").id("a").props_json(PROPS);
        Client::new(&store).submit(task).await.unwrap();
        let router = Server::builder(&store).build().router();
        let made = Tokens::new(&store)
            .make(NewToken::new("admin", Role::Admin), None)
            .await;
        Self {
            router,
            secret: made.unwrap().1,
        }
    }

    /// Returns a request; `None` for a path that no client can send.
    fn request(&self, method: &str, path: &str, body: String) -> Option<Request<Body>> {
        let kind = match method {
            "PATCH" if path.starts_with("/v1/tasks/") => "application/json-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header(header::HOST, "localhost:7474")
            .header(header::CONTENT_TYPE, kind);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.secret));
        request.body(Body::from(body)).ok()
    }

    /// Sends a request. Returns the status, the type of the answer, and its text. A stream is not read.
    async fn send(&self, request: Request<Body>) -> (StatusCode, String, String) {
        let mut router = self.router.clone();
        let answer = tower_service::Service::call(&mut router, request);
        let answer = tokio::time::timeout(Duration::from_secs(3600), answer).await;
        let (head, body) = answer
            .expect("an answer within an hour")
            .unwrap()
            .into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE);
        let kind = kind
            .map(|kind| kind.to_str().unwrap().to_owned())
            .unwrap_or_default();
        let is_stream = head.status.is_success() && kind != "application/json";
        let text = match is_stream {
            true => String::new(),
            false => String::from_utf8(to_bytes(body, MOST).await.unwrap().to_vec()).unwrap(),
        };
        (head.status, kind, text)
    }

    /// Returns what a change of the task would change; `None` for a task that does not exist.
    async fn task(&self) -> Option<[Value; 4]> {
        let request = self.request("GET", "/v1/tasks/a", String::new())?;
        let (status, _, text) = self.send(request).await;
        let task: Value = serde_json::from_str(&text).unwrap();
        let parts = ["props", "data", "state", "version"].map(|name| task[name].clone());
        (status == StatusCode::OK).then_some(parts)
    }
}
