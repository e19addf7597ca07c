//! [`Api`]: the requests that a page sends to the routes of the API, as its caller.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::de::DeserializeOwned;
use tower_service::Service;

use crate::{auth::Caller, in_work::Held, local::Local, problem::Problem};

/// The most bytes of an answer that a page reads: more than the largest page of a list has.
const MOST: usize = 32 << 20;

/// The routes of the API, without the guard in front of them.
#[derive(Clone)]
pub(super) struct Routes(Arc<Router>);

impl Routes {
    pub(super) fn new(routes: Router) -> Self {
        Self(Arc::new(routes))
    }
}

/// The API, as the caller of a page may use it.
pub(super) struct Api {
    pub(super) routes: Routes,
    pub(super) caller: Arc<Caller>,
    /// What the request of the page holds: what it asks for waits in its place.
    pub(super) held: Option<Arc<Held>>,
    /// The zone in which the page shows times, and reads those that are typed into it.
    pub(super) local: Local,
}

/// Why a page cannot be shown: the answer of the API, which [`as_page`](super::refused::as_page) makes a page of.
pub(super) struct Failure(Box<Response>);

impl Failure {
    pub(super) fn status(&self) -> StatusCode {
        self.0.status()
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem.into_response()))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// Returns the problem that an answer of the API cannot be read.
fn unreadable(error: impl std::fmt::Display) -> Failure {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Problem::new(status, "unreadable", error.to_string()).into()
}

impl Api {
    /// Sends a request without a body, and reads its answer.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let bytes = self.send(Method::GET, path, Body::empty()).await?;
        serde_json::from_slice(&bytes).map_err(unreadable)
    }

    /// Sends a request with a body, and reads its answer.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: impl Into<Body>,
    ) -> Result<T, Failure> {
        let bytes = self.send(Method::POST, path, body.into()).await?;
        serde_json::from_slice(&bytes).map_err(unreadable)
    }

    async fn send(&self, method: Method, path: &str, body: Body) -> Result<Bytes, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(unreadable)?;
        request.extensions_mut().insert(self.caller.clone());
        request.extensions_mut().insert(self.local.clone());
        if let Some(held) = &self.held {
            request.extensions_mut().insert(held.clone());
        }
        let mut routes = Router::clone(&self.routes.0);
        let Ok(response) = routes.call(request).await;
        if !response.status().is_success() {
            return Err(Failure(Box::new(response)));
        }
        to_bytes(response.into_body(), MOST)
            .await
            .map_err(unreadable)
    }
}
