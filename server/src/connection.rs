//! [`Connection`]: how a request has come in, and the place that its connection has.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    auth::Caller,
    connections::{Connections, Crowd},
    way::Way,
};

/// A connection, which each of its requests has as an extension. Its place is free when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) way: Way,
    /// Ends the connection, so that another one has its place.
    pub(crate) ended: CancellationToken,
    connections: Arc<Connections>,
    number: u64,
}

/// A request that is in work on a connection. Keep it until the last byte of the answer.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

impl Connection {
    /// Gives a new connection a place, at once: another one may lose its own.
    pub(crate) fn open(way: Way, connections: &Arc<Connections>) -> Arc<Self> {
        let ended = CancellationToken::new();
        Arc::new(Self {
            way,
            number: connections.open(ended.clone()),
            ended,
            connections: connections.clone(),
        })
    }

    /// Begins a request.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.connections.begin(self.number);
        Busy(self.clone())
    }

    /// Notes that a request has come whose caller is known. Refuses one of a caller with too many connections.
    pub(crate) fn known(&self, caller: &Arc<Caller>, is_of_worker: bool) -> Result<(), Crowd> {
        self.connections.known(self.number, caller, is_of_worker)
    }

    /// Returns since when the connection is one of a stranger; `None` while its caller is known.
    pub(crate) fn stranger_since(&self) -> Option<Instant> {
        self.connections.stranger_since(self.number)
    }

    /// Returns whether the bytes are encrypted on their way from the client.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.way, Way::Tcp { is_encrypted, .. } if is_encrypted)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.close(self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.connections.end(self.0.number);
    }
}
