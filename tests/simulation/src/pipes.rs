//! [`Pipes`]: the members of the model behind HTTP/2, on pipes in memory. The simulation hands messages over above HTTP/2;
//! here the same answers pass through the client and the server of tonic.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    task::AbortHandle,
};
use tonic::transport::{Channel, Endpoint, Server};
use tower::{BoxError, ServiceExt, service_fn};
use windlass::store::etcd::Connector;

use crate::{
    etcd::{
        Servers,
        service::{self, Call},
    },
    locked,
    wire::{self, Way},
};

/// The bytes that a pipe holds: fewer than a frame of HTTP/2 has, so that frames arrive in pieces.
const PIPE: usize = 1000;

/// The pipes to the members. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pipes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    servers: Arc<Servers>,
    open: Mutex<Vec<AbortHandle>>,
    connections: AtomicU64,
}

impl Pipes {
    /// Returns pipes to these members, of which none is open.
    pub fn to(servers: Arc<Servers>) -> Self {
        Self(Arc::new(Inner {
            servers,
            open: Mutex::default(),
            connections: AtomicU64::new(0),
        }))
    }

    /// Returns what opens the connections of a process.
    pub fn connector(&self, process: usize) -> Connector {
        let pipes = self.clone();
        wire::connector(move |member, endpoint| {
            Way::new(
                pipes
                    .channel((process, member), endpoint)
                    .map_err(BoxError::from),
            )
        })
    }

    /// Makes a channel of tonic, with the options of the client, that opens a pipe when it needs one.
    fn channel(&self, ends: (usize, usize), endpoint: &Endpoint) -> Channel {
        let pipes = self.clone();
        endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let pipes = pipes.clone();
            async move { Ok::<_, Infallible>(TokioIo::new(pipes.open(ends))) }
        }))
    }

    /// Returns how many connections were opened.
    pub fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Closes all open pipes: both ends find the end of the connection.
    pub fn cut(&self) {
        let open = std::mem::take(&mut *locked(&self.0.open));
        open.iter().for_each(AbortHandle::abort);
    }

    /// Opens a connection to a member, which is served until one end closes it.
    fn open(&self, ends: (usize, usize)) -> DuplexStream {
        let (client, mut near) = duplex(PIPE);
        let (mut far, server) = duplex(PIPE);
        let relay = tokio::spawn(async move {
            // An end that closes the connection ends both.
            let _ = copy_bidirectional(&mut near, &mut far).await;
        });
        locked(&self.0.open).push(relay.abort_handle());
        let servers = self.0.servers.clone();
        let answers = service_fn(move |call: Call| {
            let servers = servers.clone();
            async move { Ok::<_, Infallible>(service::answer(&servers, ends, call).await) }
        });
        tokio::spawn(async move {
            let one = stream::iter([Ok::<_, io::Error>(server)]);
            let served = Server::builder().serve_with_incoming(answers, one).await;
            if let Err(error) = served {
                tracing::warn!(%error, "a member does not serve its pipe");
            }
        });
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        client
    }
}
