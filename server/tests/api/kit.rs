//! A server on a store in memory, and a client of it.

use std::time::Duration;

use serde_json::Value;
use windlass::{Client, store::Store};
use windlass_server::{
    NewToken, Role, Scope, Server, Tokens,
    axum::{
        body::{Body, to_bytes},
        http::{Request, Response, StatusCode, header},
    },
};

/// The most that a test waits for anything.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

pub(crate) struct Kit {
    pub(crate) store: Store,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) tokens: Tokens,
    /// The secret of an admin token.
    pub(crate) admin: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: windlass_server::axum::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// Returns the code of a problem document, after a look at its form.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let kind = self.headers[header::CONTENT_TYPE].to_str().unwrap();
        assert_eq!(kind, "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        problem["code"].as_str().unwrap().to_owned()
    }

    /// Returns the field that a problem document names.
    pub(crate) fn field(&self) -> String {
        assert_eq!(self.problem(400), "invalid");
        self.json()["field"].as_str().unwrap_or_default().to_owned()
    }
}

impl Kit {
    pub(crate) async fn new() -> Self {
        Self::with(Store::open("memory:").await.unwrap()).await
    }

    pub(crate) async fn with(store: Store) -> Self {
        let server = Server::builder(&store).build();
        Self::of(store, server).await
    }

    pub(crate) async fn of(store: Store, server: Server) -> Self {
        let tokens = Tokens::new(&store);
        let made = tokens.make(NewToken::new("admin", Role::Admin), None).await;
        Self {
            client: Client::new(&store),
            server,
            tokens,
            admin: made.unwrap().1,
            store,
        }
    }

    /// Returns another server of the same store.
    pub(crate) fn of_server(kit: &Self, server: Server) -> Self {
        Self {
            store: kit.store.clone(),
            client: kit.client.clone(),
            server,
            tokens: kit.tokens.clone(),
            admin: kit.admin.clone(),
        }
    }

    /// Makes a token, and returns its secret.
    pub(crate) async fn token(&self, name: &str, role: Role, kinds: &[&str]) -> String {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned());
        let scope = Scope::new(kinds, []).unwrap();
        let made = self
            .tokens
            .make(NewToken::new(name, role).scope(scope), None);
        made.await.unwrap().1
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.open(request).await;
        let (head, body) = response.into_parts();
        let read = tokio::time::timeout(BOUND, to_bytes(body, 64 << 20));
        let bytes = read.await.expect("a whole answer in time").unwrap();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Sends a request, and returns its answer unread.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        let mut router = self.server.router();
        let answer = tower_service::Service::call(&mut router, request);
        let answer = tokio::time::timeout(BOUND, answer).await;
        answer.expect("an answer in time").unwrap()
    }

    /// Sends a request with the admin token.
    pub(crate) async fn call(&self, line: &str, body: impl Into<Body>) -> Answer {
        self.call_as(&self.admin, line, body).await
    }

    /// Sends a request with a token: `POST /v1/tasks`.
    pub(crate) async fn call_as(&self, token: &str, line: &str, body: impl Into<Body>) -> Answer {
        self.send(request(token, line, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), "").await
    }

    /// Submits a task, and returns nothing but that it worked.
    pub(crate) async fn submit(&self, id: &str, kind: &str) {
        let task = windlass::NewTask::new(kind).id(id);
        self.client.submit(task).await.unwrap();
    }
}

/// Makes a request with a token.
pub(crate) fn request(token: &str, line: &str, body: impl Into<Body>) -> Request<Body> {
    let (method, path) = line.split_once(' ').unwrap();
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost:7474")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(body.into())
        .unwrap()
}
