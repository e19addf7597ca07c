//! [`Listener`]: accepts connections, on a Unix socket or on TCP.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::{TcpListener, UnixListener},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{Stream, TLS, answer},
    socket::{Socket, may_use},
    tls::Tls,
};
use crate::{connection::Connection, connections::Connections, way::Way};

/// What accepts connections.
#[derive(Debug)]
pub(super) enum Listener {
    /// A socket with a file of ours.
    Socket(Socket),
    /// A socket that was passed to us.
    Passed(UnixListener),
    Tcp {
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        /// Whether a proxy in front ends TLS.
        is_proxied: bool,
    },
}

/// A connection that was accepted, before it has agreed on TLS.
struct Accepted {
    stream: Pin<Box<dyn Stream>>,
    way: Way,
}

impl Listener {
    async fn accept(&self) -> io::Result<Option<Accepted>> {
        let socket = match self {
            Self::Socket(socket) => &socket.listener,
            Self::Passed(socket) => socket,
            Self::Tcp {
                listener,
                tls,
                is_proxied,
            } => {
                let (stream, from) = listener.accept().await?;
                // Answers are written whole.
                let _ = stream.set_nodelay(true);
                let way = Way::Tcp {
                    from: from.ip().to_canonical(),
                    is_encrypted: tls.is_some() || *is_proxied,
                };
                let stream = Box::pin(stream);
                return Ok(Some(Accepted { stream, way }));
            }
        };
        let (stream, _) = socket.accept().await?;
        let uid = stream.peer_cred().map(|peer| peer.uid());
        let of_user = |uid| Accepted {
            stream: Box::pin(stream),
            way: Way::Socket { uid },
        };
        Ok(uid.ok().filter(|uid| may_use(*uid)).map(of_user))
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        match self {
            Self::Tcp { tls, .. } => tls.as_ref(),
            _ => None,
        }
    }

    /// Returns the TCP address, and whether it has TLS.
    pub(super) fn address(&self) -> Option<(SocketAddr, bool)> {
        match self {
            Self::Tcp { listener, tls, .. } => Some((listener.local_addr().ok()?, tls.is_some())),
            _ => None,
        }
    }

    /// Returns whether the connections come by a Unix socket.
    pub(super) fn is_socket(&self) -> bool {
        !matches!(self, Self::Tcp { .. })
    }

    /// Serves connections until the server stops, and returns those that are open then. A connection never waits for another.
    pub(super) async fn run(
        self,
        router: Router,
        (connections, stop): (Arc<Connections>, CancellationToken),
    ) -> GracefulShutdown {
        let open = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return open,
                accepted = self.accept() => accepted,
            };
            let accepted = match accepted {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) => {
                    // The process may have no file descriptor left.
                    tracing::warn!(%error, "a connection cannot be taken");
                    connections.end_one();
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let connection = Connection::open(accepted.way, &connections);
            let (router, watcher) = (router.clone(), open.watcher());
            let tls = self.tls().cloned();
            tokio::spawn(async move {
                let stream = match tls {
                    None => accepted.stream,
                    Some(tls) => {
                        let agreed = timeout(TLS, tls.agree(accepted.stream));
                        let agreed = tokio::select! {
                            agreed = agreed => agreed,
                            () = connection.ended.cancelled() => return,
                        };
                        match agreed {
                            Ok(Ok(stream)) => Box::pin(stream),
                            Ok(Err(error)) => {
                                tracing::debug!(%error, "a connection did not agree on TLS");
                                return;
                            }
                            Err(_) => return,
                        }
                    }
                };
                answer(&connection, stream, (router, watcher)).await;
            });
        }
    }
}
