//! The list of the requests, and the OpenAPI document.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{JSON, Method, requests};
use crate::{
    access::Reader, app::App, document::openapi, params::Params, problem::Problem, routes::json,
};

/// A request, as the index lists it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(in crate::routes) struct Line {
    path: &'static str,
    #[serde(flatten)]
    method: &'static Method,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(in crate::routes) struct IndexForm {
    requests: Vec<Line>,
}

/// Lists the requests.
pub(super) async fn index(_by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    let requests = requests().flat_map(|request| {
        let methods = request.methods.iter();
        methods.map(|method| Line {
            path: request.path,
            method,
        })
    });
    json(&IndexForm {
        requests: requests.collect(),
    })
}

/// Returns the OpenAPI document, whose paths are below the base path of this server.
pub(super) async fn document(
    State(app): State<Arc<App>>,
    _by: Reader,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let kind = [(header::CONTENT_TYPE, JSON)];
    Ok(match app.settings.base_path.as_str() {
        "" => (kind, openapi()).into_response(),
        base => {
            let own = format!("\"url\": \"{base}\"");
            let text = openapi().replacen("\"url\": \"/\"", &own, 1);
            (kind, text).into_response()
        }
    })
}
