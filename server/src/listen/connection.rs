//! [`Connection`]: how a request has come in.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

/// How long a client may take to send the head of a request, or of the next one, and to agree on TLS.
pub(super) const HEAD: Duration = Duration::from_secs(5);
/// How long a client may take to receive what was sent.
const WRITE: Duration = Duration::from_secs(30);

/// A connection, which each of its requests has as an extension.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) way: Way,
    /// Whether a request has come whose caller is known.
    is_known: AtomicBool,
    /// Ends the connection, so that another one has its place.
    ended: CancellationToken,
}

/// The way on which a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a Unix socket, from a process of a user of this machine.
    Socket { uid: u32 },
    /// By TCP.
    Tcp {
        from: IpAddr,
        /// Whether the bytes are encrypted until the machine of the client, here or by a proxy.
        is_encrypted: bool,
    },
}

/// The bytes of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

impl Connection {
    pub(super) fn new(way: Way) -> Self {
        Self {
            way,
            is_known: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }

    /// Notes that a request has come whose caller is known.
    pub(crate) fn known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Returns whether the bytes are encrypted on their way from the client.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.way, Way::Tcp { is_encrypted, .. } if is_encrypted)
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Ends the connection.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Answers the requests of the connection until its end.
    pub(super) async fn serve(
        self: &Arc<Self>,
        stream: Pin<Box<dyn Stream>>,
        (router, watcher): (Router, Watcher),
    ) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE));
        let connection = self.clone();
        let answer = service_fn(move |mut request: Request<Incoming>| {
            let mut router = router.clone();
            request.extensions_mut().insert(connection.clone());
            async move {
                let answered: Result<Response, Infallible> =
                    router.call(request.map(Body::new)).await;
                answered
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
        let served = builder.serve_connection(TokioIo::new(Box::pin(stream)), answer);
        tokio::select! {
            served = watcher.watch(served) => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection ended");
                }
            }
            () = self.ended.cancelled() => {
                tracing::debug!("a connection without a caller was ended for another one");
            }
        }
    }
}
