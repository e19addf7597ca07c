//! The masks of the namespace.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::json;
use crate::{
    access::Admin,
    app::App,
    mask::{Mask, MaskForm, Masks},
    params::{Form, Formed, Params},
    problem::Problem,
};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct MasksForm<'a> {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NewMask"))]
#[serde(deny_unknown_fields)]
pub(super) struct NewForm {
    /// The kind; `inbox/*` for every kind that begins with `inbox/`, `*` for every kind.
    kind: String,
    /// The places that are hidden, as JSON pointers that begin with the name of a document.
    #[serde(default)]
    pointers: Vec<String>,
    /// Whether the texts of errors are hidden.
    #[serde(default)]
    errors: bool,
    /// Whether the lines that handlers log are hidden.
    #[serde(default)]
    log: bool,
}

impl Formed for NewForm {
    const LIKE: &str = r#"{"kind":"exec","pointers":["/props/env/*"]}"#;
}

/// Sets the mask of a kind, in place of the one before.
pub(super) async fn set(
    State(app): State<Arc<App>>,
    by: Admin,
    Form(form): Form<NewForm>,
) -> Result<Response, Problem> {
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
