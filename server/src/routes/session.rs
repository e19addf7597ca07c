//! The pages that open and end the session of a browser. Nobody is known there, so every answer says as little as it can.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};

use maud::{Markup, html};

use crate::{
    app::App,
    auth::Refused,
    connection::Connection,
    guard::{self, COOKIE, is_encrypted},
    origin::{check_host, check_same_origin, without_port},
    paced::Pace,
    pages,
    problem::Problem,
};

/// The most bytes of the form with a token.
const FORM: usize = 4096;

pub(super) fn router(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/session", get(ask).post(open_for_token))
        .route("/session/end", post(end))
        .route("/session/{link}", get(show).post(open))
        .layer(from_fn_with_state(app.clone(), check))
}

/// Lets a request pass that a page of ours may have made, by a name that no server of another user has.
async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let checked = checked(&app, &head).await;
    let (pace, body) = Pace::of(body);
    let mut response = match checked {
        Ok(()) => pace.answer(next.run(Request::from_parts(head, body)).await),
        Err(problem) => problem.into_response(),
    };
    guard::protect(response.headers_mut());
    pages::protect(response.headers_mut());
    response
}

async fn checked(app: &App, head: &Parts) -> Result<(), Problem> {
    app.count("nobody")?;
    check_host(app, head).await?;
    check_name(app, head).await?;
    match head.method.is_safe() {
        true => Ok(()),
        false => check_same_origin(head),
    }
}

/// Refuses a name whose cookies reach every port of the machine, and so the servers of other users.
async fn check_name(app: &App, head: &Parts) -> Result<(), Problem> {
    let host = head.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    if is_encrypted(head) || app.keyring.is_host(without_port(host)).await {
        return Ok(());
    }
    let detail = "browsers send the cookies of this name to every port of the machine; open a session by the link that `windlass \
                  token link` prints, or by TLS";
    Err(Problem::forbidden(detail))
}

/// A page with a form. Its texts are ours, and no part of the request stands in them.
fn page(app: &App, form: &Markup) -> Response {
    let body = html! { h1 { "windlass" } (form) };
    pages::bare(&app.settings.base_path, "Session", &body)
}

/// Shows a button. A preview of the link opens nothing.
async fn show(State(app): State<Arc<App>>) -> Response {
    page(
        &app,
        &html! { form method="post" { button { "Open windlass" } } },
    )
}

/// Shows a field for a token.
async fn ask(State(app): State<Arc<App>>) -> Response {
    let form = html! {
        form.box method="post" {
            label { "Token " input name="token" type="password" autocomplete="off" required; }
            button { "Open windlass" }
        }
    };
    page(&app, &form)
}

/// Whether the cookie may be sent encrypted only: the client has come so.
type OptionalConnection = Option<Extension<Arc<Connection>>>;

async fn open(
    State(app): State<Arc<App>>,
    Path(link): Path<String>,
    on: OptionalConnection,
    uri: Uri,
) -> Result<Response, Problem> {
    let opened = app.sessions.open(&link).await?;
    let secret = opened.ok_or_else(|| {
        let detail = "the link was opened before, or is older than five minutes; `windlass token link` prints another one";
        Problem::new(StatusCode::GONE, "gone", detail)
    })?;
    let mut response = begun(&app, &on, secret.text()).await?;
    // The page of which the link is. It is named beside the secret, in the query, so that it may be any page of ours.
    let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap_or_default();
    if let Some((_, page)) = query.iter().find(|(name, _)| name == "to")
        && let Ok(page) = HeaderValue::from_str(&pages::ours(&app.settings.base_path, page))
    {
        response.headers_mut().insert(header::LOCATION, page);
    }
    Ok(response)
}

async fn open_for_token(
    State(app): State<Arc<App>>,
    on: OptionalConnection,
    request: Request,
) -> Result<Response, Problem> {
    let body = axum::body::to_bytes(request.into_body(), FORM).await;
    let body = body.map_err(|_| Problem::invalid("body", "is not a form with a token"))?;
    let token = body.strip_prefix(b"token=").unwrap_or_default();
    let token = std::str::from_utf8(token).unwrap_or_default();
    let caller = app.keyring.caller(token).await.map_err(guard::refusal)?;
    let opened = app.sessions.open_for(&caller).await?;
    let secret = opened.ok_or_else(|| guard::refusal(Refused::Unknown))?;
    begun(&app, &on, secret.text()).await
}

/// Gives the browser its cookie, and sends it to the first page.
async fn begun(app: &App, on: &OptionalConnection, secret: &str) -> Result<Response, Problem> {
    app.keyring.refresh().await;
    let is_secure = on.as_ref().is_some_and(|on| on.is_encrypted());
    Ok(to_first_page(app, secret, is_secure))
}

async fn end(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(secret) = guard::cookie(&headers) {
        app.sessions.end(secret).await?;
        app.keyring.refresh().await;
    }
    let mut response = to_first_page(&app, "", false);
    let path = cookie_path(&app);
    let gone = format!("{COOKIE}=; Path={path}; Max-Age=0; HttpOnly; SameSite=Lax");
    set_cookie(&mut response, &gone);
    Ok(response)
}

fn to_first_page(app: &App, secret: &str, is_secure: bool) -> Response {
    let path = cookie_path(app);
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(first) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, first);
    }
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={secret}; Path={path}; HttpOnly; SameSite=Lax{secure}");
    set_cookie(&mut response, &cookie);
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

fn cookie_path(app: &App) -> &str {
    match app.settings.base_path.as_str() {
        "" => "/",
        base => base,
    }
}
