//! The requests, and what answers them.

mod backup;
mod bulk;
mod changes;
mod commands;
mod export;
mod failures;
#[cfg(all(test, feature = "schema"))]
pub(crate) mod forms;
mod graph;
mod lines;
mod masks;
mod namespace;
mod nodes;
mod schedules;
mod session;
mod submits;
pub(crate) mod table;
mod task;
mod tasks;
mod tokens;
mod transactions;
mod why;
mod workers;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;

use crate::{app::App, guard, pages, problem::Problem};

pub(crate) use table::requests;

/// Returns the routes of the API, without the guard in front of them.
fn api() -> Router<Arc<App>> {
    let requests = table::requests();
    requests.fold(Router::new(), |api, request| {
        api.route(request.path, (request.route)())
    })
}

/// Returns the routes of the API and of the pages.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let guarded = api()
        .route("/metrics", get(namespace::metrics))
        .fallback(guard::no_route)
        .method_not_allowed_fallback(guard::no_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(DefaultBodyLimit::max(app.settings.body_bytes));
    let open = Router::new()
        .route("/healthz", get(namespace::healthz))
        .route("/readyz", get(namespace::readyz));
    let all = open
        .merge(session::router(app))
        .merge(pages::assets())
        .merge(pages::router(app, api().with_state(app.clone())))
        .merge(guarded)
        .with_state(app.clone());
    match app.settings.base_path.as_str() {
        "" => all,
        base => Router::new()
            .nest(base, all)
            .route(&format!("{base}/"), pages::to_first(base)),
    }
}

/// Answers with JSON.
fn json(value: &impl Serialize) -> Result<Response, Problem> {
    let unwritable = |error: serde_json::Error| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "unwritable",
            error.to_string(),
        )
    };
    let bytes = serde_json::to_vec(value).map_err(unwritable)?;
    Ok((
        [(header::CONTENT_TYPE, "application/json")],
        Bytes::from(bytes),
    )
        .into_response())
}

/// Answers with JSON and another status than 200.
fn json_with(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let mut response = json(value)?;
    *response.status_mut() = status;
    Ok(response)
}

/// Writes a task of a list.
fn write_record(bytes: &mut Vec<u8>, record: &impl Serialize) -> Result<(), Problem> {
    let written = serde_json::to_writer(bytes, record);
    written.map_err(|error| Problem::invalid("tasks", error))
}
