//! [`Settings`]: the limits of a server, and the names by which it is called.

use std::{path::PathBuf, time::Duration};

use crate::auth::TrustedHeader;

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that sign it, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// The limits of a server, and the names by which it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The names that a request may have in `Host`, without the port.
    pub(crate) hosts: Vec<String>,
    /// The path below which the routes are.
    pub(crate) base_path: String,
    /// The most bytes of a body, and of one line of a body of lines.
    pub(crate) body_bytes: usize,
    /// The most requests in work at once; the most waits and streams; the most reports of workers.
    pub(crate) in_flight: usize,
    /// The most exchanges of workers that are open at once.
    pub(crate) workers: usize,
    /// How many requests a token may make each second, on average.
    pub(crate) rate: u32,
    /// The longest wait of a request.
    pub(crate) longest_wait: Duration,
    /// The most open connections.
    pub(crate) connections: usize,
    /// The store, as the option `--store` of the command line names it.
    pub(crate) store: Option<String>,
    /// The URLs by which clients reach the server.
    pub(crate) advertised: Vec<String>,
    /// The files of the certificate.
    pub(crate) tls: Option<TlsFiles>,
    /// The header in which a proxy names the user.
    pub(crate) trusted: Option<TrustedHeader>,
}

impl Default for Settings {
    fn default() -> Self {
        let hosts = ["localhost", "127.0.0.1", "[::1]"];
        Self {
            hosts: hosts.map(str::to_owned).into(),
            base_path: String::new(),
            body_bytes: 8 << 20,
            in_flight: 1024,
            workers: 4096,
            rate: 1000,
            longest_wait: Duration::from_secs(300),
            // Those of as many workers, and as many others.
            connections: 8192,
            store: None,
            advertised: Vec::new(),
            tls: None,
            trusted: None,
        }
    }
}
