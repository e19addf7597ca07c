//! [`guard`]: what every request has to pass before a route has it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::{
    app::{App, Share},
    auth::{Caller, Refused},
    problem::Problem,
};

/// The header with the id of a request.
const REQUEST_ID: &str = "x-request-id";

/// The user at the other end of a connection to the server's socket, which the listener adds to each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) u32);

/// The body of an answer, which counts as a request in work until its last byte: a stream as long as it lasts.
struct InWork {
    body: Body,
    _permits: Permits,
}

/// What a request in work holds.
type Permits = (Share, OwnedSemaphorePermit);

impl HttpBody for InWork {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Lets a request pass that names one of our hosts, is not made by a page of a browser, and whose caller is known.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let (mut head, body) = request.into_parts();
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let begun = tokio::time::Instant::now();
    let (mut response, by) = match admit(&app, &head).await {
        Ok((caller, permit)) => {
            let by = caller.key();
            head.extensions.insert(caller);
            let response = next.run(Request::from_parts(head, body)).await;
            let in_work = |body| {
                Body::new(InWork {
                    body,
                    _permits: permit,
                })
            };
            (as_problem(response).map(in_work), by)
        }
        Err(problem) => (problem.into_response(), "nobody".to_owned()),
    };
    // Debug forms, so that a path cannot forge a line.
    tracing::debug!(
        request = %id, %by, %method, ?path, status = response.status().as_u16(),
        took = ?begun.elapsed(), "request"
    );
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let no_referrer = HeaderValue::from_static("no-referrer");
    headers.insert(header::REFERRER_POLICY, no_referrer);
    let nowhere = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, nowhere);
    response
}

async fn admit(app: &App, head: &Parts) -> Result<(Arc<Caller>, Permits), Problem> {
    let headers = &head.headers;
    let peer = head.extensions.get::<Peer>().copied();
    if peer.is_none() {
        check_host(app, head)?;
    }
    check_encoding(headers)?;
    let caller = match (peer, bearer(headers)?) {
        // A token is an intent, also at the socket: it may do less.
        (_, Some(secret)) => match app.keyring.caller(secret).await {
            Ok(caller) => caller,
            Err(refused) => return Err(refusal(refused)),
        },
        (Some(Peer(uid)), None) => {
            check_no_browser(headers)?;
            Arc::new(Caller::peer(uid))
        }
        (None, None) => {
            let detail = "this request has no token; send the header 'Authorization: Bearer TOKEN' (`windlass token new` \
                          makes one)";
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                detail,
            ));
        }
    };
    app.count(&caller.key())?;
    let share = app.share(&caller.key())?;
    let permit = app.in_flight.clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        let detail = "the server has too many requests in work; try again";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(1)
    })?;
    Ok((caller, (share, permit)))
}

/// Returns an answer as a problem document, if it is an error of the router as text.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    match is_text && status.is_client_error() {
        true => Problem::new(
            status,
            "invalid",
            "the path or the query of the request is not valid",
        )
        .into_response(),
        false => response,
    }
}

pub(crate) fn refusal(refused: Refused) -> Problem {
    match refused {
        Refused::Unknown => Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "the token is not valid: it was revoked, has expired, or never was one",
        ),
        Refused::Unconfirmed => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unconfirmed",
            "the server cannot reach its store, and so cannot check the token; try again",
        )
        .retry_after(1),
    }
}

/// Refuses a request for another name than ours: a page of a browser whose name was made to point here.
fn check_host(app: &App, head: &Parts) -> Result<(), Problem> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    // A request line with a whole URL names the host there.
    let in_line = head.uri.host();
    let name = host.map(without_port);
    let is_ours = |name: &str| {
        let ours = &app.settings.hosts;
        ours.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    if name.is_some_and(is_ours) && in_line.is_none_or(is_ours) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "wrong_host",
        "the header 'Host' does not name this server; `windlass serve --host NAME` adds a name",
    ))
}

/// Returns a host without its port: `[::1]:80` is `[::1]`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => {
            let is_bare_v6 = name.contains(':') && !name.ends_with(']');
            if is_bare_v6 { host } else { name }
        }
        _ => host,
    }
}

/// Refuses a body that would have to be decompressed: a small one may become a large one.
fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    if encodings.all(plain) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "encoded",
        "compressed bodies are not read; send the body without Content-Encoding",
    ))
}

/// Refuses a page of a browser that reaches the socket through something that forwards to it.
fn check_no_browser(headers: &HeaderMap) -> Result<(), Problem> {
    let of_browser = ["origin", "sec-fetch-site", "sec-fetch-mode", "cookie"];
    if of_browser.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::forbidden(
            "a browser cannot use the server's socket without a token",
        ));
    }
    Ok(())
}

/// Returns the secret that a request shows.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = all.next() else {
        return Ok(None);
    };
    let text = first.to_str().unwrap_or_default();
    let shown = text
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match (shown, all.next()) {
        (Some((_, secret)), None) => Ok(Some(secret.trim())),
        _ => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "the header 'Authorization' is not one 'Bearer TOKEN'",
        )),
    }
}

/// Answers a path that no route has.
pub(crate) async fn no_route(method: Method) -> Problem {
    let detail = format!("no {method} request has this path; GET /v1 lists the requests");
    Problem::new(StatusCode::NOT_FOUND, "no_route", detail)
}

/// Answers a method that a path does not have.
pub(crate) async fn no_method(method: Method) -> Problem {
    let detail = format!("this path has no {method} request; GET /v1 lists the requests");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_host_is_left_out() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:8080", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("a:b", "a:b"),
            (":80", ":80"),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }

    #[test]
    fn one_bearer_is_read_and_nothing_else() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            headers
        };
        assert_eq!(bearer(&headers(&[])).ok(), Some(None));
        assert_eq!(bearer(&headers(&["bearer  a "])).ok(), Some(Some("a")));
        for wrong in [&["Basic a"][..], &["Bearer"], &["Bearer a", "Bearer b"]] {
            assert!(bearer(&headers(wrong)).is_err(), "{wrong:?}");
        }
    }
}
