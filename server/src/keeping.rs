//! [`Keeping`]: the body of an answer that keeps something until its last byte.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// The body of an answer, and what is kept until its last byte: a stream keeps it as long as it lasts.
pub(crate) struct Keeping<T> {
    body: Body,
    _kept: T,
}

impl<T: Send + Unpin + 'static> Keeping<T> {
    /// Lets a body keep something.
    pub(crate) fn body(body: Body, kept: T) -> Body {
        Body::new(Self { body, _kept: kept })
    }
}

impl<T: Unpin> HttpBody for Keeping<T> {
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
