//! [`Paced`]: the body of a request whose sender may pause, but not for too long.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::problem::Problem;

/// How long the sender of a body may pause.
const SILENCE: Duration = Duration::from_secs(30);

/// A body that ends with an error when its sender pauses for too long, so that it does not keep its place in work.
pub(crate) struct Paced {
    body: Body,
    /// Ends the present pause.
    end: Option<Pin<Box<Sleep>>>,
    is_slow: Arc<AtomicBool>,
}

/// Whether the sender of a body has paused for too long.
#[derive(Clone)]
pub(crate) struct Pace(Arc<AtomicBool>);

/// The error of a body whose sender has paused for too long.
#[derive(Debug)]
struct Slow;

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body has paused for {} s", SILENCE.as_secs())
    }
}

impl std::error::Error for Slow {}

impl Pace {
    /// Lets a body pause, but not for too long.
    pub(crate) fn of(body: Body) -> (Self, Body) {
        let is_slow = Arc::<AtomicBool>::default();
        let paced = Paced {
            body,
            end: None,
            is_slow: is_slow.clone(),
        };
        (Self(is_slow), Body::new(paced))
    }

    /// Returns the answer to the request: the refusal of a body that has paused for too long, whatever its reader said of it.
    pub(crate) fn answer(&self, response: Response) -> Response {
        let is_slow = self.0.load(Ordering::Relaxed);
        match is_slow && response.status().is_client_error() {
            true => slow("the body has paused for 30 s; send the request again").into_response(),
            false => response,
        }
    }
}

/// Returns whether a body was given up because its sender has paused for too long.
pub(crate) fn is_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let source = error.source();
    error.is::<Slow>() || source.is_some_and(is_slow)
}

/// Returns the refusal of a body that has paused for too long.
pub(crate) fn slow(detail: &str) -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", detail)
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.end = None;
            return Poll::Ready(frame);
        }
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
        if end.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.is_slow.store(true, Ordering::Relaxed);
        self.end = None;
        Poll::Ready(Some(Err(axum::Error::new(Slow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
