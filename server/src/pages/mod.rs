//! The dashboard: pages of the namespace for browsers, made of the answers of the API.
//!
//! A page reads and changes nothing by itself: it sends the requests of the API to their routes with the caller of the page
//! ([`Api`](api::Api)), so that roles, scopes and masks hold on a page as they hold there.

mod actions;
mod api;
mod assets;
mod back;
mod bulk;
mod cli;
mod difference;
mod doctor;
mod failures;
mod form;
mod frame;
mod limits;
mod longest;
mod nodes;
mod overview;
mod path;
mod people;
mod rates;
mod record;
mod refused;
mod rows;
mod schedule;
mod schedule_actions;
mod schedules;
mod schema_form;
mod search;
mod seen;
mod shown;
mod task;
mod tasks;
mod text;
mod timeline;
mod tokens;
mod tree;
mod value;
mod zone;

use std::sync::Arc;

use axum::{
    Extension, Router,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{MethodRouter, get, post},
};

use crate::{app::App, guard};

use api::{Failure, Routes};

pub(crate) use assets::router as assets;
pub(crate) use path::ours;
pub(crate) use refused::{bare, protect};

/// The answer of a page.
type Answer = Result<Response, Failure>;

/// Returns the route that sends a browser to the first page of a base path.
pub(crate) fn to_first(base: &str) -> MethodRouter {
    let base = base.to_owned();
    get(async move || path::to(&base, "/"))
}

/// Returns the pages. `api` has the routes of the API, without the guard in front of them.
pub(crate) fn router(app: &Arc<App>, api: Router) -> Router<Arc<App>> {
    Router::new()
        .route("/", get(overview::show))
        .route("/tasks", get(tasks::show))
        .route("/tasks/{id}", get(task::show))
        .route(
            "/tasks/{id}/commands/{command}",
            post(actions::command).get(back::to_task),
        )
        .route("/tasks/{id}/retry", post(actions::retry).get(back::to_task))
        .route(
            "/tasks/{id}/signal",
            post(actions::signal).get(back::to_task),
        )
        .route(
            "/tasks/{id}/answer",
            post(people::answer).get(back::to_task),
        )
        .route("/people", get(people::show))
        .route("/bulk", get(bulk::show).post(bulk::start))
        .route("/search", get(search::show))
        .route("/failures", get(failures::show))
        .route("/nodes", get(nodes::show))
        .route(
            "/nodes/{node}/{command}",
            post(nodes::send).get(back::to_nodes),
        )
        .route("/schedules", get(schedules::show))
        .route("/schedules/{id}", get(schedule::show))
        .route(
            "/schedules/{id}/{action}",
            post(schedule_actions::send).get(back::to_schedule),
        )
        .route("/limits", get(limits::show))
        .route("/doctor", get(doctor::show))
        .route("/tokens", get(tokens::show))
        .route("/zone", post(zone::choose).get(back::to_start))
        .layer(Extension(Routes::new(api)))
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn(refused::as_page))
        .layer(Extension(refused::Base(app.settings.base_path.clone())))
}
