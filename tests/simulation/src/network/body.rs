//! The body of a request or of an answer, whose frames come through a channel.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tonic::{Status, body::Body};

/// Where the frames are sent.
pub(super) type Sender = UnboundedSender<Result<Frame<Bytes>, Status>>;

struct Frames(UnboundedReceiver<Result<Frame<Bytes>, Status>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_recv(context)
    }
}

/// Returns a body, and where its frames are sent.
pub(super) fn channel() -> (Sender, Body) {
    let (sender, frames) = mpsc::unbounded_channel();
    (sender, Body::new(Frames(frames)))
}
