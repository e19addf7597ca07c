//! [`Connection`]: how a request has come in.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::CancellationToken;

/// A connection, which each of its requests has as an extension.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) way: Way,
    /// Whether a request has come whose caller is known.
    is_known: AtomicBool,
    /// Ends the connection, so that another one has its place.
    pub(crate) ended: CancellationToken,
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

impl Connection {
    pub(crate) fn new(way: Way) -> Self {
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

    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }
}
