//! [`Problem`]: an error as a problem document (RFC 9457).

mod of_store;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use windlass::{CommandId, Invalid, store::Error, wire::RefusalForm, workers::WorkerError};

use of_store::{alone, detail, is_of_state};
pub(crate) use of_store::{is_id_used, of_retry, without_text};

/// An answer that is not a success: `application/problem+json`.
///
/// ```json
/// {"title":"Bad Request","status":400,"code":"invalid","field":"limit","detail":"limit: '0' is not 1 to 10000"}
/// ```
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// A word for programs.
    code: &'static str,
    /// The field that is wrong, if one is.
    field: Option<String>,
    /// What happened, and what to do next.
    detail: String,
    /// After how many seconds the same request may succeed.
    retry_after: Option<u64>,
    refused: Vec<u8>,
    /// The error of the only operation of a transaction.
    alone: Option<Box<Error>>,
    /// Whether it is an error of the store, whose text may name its files and addresses.
    of_store: bool,
}

/// Marks an answer whose text may name the files and addresses of the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfStore {
    code: &'static str,
    retry_after: Option<u64>,
}

impl OfStore {
    /// Returns the answer for a caller who may not know where the store is.
    pub(crate) fn without_place(self) -> Problem {
        let detail =
            "the store cannot do this at present; the operator of the server sees the reason";
        Problem {
            retry_after: self.retry_after,
            ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, self.code, detail)
        }
    }
}

/// An answer that is not a success (RFC 9457).
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Problem"))]
pub(crate) struct Form<'a> {
    /// The meaning of the status.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// A word for programs.
    code: &'a str,
    /// The field, parameter or header that is wrong, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// What happened, and what to do next.
    detail: &'a str,
    /// The parts of a transaction that were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<RefusalForm<'a>>>"))]
    refused: Option<&'a serde_json::value::RawValue>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            field: None,
            detail: detail.into(),
            retry_after: None,
            refused: Vec::new(),
            alone: None,
            of_store: false,
        }
    }

    /// Returns the problem as a caller may see it who may not know where the store is.
    pub(crate) fn without_place(self) -> Self {
        match self.of_store() {
            Some(of) => of.without_place(),
            None => self,
        }
    }

    /// A part of the request that is too large.
    pub(crate) fn too_large(field: &str, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        }
    }

    fn of_store(&self) -> Option<OfStore> {
        let (code, retry_after) = (self.code, self.retry_after);
        self.of_store.then_some(OfStore { code, retry_after })
    }

    /// A wrong field of the request.
    pub(crate) fn invalid(field: &str, what: impl std::fmt::Display) -> Self {
        let detail = format!("{field}: {what}");
        Self {
            field: Some(field.to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
        }
    }

    /// A task that does not exist, or that the caller may not see.
    pub(crate) fn no_task(id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("task '{id}' does not exist"),
        )
    }

    /// A command with the id of an earlier one that has another content.
    pub(crate) fn id_used(id: &CommandId) -> Self {
        let detail =
            format!("command '{id}' exists with another content; nothing was sent. Use a new id");
        Self::new(StatusCode::CONFLICT, "id_used", detail)
    }

    /// What the caller's role or scope does not allow.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// What would say something of a masked value.
    pub(crate) fn masked(field: &str, what: impl std::fmt::Display) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(StatusCode::FORBIDDEN, "masked", format!("{field}: {what}"))
        }
    }

    /// Returns the error that the request has without a key: a request with a key is a transaction.
    pub(crate) fn of_key(self, header: &str) -> Self {
        self.key_used(header).of_one()
    }

    /// Names the key instead of the transaction that was made of it.
    pub(crate) fn key_used(self, header: &str) -> Self {
        if self.field.as_deref() != Some("transaction id") {
            return self;
        }
        let detail = "this key was used for another request within the last hour: the body has to be the same, byte by byte; \
                      use a new key";
        Self {
            field: Some(header.to_owned()),
            ..Self::new(StatusCode::CONFLICT, "key_used", detail)
        }
    }

    /// Returns the error of the only operation, instead of that of its transaction.
    pub(crate) fn of_one(self) -> Self {
        match self.alone {
            Some(alone) => (*alone).into(),
            None => self,
        }
    }

    /// Returns the problem of a used id for a caller who may not know which task has it.
    pub(crate) fn of_used_id(&self) -> Self {
        let id = self.field.as_deref().unwrap_or("id");
        let detail = format!("{id}: was used with another content; give a new one");
        let field = self.field.clone();
        Self {
            field,
            ..Self::new(self.status, self.code, detail)
        }
    }

    /// Names the part of the body in which the field is.
    pub(crate) fn within(mut self, part: &str) -> Self {
        self.field = Some(match self.field {
            Some(field) => format!("{part}.{field}"),
            None => part.to_owned(),
        });
        self.detail = format!("{part}: {}", self.detail);
        self
    }

    /// Returns the same problem for another part of a request.
    pub(crate) fn copy(&self) -> Self {
        Self {
            field: self.field.clone(),
            retry_after: self.retry_after,
            ..Self::new(self.status, self.code, &self.detail)
        }
    }

    /// Returns whether the text says that something in a part of the request is wrong: `body: PLACE`.
    pub(crate) fn is_about(&self, place: &str) -> bool {
        let text = self.detail.strip_prefix("body: ");
        text.is_some_and(|text| text.starts_with(place))
    }

    /// Returns what happened, and what to do next.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns whether the caller has to do something else, instead of the same later.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.status.is_client_error()
    }

    /// Returns whether the task does not exist for the caller.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the document.
    pub(crate) fn json(&self) -> Vec<u8> {
        let refused = serde_json::from_slice(&self.refused).ok();
        let form = Form {
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            code: self.code,
            field: self.field.as_deref(),
            detail: &self.detail,
            refused,
        };
        serde_json::to_vec(&form).unwrap_or_default()
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self {
            field: Some(invalid.field().to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid", invalid.to_string())
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let error = without_text(error);
        let (status, code) = match &error {
            error if is_id_used(error) => (StatusCode::CONFLICT, "id_used"),
            error if is_of_state(error) => (StatusCode::CONFLICT, "state"),
            Error::Invalid(invalid) => return invalid.clone().into(),
            Error::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::AlreadyExists { .. } => (StatusCode::CONFLICT, "exists"),
            Error::AlreadyFinished { .. } => (StatusCode::CONFLICT, "finished"),
            Error::Claimed(_) => (StatusCode::CONFLICT, "claimed"),
            Error::ScheduleEnded(_) => (StatusCode::CONFLICT, "schedule_ended"),
            Error::NotASchedule { .. } => (StatusCode::CONFLICT, "not_a_schedule"),
            Error::NotUnique { .. } => (StatusCode::CONFLICT, "not_unique"),
            Error::Refused(_) => (StatusCode::CONFLICT, "refused"),
            Error::OtherSpeaker { .. } => (StatusCode::CONFLICT, "stale"),
            Error::Superseded { .. } | Error::Fenced(_) => (StatusCode::CONFLICT, "superseded"),
            Error::Copied(_) => (StatusCode::CONFLICT, "copied"),
            Error::Corrupt { .. } => (StatusCode::CONFLICT, "unreadable"),
            Error::Unsupported { .. } => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            Error::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "unusable"),
        };
        let refused = match &error {
            Error::Refused(refusals) => {
                let forms: Vec<RefusalForm<'_>> = refusals.iter().map(Into::into).collect();
                serde_json::to_vec(&forms).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let alone = match &error {
            Error::Refused(refusals) => alone(refusals).map(Box::new),
            _ => None,
        };
        let field = match &error {
            Error::TooLarge { field, .. } => Some((*field).to_owned()),
            Error::Invalid(invalid) => Some(invalid.field().to_owned()),
            _ => None,
        };
        Self {
            field,
            retry_after: error.is_retryable().then_some(1),
            refused,
            alone,
            of_store: status == StatusCode::SERVICE_UNAVAILABLE,
            ..Self::new(status, code, detail(&error))
        }
    }
}

impl From<WorkerError> for Problem {
    fn from(error: WorkerError) -> Self {
        let (status, code) = match error {
            WorkerError::Invalid(invalid) => return invalid.into(),
            WorkerError::Store(error) => return error.into(),
            WorkerError::Secret(_) => (StatusCode::FORBIDDEN, "secret"),
            WorkerError::Stale { .. } => (StatusCode::CONFLICT, "stale"),
            WorkerError::Lost { .. } => (StatusCode::CONFLICT, "lost"),
            WorkerError::Over(_) => (StatusCode::GONE, "over"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "unusable"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.json()).into_response();
        if let Some(of) = self.of_store() {
            response.extensions_mut().insert(of);
        }
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"windlass\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}
