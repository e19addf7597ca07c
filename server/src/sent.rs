//! [`Sent`]: the body of a request, whose rest is read also when the request is refused.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use futures::StreamExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

use crate::problem::Problem;

/// How long the rest of a body of a refused request is read.
const REST: Duration = Duration::from_secs(10);
/// How many bytes of it are read of a caller who is not known.
const OF_STRANGERS: usize = 64 << 10;

/// The body of a request that routes have. When it is dropped before its end, its [`Rest`] gets it back.
pub(crate) struct Sent {
    body: Body,
    rest: Rest,
}

/// What no route has read of a body. A connection that is closed with unread bytes is reset, and the client gets a broken pipe
/// instead of the answer.
#[derive(Clone, Default)]
pub(crate) struct Rest(Arc<Mutex<Option<Body>>>);

impl Sent {
    /// Returns the body for the routes, and its rest.
    pub(crate) fn of(headers: &HeaderMap, body: Body) -> (Body, Rest) {
        let rest = Rest::default();
        if body.is_end_stream() || headers.contains_key(header::EXPECT) {
            // A client that waits for 100 sends nothing that is refused before.
            return (body, rest);
        }
        let sent = Self {
            body,
            rest: rest.clone(),
        };
        (Body::new(sent), rest)
    }
}

impl HttpBody for Sent {
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

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            let body = std::mem::take(&mut self.body);
            let mut rest = self.rest.0.lock().unwrap_or_else(PoisonError::into_inner);
            *rest = Some(body);
        }
    }
}

impl Rest {
    /// Reads and forgets the rest, up to as many bytes as a body may have, if a request with this status was refused before its
    /// body was read.
    pub(crate) fn forget(self, status: StatusCode, most: usize) {
        if status.is_success() || status.is_redirection() {
            return;
        }
        let rest = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(rest) = rest else { return };
        let mut rest = rest.into_data_stream();
        tokio::spawn(timeout(REST, async move {
            let mut left = most;
            while let Some(Ok(bytes)) = rest.next().await {
                match left.checked_sub(bytes.len()) {
                    Some(fewer) => left = fewer,
                    None => break,
                }
            }
        }));
    }

    /// As [`forget`](Self::forget), for a caller who is not known.
    pub(crate) fn forget_of_stranger(self, status: StatusCode) {
        self.forget(status, OF_STRANGERS);
    }
}

/// Refuses a body that would have to be decompressed: a small one may become a large one.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
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
