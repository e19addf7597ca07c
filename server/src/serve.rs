//! [`Serving`]: a server that listens.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;
use windlass::store::Error;

use crate::{
    guard::Peer,
    server::Server,
    socket::{Socket, may_use},
};

/// How long a client may take to send the head of a request, or of the next one.
const HEAD: Duration = Duration::from_secs(5);
/// How long a client may take to receive what was sent.
const WRITE: Duration = Duration::from_secs(30);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listen {
    /// A Unix socket: the users of this machine that may use it are known without a token. Its folder has to be closed to
    /// other users, and is created if it does not exist.
    Socket(PathBuf),
    /// A TCP address of this machine alone (loopback). Port 0 is any free one.
    Loopback(SocketAddr),
    /// A TCP address that a proxy reaches, which ends TLS: the tokens are not encrypted on the way from the proxy.
    BehindProxy(SocketAddr),
}

/// A server that listens. Dropping it ends the server at once; [`shutdown`](Self::shutdown) lets requests end.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Serving {
    server: Server,
    sockets: Vec<PathBuf>,
    addresses: Vec<SocketAddr>,
    listeners: Vec<JoinHandle<GracefulShutdown>>,
}

impl Server {
    /// Listens, and answers requests until it is shut down.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] for an address or a socket that cannot be used; the text says why.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::store::Store;
    /// use windlass_server::{Listen, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let server = Server::builder(&Store::open("memory:").await?).build();
    /// let serving = server.listen([Listen::Loopback("127.0.0.1:0".parse()?)]).await?;
    /// assert!(serving.addresses()[0].port() > 0);
    /// serving.shutdown(Duration::from_secs(1)).await;
    /// # Ok(()) }
    /// ```
    pub async fn listen(self, at: impl IntoIterator<Item = Listen>) -> Result<Serving, Error> {
        let mut serving = Serving {
            server: self,
            sockets: Vec::new(),
            addresses: Vec::new(),
            listeners: Vec::new(),
        };
        let connections = serving.server.app.settings.connections;
        let room = Arc::new(Semaphore::new(connections));
        for listen in at {
            match listen {
                Listen::Socket(path) => serving.socket(&path, room.clone())?,
                Listen::Loopback(address) if !address.ip().is_loopback() => {
                    return Err(Error::Unusable(format!(
                        "address {address} can be reached from other machines, and tokens would be sent in clear; listen on \
                         127.0.0.1 or [::1], or put a proxy with TLS in front and say so"
                    )));
                }
                Listen::Loopback(address) | Listen::BehindProxy(address) => {
                    serving.tcp(address, room.clone()).await?;
                }
            }
        }
        Ok(serving)
    }
}

impl Serving {
    /// Returns the TCP addresses, with their ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the paths of the Unix sockets.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    fn socket(&mut self, path: &Path, room: Arc<Semaphore>) -> Result<(), Error> {
        let socket = Socket::bind(path)?;
        self.sockets.push(path.to_owned());
        let (router, stop) = (self.server.router(), self.server.app.stop.clone());
        self.listeners.push(tokio::spawn(async move {
            let open = GracefulShutdown::new();
            loop {
                let place = tokio::select! {
                    () = stop.cancelled() => return open,
                    place = room.clone().acquire_owned() => place,
                };
                let accepted = tokio::select! {
                    () = stop.cancelled() => return open,
                    accepted = socket.listener.accept() => accepted,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let uid = stream.peer_cred().map(|peer| peer.uid());
                        if let Ok(uid) = uid
                            && may_use(uid)
                        {
                            connect(&open, stream, router.clone(), (Some(Peer(uid)), place.ok()));
                        }
                    }
                    Err(error) => full(&error).await,
                }
            }
        }));
        Ok(())
    }

    async fn tcp(&mut self, address: SocketAddr, room: Arc<Semaphore>) -> Result<(), Error> {
        let unusable = |error: std::io::Error| {
            Error::Unusable(format!(
                "cannot listen on {address}: {error}; give another address or port"
            ))
        };
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        self.addresses
            .push(listener.local_addr().map_err(unusable)?);
        let (router, stop) = (self.server.router(), self.server.app.stop.clone());
        self.listeners.push(tokio::spawn(async move {
            let open = GracefulShutdown::new();
            loop {
                let place = tokio::select! {
                    () = stop.cancelled() => return open,
                    place = room.clone().acquire_owned() => place,
                };
                let accepted = tokio::select! {
                    () = stop.cancelled() => return open,
                    accepted = listener.accept() => accepted,
                };
                match accepted {
                    Ok((stream, _)) => {
                        // Answers are written whole.
                        let _ = stream.set_nodelay(true);
                        connect(&open, stream, router.clone(), (None, place.ok()));
                    }
                    Err(error) => full(&error).await,
                }
            }
        }));
        Ok(())
    }

    /// Takes no more connections, ends waits and streams, and lets the other requests end for at most `grace`.
    pub async fn shutdown(mut self, grace: Duration) {
        self.server.app.stop.cancel();
        let listeners = std::mem::take(&mut self.listeners);
        let end = async {
            for listener in listeners {
                if let Ok(open) = listener.await {
                    open.shutdown().await;
                }
            }
        };
        if timeout(grace, end).await.is_err() {
            tracing::warn!(
                ?grace,
                "requests were cut off: they did not end within the grace"
            );
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.app.stop.cancel();
    }
}

/// Answers the requests of a connection.
fn connect<S: AsyncRead + AsyncWrite + Send + 'static>(
    open: &GracefulShutdown,
    stream: S,
    router: Router,
    (peer, place): (Option<Peer>, Option<OwnedSemaphorePermit>),
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE));
    let io: Pin<Box<TimeoutStream<S>>> = Box::pin(stream);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let mut router = router.clone();
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        async move {
            let answered: Result<Response, Infallible> = router.call(request.map(Body::new)).await;
            answered
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let connection = open.watch(builder.serve_connection(TokioIo::new(io), answer));
    tokio::spawn(async move {
        let _place = place;
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
}

/// Waits a moment after a connection could not be taken: the process may have no file descriptor left.
async fn full(error: &std::io::Error) {
    tracing::warn!(%error, "a connection cannot be taken");
    sleep(Duration::from_millis(100)).await;
}
