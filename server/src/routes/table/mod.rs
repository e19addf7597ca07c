//! Every request of the API, in one table: the routes, the reference and the OpenAPI document are made of it.

pub(super) mod index;
mod masks;
mod namespace;
mod schedules;
mod task;
mod tasks;
mod tokens;
mod workers;

use std::sync::Arc;

use axum::routing::MethodRouter;
use serde::Serialize;

use crate::{app::App, auth::Role};

/// A path, with the requests that it has.
pub(crate) struct Request {
    pub(crate) path: &'static str,
    pub(crate) route: fn() -> MethodRouter<Arc<App>>,
    pub(crate) methods: &'static [Method],
}

/// A request.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Method {
    pub(crate) method: &'static str,
    pub(crate) role: Role,
    pub(crate) about: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) parameters: &'static [Param],
    /// The bodies that the request takes; none for a request without one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) bodies: &'static [Body],
    pub(crate) answers: &'static [Answer],
}

/// A parameter of the query.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    #[serde(rename = "type")]
    pub(crate) of: ParamType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
}

/// What a parameter may be.
#[derive(Serialize, Clone, Copy)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Of")
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ParamType {
    Text,
    /// May be repeated.
    Texts,
    Flag,
    /// A length of time: `30s`.
    Length,
    /// A time: RFC 3339, `5m ago`, `yesterday`.
    Past,
    Number(u32, u32),
    One(&'static [&'static str]),
}

/// A body that a request takes.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Body {
    #[serde(rename = "type")]
    pub(crate) media: &'static str,
    /// The name of its schema.
    pub(crate) form: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) optional: bool,
}

/// An answer that is a success.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    pub(crate) media: &'static str,
    /// The name of its schema: of the answer, or of each of its lines or events.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) form: &'static str,
    pub(crate) example: Example,
}

/// A request that has the answer, in a namespace with some tasks.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Example {
    /// The path and the query.
    pub(crate) path: &'static str,
    /// The type of the body; that of the answer for a request without a body.
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    pub(crate) media: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) body: &'static str,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const LINES: &str = "application/x-ndjson";
pub(crate) const EVENTS: &str = "text/event-stream";
pub(crate) const FILE: &str = "application/vnd.sqlite3";

/// Every request.
pub(crate) fn requests() -> impl Iterator<Item = &'static Request> {
    [
        tasks::REQUESTS,
        task::REQUESTS,
        schedules::REQUESTS,
        namespace::REQUESTS,
        masks::REQUESTS,
        tokens::REQUESTS,
        workers::REQUESTS,
    ]
    .into_iter()
    .flatten()
}

const fn may(role: Role, method: &'static str, about: &'static str) -> Method {
    Method {
        method,
        role,
        about,
        parameters: &[],
        bodies: &[],
        answers: &[],
    }
}

const fn read(about: &'static str) -> Method {
    may(Role::Read, "GET", about)
}

impl Method {
    const fn parameters(self, parameters: &'static [Param]) -> Self {
        Self { parameters, ..self }
    }

    const fn bodies(self, bodies: &'static [Body]) -> Self {
        Self { bodies, ..self }
    }

    const fn answers(self, answers: &'static [Answer]) -> Self {
        Self { answers, ..self }
    }
}

const fn param(name: &'static str, of: ParamType, about: &'static str) -> Param {
    Param {
        name,
        about,
        of,
        default: None,
        required: false,
    }
}

impl Param {
    const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }
}

/// A JSON body.
const fn body(form: &'static str) -> Body {
    Body {
        media: JSON,
        form,
        optional: false,
    }
}

impl Body {
    const fn or_none(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    const fn of(self, media: &'static str) -> Self {
        Self { media, ..self }
    }
}

/// A JSON answer to a request, with its example.
const fn answer(
    status: u16,
    form: &'static str,
    about: &'static str,
    path: &'static str,
) -> Answer {
    Answer {
        status,
        about,
        media: JSON,
        form,
        example: Example {
            path,
            media: "",
            body: "",
        },
    }
}

impl Answer {
    /// Sets the body of the example.
    const fn to(self, body: &'static str) -> Self {
        self.with_body(JSON, body)
    }

    const fn with_body(self, media: &'static str, body: &'static str) -> Self {
        Self {
            example: Example {
                media,
                body,
                ..self.example
            },
            ..self
        }
    }

    const fn of(self, media: &'static str) -> Self {
        Self { media, ..self }
    }

    /// An answer without a body.
    const fn empty(self) -> Self {
        Self {
            media: "",
            form: "",
            ..self
        }
    }
}

/// The parameter of a wait.
const fn wait(about: &'static str) -> Param {
    param("wait", ParamType::Length, about)
}

/// The parameter of a list that is cut.
const fn limit(most: u32, default: &'static str) -> Param {
    param("limit", ParamType::Number(1, most), "How many, at most.").or(default)
}
