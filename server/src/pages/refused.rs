//! What a browser sees instead of a problem document.

use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{assets, form::Sent, frame, path, text};

/// The most bytes of a problem document.
const MOST: usize = 1 << 20;

/// How many fields of a refused form are shown, and the most characters of each.
const FIELDS: usize = 20;
const TYPED: usize = 20_000;

/// What a page may load and do: nothing of other hosts, and nothing that stands in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The path below which the pages are.
#[derive(Clone)]
pub(super) struct Base(pub(super) String);

/// The parts of a problem document that a page shows.
#[derive(Deserialize, Default)]
struct Shown {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
}

/// Makes a page of a problem document, and adds what browsers may do with a page.
pub(super) async fn as_page(
    Extension(base): Extension<Base>,
    mut request: Request,
    next: Next,
) -> Response {
    let sent = Sent::default();
    request.extensions_mut().insert(sent.clone());
    let mut response = next.run(request).await;
    let of = |response: &Response| response.headers().get(header::CONTENT_TYPE).cloned();
    let is_problem =
        of(&response).is_some_and(|of| of.as_bytes().starts_with(b"application/problem"));
    if is_problem {
        response = page(&base.0, response, &sent).await;
    }
    protect(response.headers_mut());
    response
}

/// Adds the policy of a page, if the answer is one.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let kind = headers.get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        let policy = HeaderValue::from_static(POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}

async fn page(base: &str, response: Response, sent: &Sent) -> Response {
    let (mut head, body) = response.into_parts();
    let bytes = to_bytes(body, MOST).await.unwrap_or_default();
    let shown: Shown = serde_json::from_slice(&bytes).unwrap_or_default();
    let body = match head.status {
        StatusCode::UNAUTHORIZED => sign_in(base, &shown),
        _ => html! {
            h1 { (head.status.as_u16()) " " (shown.title) }
            p.problem role="alert" { bdi { (text::cut(&shown.detail, 2000)) } }
            @if head.status == StatusCode::SERVICE_UNAVAILABLE {
                p { "If this stays so, these say on the machine of the server whether the store is reached and takes writes, and which nodes live:" }
                pre.command { "windlass doctor; windlass nodes" }
            }
            @for (at, (name, value)) in sent.typed().take(FIELDS).enumerate() {
                @if at == 0 { h2 { "What you sent" } }
                h3 { bdi { (text::cut(name, 80)) } }
                // Browsers send a line break as two characters.
                pre.sent { bdi { (text::cut(&value.replace("\r\n", "\n"), TYPED)) } }
            }
            p { a href={ (base) "/tasks" } { "All tasks" } " · " a href=(path::at(base, "/")) { "Overview" } }
        },
    };
    let text = frameless(base, &shown.title, &body).into_string();
    head.headers.remove(header::CONTENT_LENGTH);
    let html = HeaderValue::from_static(frame::HTML);
    head.headers.insert(header::CONTENT_TYPE, html);
    Response::from_parts(head, Body::from(text))
}

/// Says how a browser becomes known.
fn sign_in(base: &str, shown: &Shown) -> Markup {
    html! {
        h1 { "Open a session" }
        p { "This page needs a session. A link opens one, once, within five minutes. On the machine of the server, run:" }
        pre.command { "windlass token link" }
        p { "If the server listens on another port than 7474, add " code { "--url" } " with the address of this page." }
        p { "With TLS or behind a proxy, " a href={ (base) "/session" } { "a token" } " opens one, too." }
        p.dim { bdi { (text::cut(&shown.detail, 2000)) } }
    }
}

/// Returns a page without navigation.
pub(crate) fn bare(base: &str, title: &str, body: &Markup) -> Response {
    let text = frameless(base, title, body).into_string();
    ([(header::CONTENT_TYPE, frame::HTML)], text).into_response()
}

/// Returns the text of a page without navigation, for a caller who may not be known.
fn frameless(base: &str, title: &str, body: &Markup) -> Markup {
    html! {
        (maud::DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · windlass" }
                link rel="stylesheet" href={ (base) "/assets/" (assets::style().name) };
                link rel="icon" href={ (base) "/assets/" (assets::icon().name) };
            }
            body { main.bare { (body) } }
        }
    }
}
