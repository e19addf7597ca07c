//! The tokens of the namespace.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{json, json_with};
use crate::{
    access::Admin,
    app::App,
    auth::{NewToken, Role, Scope, TokenForm, Tokens},
    params::{Form, Formed, Params, read_time},
    problem::Problem,
};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct TokensForm<'a> {
    tokens: Vec<TokenForm<'a>>,
}

/// Lists the tokens.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    _by: Admin,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let tokens = Tokens::new(&app.store).list().await?;
    let now = app.client.now();
    let tokens = tokens.iter().map(|token| TokenForm::new(token, now));
    json(&TokensForm {
        tokens: tokens.collect(),
    })
}

/// The body of a new token.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NewForm {
    name: String,
    role: Role,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// The most live tasks that these kinds may have; any number by default.
    #[serde(default)]
    max_tasks: Option<u64>,
    /// How long it is valid; for ever by default.
    #[serde(default)]
    expires_in: Option<String>,
}

impl Formed for NewForm {
    const LIKE: &str = r#"{"name":"ci","role":"operate","kinds":["mail"]}"#;
}

/// Makes a token.
pub(super) async fn make(
    State(app): State<Arc<App>>,
    by: Admin,
    Form(form): Form<NewForm>,
) -> Result<Response, Problem> {
    let scope = Scope::new(form.kinds, form.labels)?;
    let mut new = NewToken::new(form.name, form.role).scope(scope);
    if let Some(most) = form.max_tasks {
        new = new.max_tasks(most);
    }
    if let Some(time) = form.expires_in {
        new = new.valid_for(read_time("expires_in", &time)?);
    }
    let tokens = Tokens::new(&app.store);
    let made = tokens.make(new, Some(by.author.clone()));
    let (token, secret) = made.await?;
    app.keyring.refresh().await;
    let mut form = TokenForm::new(&token, app.client.now());
    form.secret = Some(&secret);
    json_with(StatusCode::CREATED, &form)
}

/// Gives a token another secret. The one before stays valid for `overlap`.
pub(super) async fn rotate(
    State(app): State<Arc<App>>,
    by: Admin,
    Path(name): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let overlap = params.time("overlap")?.unwrap_or(Duration::ZERO);
    params.end()?;
    let tokens = Tokens::new(&app.store);
    let rotated = tokens.rotate(&name, overlap, Some(by.author.clone()));
    let (token, secret) = rotated.await?;
    app.keyring.refresh().await;
    let mut form = TokenForm::new(&token, app.client.now());
    form.secret = Some(&secret);
    json(&form)
}

/// Revokes a token.
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    by: Admin,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let tokens = Tokens::new(&app.store);
    let revoked = tokens.revoke(&name, Some(by.author.clone()));
    let existed = revoked.await?;
    app.keyring.refresh().await;
    match existed {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => {
            let detail = format!("token '{name}' does not exist");
            Err(Problem::new(StatusCode::NOT_FOUND, "not_found", detail))
        }
    }
}
