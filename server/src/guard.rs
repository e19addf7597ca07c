//! [`guard`]: what every request has to pass before a route has it.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use uuid::Uuid;
use windlass::telemetry;

use crate::{
    app::App,
    auth::{Caller, Refused, User},
    connection::Connection,
    connections::Crowd,
    in_work::Held,
    keeping::Keeping,
    origin::{check_host, check_no_browser, check_page},
    paced::Pace,
    problem::{OfStore, Problem},
    room::Room,
    sent::{Sent, check_encoding},
    way::Way,
};

/// The header with the id of a request.
const REQUEST_ID: &str = "x-request-id";
/// The header with the URLs of other servers, in an answer of one that stops.
const SERVERS: HeaderName = HeaderName::from_static("windlass-servers");
/// The cookie of a session.
pub(crate) const COOKIE: &str = "windlass";

/// Lets a request pass that names one of our hosts, is not made by a page of a browser, and whose caller is known.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let (mut head, body) = request.into_parts();
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let begun = tokio::time::Instant::now();
    let label = label(&app, &head);
    let (body, rest) = Sent::of(&head.headers, body);
    let (mut response, by) = match admit(&app, &head).await {
        Ok((caller, held)) => {
            let by = caller.key();
            let sees_everything = caller.scope.is_everything();
            let is_safe = method.is_safe();
            let (pace, body) = Pace::of(body);
            let encoded = check_encoding(&head.headers);
            head.extensions.insert(caller.clone());
            head.extensions.insert(held.clone());
            let request = Request::from_parts(head, body);
            let opened = match encoded {
                Ok(()) => held.open((&app, &caller), request).await,
                Err(problem) => {
                    drop(request);
                    Err(problem)
                }
            };
            let response = match opened {
                Ok(request) => as_problem(next.run(request).await),
                Err(problem) => problem.into_response(),
            };
            rest.forget(response.status(), app.settings.body_bytes);
            let mut response = pace.answer(response);
            if is_safe {
                response = Room::for_answer(&app.answers, &by, response);
            }
            held.mark(response.headers_mut());
            let response = match response.extensions().get::<OfStore>() {
                Some(of) if !sees_everything => of.without_place().into_response(),
                _ => response,
            };
            (response.map(|body| Keeping::body(body, held)), by)
        }
        Err(problem) => {
            drop(body);
            let response = problem.into_response();
            rest.forget_of_stranger(response.status());
            (response, "nobody".to_owned())
        }
    };
    telemetry::answered(&label, response.status().as_u16(), begun.elapsed());
    // Debug forms, so that a path cannot forge a line.
    tracing::debug!(
        request = %id, %by, %method, ?path, status = response.status().as_u16(),
        took = ?begun.elapsed(), "request"
    );
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    protect(headers);
    if app.stop.is_cancelled() {
        // Where a client goes on whose wait ends with this server.
        let others = HeaderValue::from_str(&app.others().join(" "));
        headers.extend(
            others
                .ok()
                .filter(|urls| !urls.is_empty())
                .map(|urls| (SERVERS, urls)),
        );
    }
    response
}

/// Returns the name of a request for metrics: of the API's own requests only, so that strangers make no series.
fn label(app: &App, head: &Parts) -> String {
    let known = [
        Method::GET,
        Method::POST,
        Method::PATCH,
        Method::PUT,
        Method::DELETE,
    ];
    let path = head.extensions.get::<MatchedPath>();
    match path.filter(|_| known.contains(&head.method)) {
        Some(path) => {
            let path = path.as_str();
            let path = path.strip_prefix(&*app.settings.base_path).unwrap_or(path);
            format!("{} {path}", head.method)
        }
        None => "none".to_owned(),
    }
}

/// Adds the headers that every answer has: what browsers must not do with it.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let all = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

async fn admit(app: &App, head: &Parts) -> Result<(Arc<Caller>, Arc<Held>), Problem> {
    let headers = &head.headers;
    let connection = head.extensions.get::<Arc<Connection>>();
    let way = connection.map(|connection| connection.way);
    if !matches!(way, Some(Way::Socket { .. })) {
        check_host(app, head).await?;
    }
    let caller = caller(app, way, headers).await?;
    if let Some(connection) = connection {
        let is_of_worker = Held::is_of_worker(app, head, &caller);
        connection.known(&caller, is_of_worker).map_err(crowded)?;
    }
    if caller.is_proven_by_browser() {
        check_page(head)?;
    }
    let held = Held::admit(app, head, &caller).await?;
    Ok((caller, held))
}

/// Returns the refusal of a request on a connection that gets no place.
fn crowded(crowd: Crowd) -> Problem {
    let (status, code, detail) = match crowd {
        Crowd::All => (
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "a request is in work on every connection of the server; try again".to_owned(),
        ),
        Crowd::Caller(most) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many",
            format!(
                "a request is in work on {most} connections of this caller; end some, and try again"
            ),
        ),
    };
    Problem::new(status, code, detail).retry_after(1)
}

/// Returns who sends a request, by the first proof that it has.
async fn caller(app: &App, way: Option<Way>, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
    // A token is an intent, also at the socket: it may do less.
    if let Some(secret) = bearer(headers)? {
        let caller = app.keyring.caller(secret).await.map_err(refusal)?;
        return match caller.user {
            User::Token { .. } => Ok(caller),
            _ => Err(refusal(Refused::Unknown)),
        };
    }
    if let Some(trusted) = &app.settings.trusted {
        let caller = trusted.caller(way, headers).map_err(Problem::forbidden)?;
        if let Some(caller) = caller {
            return Ok(Arc::new(caller));
        }
    } else if let Some(Way::Socket { uid }) = way {
        check_no_browser(headers)?;
        return Ok(Arc::new(Caller::peer(uid)));
    }
    if let Some(secret) = cookie(headers) {
        let caller = app.keyring.caller(secret).await.map_err(refusal)?;
        return match caller.user {
            User::Session { .. } => Ok(caller),
            _ => Err(refusal(Refused::Unknown)),
        };
    }
    let detail = "this request has no token; send the header 'Authorization: Bearer TOKEN' (`windlass token new` makes one)";
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        detail,
    ))
}

/// Returns the secret of a session that a request shows.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let texts = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    pairs.find_map(|pair| match pair.trim().split_once('=') {
        Some((COOKIE, secret)) => Some(secret),
        _ => None,
    })
}

/// Returns whether the bytes of a request are encrypted on their way from the client.
pub(crate) fn is_encrypted(head: &Parts) -> bool {
    let connection = head.extensions.get::<Arc<Connection>>();
    connection.is_some_and(|connection| connection.is_encrypted())
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
            "the header 'Authorization' is not one 'Bearer TOKEN'; is the variable with the token empty? `windlass token new` \
             makes one",
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
