//! [`Serving`]: a server that listens.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinHandle,
    time::{sleep, timeout},
};
use windlass::store::Error;

use super::{Listen, files, listener::Listener, socket::Socket, tls::Tls};
use crate::{app::App, connections::Connections, server::Server};

/// How often it is looked whether the tokens of open connections are valid.
const LOOK: Duration = Duration::from_millis(500);

/// A server that listens. Dropping it ends the server at once; [`shutdown`](Self::shutdown) lets requests end.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Serving {
    server: Server,
    sockets: Vec<PathBuf>,
    addresses: Vec<(SocketAddr, bool)>,
    listeners: Vec<JoinHandle<GracefulShutdown>>,
}

impl Server {
    /// Listens, and answers requests until it is shut down.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] for an address, a socket or a certificate that cannot be used; the text says why.
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
        let settings = &self.app.settings;
        let tls = settings.tls.clone().map(Tls::read).transpose()?;
        let tls = tls.map(Arc::new);
        let (by_tcp, by_socket) = files::connections(settings.connections);
        // Those of the user of this machine, who opens no connection in vain while all places of the others are taken.
        let connections = (Connections::new(by_tcp), Connections::new(by_socket));
        let mut serving = Serving {
            server: self,
            sockets: Vec::new(),
            addresses: Vec::new(),
            listeners: Vec::new(),
        };
        for listen in at {
            let listener = listener(listen, &tls).await?;
            let of_way = match listener.is_socket() {
                true => &connections.1,
                false => &connections.0,
            };
            serving.add(listener, of_way);
        }
        tokio::spawn(end_refused(serving.server.app.clone(), connections));
        if let Some(tls) = tls {
            tokio::spawn(tls.follow(serving.server.app.stop.clone()));
        }
        Ok(serving)
    }
}

impl Serving {
    /// Returns the TCP addresses, with their ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|(address, _)| *address).collect()
    }

    /// Returns the URLs of the TCP addresses, with the base path.
    pub fn urls(&self) -> Vec<String> {
        let base = &self.server.app.settings.base_path;
        let url = |(address, has_tls): &(SocketAddr, bool)| {
            let scheme = if *has_tls { "https" } else { "http" };
            format!("{scheme}://{address}{base}")
        };
        self.addresses.iter().map(url).collect()
    }

    /// Returns the paths of the Unix sockets that were opened.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    fn add(&mut self, listener: Listener, connections: &Arc<Connections>) {
        if let Listener::Socket(socket) = &listener {
            self.sockets.push(socket.path().to_owned());
        }
        self.addresses.extend(listener.address());
        let shared = (connections.clone(), self.server.app.stop.clone());
        let running = listener.run(self.server.router(), shared);
        self.listeners.push(tokio::spawn(running));
    }

    /// Takes no more connections, ends waits and streams, and lets the other requests end for at most `grace`.
    pub async fn shutdown(mut self, grace: Duration) {
        self.server.app.stop.cancel();
        self.server.app.peers.leave().await;
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

/// Ends the connections of tokens that are revoked, until the server stops.
async fn end_refused(app: Arc<App>, connections: (Arc<Connections>, Arc<Connections>)) {
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = sleep(LOOK) => {}
        }
        for connections in [&connections.0, &connections.1] {
            connections.end_refused(|caller| app.keyring.now(caller));
        }
    }
}

/// Opens what accepts connections.
async fn listener(listen: Listen, tls: &Option<Arc<Tls>>) -> Result<Listener, Error> {
    let no_files = |address: SocketAddr| {
        Error::Unusable(format!(
            "address {address} can be reached from other machines, and tokens would be sent in clear; listen on 127.0.0.1 \
             or [::1], give a certificate with its key (--tls-cert, --tls-key), or put a proxy with TLS in front (--behind-proxy)"
        ))
    };
    let (address, listener) = match listen {
        Listen::Socket(path) => return Ok(Listener::Socket(Socket::bind(Path::new(&path))?)),
        Listen::PassedSocket(socket) => {
            let passed = |error| Error::Unusable(format!("the socket that was passed: {error}"));
            socket.set_nonblocking(true).map_err(passed)?;
            return Ok(Listener::Passed(
                UnixListener::from_std(socket).map_err(passed)?,
            ));
        }
        Listen::Loopback(address) if !address.ip().is_loopback() => return Err(no_files(address)),
        Listen::Loopback(address) => return Ok(tcp(bind(address).await?, None, false)),
        Listen::BehindProxy(address) => return Ok(tcp(bind(address).await?, None, true)),
        Listen::Tls(address) => (address, bind(address).await?),
        Listen::Passed(listener) => {
            let passed = |error| Error::Unusable(format!("the listener that was passed: {error}"));
            listener.set_nonblocking(true).map_err(passed)?;
            let listener = TcpListener::from_std(listener).map_err(passed)?;
            let address = listener.local_addr().map_err(passed)?;
            if address.ip().is_loopback() {
                return Ok(tcp(listener, None, false));
            }
            (address, listener)
        }
    };
    match tls {
        Some(tls) => Ok(tcp(listener, Some(tls.clone()), false)),
        None => Err(no_files(address)),
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| {
        Error::Unusable(format!(
            "cannot listen on {address}: {error}; give another address or port"
        ))
    })
}

fn tcp(listener: TcpListener, tls: Option<Arc<Tls>>, is_proxied: bool) -> Listener {
    Listener::Tcp {
        listener,
        tls,
        is_proxied,
    }
}
