//! Answers the requests of a connection.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until},
};
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;

use crate::{connection::Connection, keeping::Keeping};

/// How long a client may take to agree on TLS.
pub(super) const TLS: Duration = Duration::from_secs(5);
/// How long a connection may last without a request of a known caller.
const STRANGER: Duration = Duration::from_secs(10);
/// How long a client may take to send the next request: longer than proxies keep connections that they do not use, so that the
/// proxy is the one that closes, and no request meets the end of its connection.
const NEXT: Duration = Duration::from_secs(75);
/// How long a client may take to receive what was sent.
const WRITE: Duration = Duration::from_secs(30);

/// The bytes of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// Answers the requests of the connection until its end.
pub(super) async fn answer(
    connection: &Arc<Connection>,
    stream: Pin<Box<dyn Stream>>,
    (router, watcher): (Router, Watcher),
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE));
    let of_requests = connection.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let mut router = router.clone();
        request.extensions_mut().insert(of_requests.clone());
        let busy = of_requests.begin();
        async move {
            let answered: Result<Response, Infallible> = router.call(request.map(Body::new)).await;
            answered.map(|answer| answer.map(|body| Keeping::body(body, busy)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(NEXT);
    let served = builder.serve_connection(TokioIo::new(Box::pin(stream)), answer);
    let is_stranger = async {
        loop {
            let since = connection.stranger_since();
            let end = since.unwrap_or_else(Instant::now) + STRANGER;
            if since.is_some() && end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    };
    tokio::select! {
        served = watcher.watch(served) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended");
            }
        }
        () = connection.ended.cancelled() => {
            tracing::debug!("a connection was ended for another one, or with its token");
        }
        () = is_stranger => {
            tracing::debug!("a connection without a caller was ended");
        }
    }
}
