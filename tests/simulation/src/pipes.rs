//! [`Pipes`]: the members of the model behind HTTP/2, on pipes in memory. The simulation hands messages over above HTTP/2;
//! here the same answers pass through the client and the server of tonic.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use etcd_client::{BalancedChannelBuilder, Channel, Client, ConnectOptions, Error};
use futures::{future::BoxFuture, stream};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    sync::mpsc,
    task::AbortHandle,
};
use tonic::transport::{Endpoint, Server, channel::Change};
use tower::{BoxError, Service, ServiceExt, service_fn, util::BoxCloneSyncService};
use windlass::store::etcd::Connector;

use crate::{
    etcd::{
        Servers,
        service::{self, Answer, Call},
    },
    locked,
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
        Connector::new(move |endpoint, options: ConnectOptions| {
            let pipes = pipes.clone();
            let wire = Wire { pipes, process };
            async move { Client::connect_with_balanced_channel([endpoint], Some(options), wire).await }
        })
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

/// Makes the channel of one client.
struct Wire {
    pipes: Pipes,
    process: usize,
}

impl BalancedChannelBuilder for Wire {
    type Error = Error;

    fn balanced_channel(
        self,
        buffer: usize,
    ) -> Result<(Channel, mpsc::Sender<Change<Uri, Endpoint>>), Error> {
        let (changes, updates) = mpsc::channel(buffer);
        let line = Line {
            pipes: self.pipes,
            process: self.process,
            used: Arc::new(Mutex::new(Used {
                updates,
                members: Vec::new(),
            })),
        };
        Ok((Channel::Custom(BoxCloneSyncService::new(line)), changes))
    }
}

/// Sends requests to the member that the client uses, by a channel of tonic with the options of the client.
#[derive(Clone)]
struct Line {
    pipes: Pipes,
    process: usize,
    used: Arc<Mutex<Used>>,
}

struct Used {
    updates: mpsc::Receiver<Change<Uri, Endpoint>>,
    members: Vec<(Uri, tonic::transport::Channel)>,
}

impl Line {
    /// Returns the channel to the member that was added last.
    fn channel(&self) -> Option<tonic::transport::Channel> {
        let mut used = locked(&self.used);
        while let Ok(change) = used.updates.try_recv() {
            match change {
                Change::Insert(uri, endpoint) => {
                    used.members.retain(|(other, _)| *other != uri);
                    let channel = self.to(&endpoint);
                    used.members.push((uri, channel));
                }
                Change::Remove(uri) => used.members.retain(|(other, _)| *other != uri),
            }
        }
        used.members.last().map(|(_, channel)| channel.clone())
    }

    /// Makes a channel that opens a pipe when it needs one.
    fn to(&self, endpoint: &Endpoint) -> tonic::transport::Channel {
        let (pipes, process) = (self.pipes.clone(), self.process);
        endpoint.connect_with_connector_lazy(service_fn(move |uri: Uri| {
            let pipes = pipes.clone();
            async move {
                let number = |host: &str| host.strip_prefix("member-")?.parse().ok();
                let member = uri.host().and_then(number);
                let member = member.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                Ok::<_, io::Error>(TokioIo::new(pipes.open((process, member))))
            }
        }))
    }
}

impl Service<Call> for Line {
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let channel = self.channel();
        Box::pin(async move {
            let channel = channel.ok_or("no member is in use")?;
            Ok(channel.oneshot(call).await?)
        })
    }
}
