//! The answers that are problem documents.

use axum::{body::Body, http::header};

use super::fixture::{Answered, Fixture};

/// What the requests of a status have in common: its name, what it means, and a request that has it.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
}

const fn refusal(status: u16, name: &'static str, about: &'static str) -> Refusal {
    Refusal {
        status,
        name,
        about,
    }
}

pub(super) const REFUSALS: &[Refusal] = &[
    refusal(
        400,
        "Invalid",
        "A field, a parameter or a header is wrong; `field` names it.",
    ),
    refusal(401, "Unauthorized", "The request has no valid token."),
    refusal(
        403,
        "Forbidden",
        "The role or the scope of the token does not allow the request.",
    ),
    refusal(
        404,
        "NotFound",
        "What the path names does not exist, or is outside of the scope of the token.",
    ),
    refusal(
        409,
        "Conflict",
        "The present state does not allow the request; `code` and `detail` say why.",
    ),
    refusal(
        410,
        "Over",
        "The lease of the worker is over: it stops every handler, and registers again.",
    ),
    refusal(413, "TooLarge", "The body is too large."),
    refusal(
        415,
        "MediaType",
        "The body is of another type, or compressed.",
    ),
    refusal(
        421,
        "WrongHost",
        "The header Host does not name the server.",
    ),
    refusal(
        429,
        "TooMany",
        "The caller makes too many requests; Retry-After says when to try again.",
    ),
    refusal(501, "Unsupported", "The store cannot do this."),
    refusal(
        503,
        "Unavailable",
        "The server or its store cannot answer at present; Retry-After says when to try again.",
    ),
];

/// Returns the problem document of a status.
pub(super) async fn refused(status: u16) -> Answered {
    let new = async |build| Fixture::new(false, build).await;
    let plain = async || new(|builder| builder).await;
    let line = match status {
        400 => "GET /v1/tasks?limit=0",
        403 | 409 => "POST /v1/tasks",
        404 => "GET /v1/tasks/none",
        410 => "POST /v1/workers/py-1/exchange",
        413 => "POST /v1/tasks",
        415 => "PATCH /v1/tasks/mail-1",
        501 => "GET /v1/doctor",
        _ => "GET /v1/time",
    };
    let body = match status {
        410 => r#"{"secret":"0f1e2d3c4b5a6978","seq":1}"#,
        _ if line.starts_with("GET") => "",
        _ => r#"{"id":"mail-1","kind":"mail"}"#,
    };
    let fixture = match status {
        413 => new(|builder| builder.max_body(10)).await,
        429 => new(|builder| builder.rate(1)).await,
        503 => new(|builder| builder.max_in_flight(0)).await,
        _ => plain().await,
    };
    let token = if status == 403 {
        &fixture.reader
    } else {
        &fixture.admin
    };
    let request = match status {
        401 => fixture.request(line),
        421 => axum::http::Request::get("/v1/time").header(header::HOST, "example.com"),
        _ => fixture.by(token, line),
    };
    if status == 429 {
        let first = fixture.by(token, line).body(Body::empty()).unwrap();
        assert_eq!(fixture.send(first).await.status, 200);
    }
    let answered = fixture.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answered.status.as_u16(), status, "{}", answered.text);
    assert_eq!(answered.media, "application/problem+json");
    answered
}
