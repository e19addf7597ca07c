//! The masks of the namespace.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{json, tasks::whole};
use crate::{
    access::Admin,
    app::App,
    mask::{Mask, MaskForm, Masks},
    params::{Params, read_form},
    problem::Problem,
};

#[derive(Serialize)]
struct MasksForm<'a> {
    masks: Vec<MaskForm<'a>>,
}

/// Lists the masks.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    _by: Admin,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let masks = Masks::new(&app.store).list().await?;
    json(&MasksForm {
        masks: masks.iter().map(MaskForm::from).collect(),
    })
}

/// The body of a mask.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewForm {
    kind: String,
    #[serde(default)]
    pointers: Vec<String>,
    #[serde(default)]
    errors: bool,
    #[serde(default)]
    log: bool,
}

/// Sets the mask of a kind, in place of the one before.
pub(super) async fn set(
    State(app): State<Arc<App>>,
    by: Admin,
    params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    params.end()?;
    let body = whole(request, &app).await?;
    let form: NewForm = read_form(&body, r#"{"kind":"exec","pointers":["/props/env/*"]}"#)?;
    let mask = Mask::new(form.kind, form.pointers)?;
    let mask = mask.errors(form.errors).log(form.log);
    let masks = Masks::new(&app.store);
    masks.set(&mask, Some(by.author.clone())).await?;
    app.keyring.refresh().await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Removes the mask of a kind.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    by: Admin,
    Path(kind): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let masks = Masks::new(&app.store);
    let existed = masks.remove(&kind, Some(by.author.clone())).await?;
    app.keyring.refresh().await;
    match existed {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => {
            let detail =
                format!("kind '{kind}' has no mask; GET /v1/masks lists those that have one");
            Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail))
        }
    }
}
