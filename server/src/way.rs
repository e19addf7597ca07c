//! [`Way`]: how a connection has come.

use std::net::IpAddr;

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
