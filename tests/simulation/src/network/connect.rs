//! How a process connects to a member: a channel of `etcd-client` whose requests the network carries.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use etcd_client::{BalancedChannelBuilder, Channel, Client, ConnectOptions, Error};
use futures::future::BoxFuture;
use http::Uri;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::{Endpoint, channel::Change};
use tower::{BoxError, Service, util::BoxCloneSyncService};
use windlass::store::etcd::Connector;

use super::{Carried, Network};
use crate::{
    etcd::service::{Answer, Call},
    locked,
};

type Updates = mpsc::Receiver<Change<Uri, Endpoint>>;

impl Network {
    /// Returns what opens the connections of a process.
    pub fn connector(&self, process: usize) -> Connector {
        let network = self.clone();
        Connector::new(move |endpoint, options: ConnectOptions| {
            let wire = Wire {
                network: network.clone(),
                process,
            };
            async move { Client::connect_with_balanced_channel([endpoint], Some(options), wire).await }
        })
    }

    /// Returns the endpoint of a member, as options name it.
    pub fn endpoint(member: usize) -> String {
        format!("http://member-{member}:2379")
    }
}

/// Makes the channel of one client.
struct Wire {
    network: Network,
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
            network: self.network,
            process: self.process,
            used: Arc::new(Mutex::new(Used {
                updates,
                members: Vec::new(),
            })),
        };
        Ok((Channel::Custom(BoxCloneSyncService::new(line)), changes))
    }
}

/// Sends requests to the member that the client uses.
#[derive(Clone)]
struct Line {
    network: Network,
    process: usize,
    used: Arc<Mutex<Used>>,
}

struct Used {
    updates: Updates,
    members: Vec<usize>,
}

impl Used {
    /// Returns the member that was added last.
    fn member(&mut self) -> Option<usize> {
        let number = |uri: &Uri| uri.host()?.strip_prefix("member-")?.parse().ok();
        while let Ok(change) = self.updates.try_recv() {
            match change {
                Change::Insert(uri, _) => self.members.extend(number(&uri)),
                Change::Remove(uri) => self.members.retain(|of| Some(*of) != number(&uri)),
            }
        }
        self.members.last().copied()
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
        let member = locked(&self.used).member();
        let (network, process) = (self.network.clone(), self.process);
        Box::pin(async move {
            let member = member.ok_or("no member is in use")?;
            let (answer, answered) = oneshot::channel();
            let carried = Carried {
                ends: (process, member),
                call,
                answer,
            };
            if network.0.carrier.send(carried).is_err() {
                return Err("the network has ended".into());
            }
            Ok(answered.await?)
        })
    }
}
