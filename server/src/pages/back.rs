//! The addresses of forms, when a browser asks for them: the page of a refused form has one, and a reload asks for it.

use axum::{Extension, extract::Path, response::Response};

use super::{form::encoded, path, refused::Base};

/// The part of a path that names a task or a schedule.
#[derive(serde::Deserialize)]
pub(super) struct PathId {
    id: String,
}

/// Sends a browser that asks for the address of a form of a task to the page of the task: the page of a refused form has that
/// address.
pub(super) async fn to_task(
    Extension(Base(base)): Extension<Base>,
    Path(PathId { id }): Path<PathId>,
) -> Response {
    path::to(&base, &format!("/tasks/{}", encoded(&id)))
}

/// Sends a browser to the page of a schedule, like [`to_task`].
pub(super) async fn to_schedule(
    Extension(Base(base)): Extension<Base>,
    Path(PathId { id }): Path<PathId>,
) -> Response {
    path::to(&base, &format!("/schedules/{}", encoded(&id)))
}

/// Sends a browser to the page of the nodes, like [`to_task`].
pub(super) async fn to_nodes(Extension(Base(base)): Extension<Base>) -> Response {
    path::to(&base, "/nodes")
}

/// Sends a browser to the first page, like [`to_task`].
pub(super) async fn to_start(Extension(Base(base)): Extension<Base>) -> Response {
    path::to(&base, "/")
}
