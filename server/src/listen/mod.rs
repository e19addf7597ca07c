//! Where a server listens, and how connections reach its routes.

mod answer;
mod files;
mod listener;
mod serving;
mod socket;
mod tls;

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::PathBuf,
};

pub use serving::Serving;

/// Where a server listens.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listen {
    /// A Unix socket: the users of this machine that may use it are known without a token. Its folder has to be closed to
    /// other users, and is created if it does not exist.
    Socket(PathBuf),
    /// A Unix socket that listens already: the manager of services that started the process has opened it. Who may connect
    /// is up to the manager, and who is answered without a token is the same as for [`Socket`](Self::Socket).
    PassedSocket(UnixListener),
    /// A TCP address of this machine alone (loopback). Port 0 is any free one.
    Loopback(SocketAddr),
    /// A TCP address that a proxy reaches, which ends TLS: the tokens are not encrypted on the way from the proxy.
    BehindProxy(SocketAddr),
    /// A TCP address with TLS; the [`tls`](crate::Builder::tls) files are needed.
    Tls(SocketAddr),
    /// A TCP address that listens already: on loopback as [`Loopback`](Self::Loopback), on others as [`Tls`](Self::Tls).
    Passed(TcpListener),
}
