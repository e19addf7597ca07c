//! [`connector`]: the channel of a client of etcd, whose requests something else carries to the member that the client uses.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use etcd_client::{BalancedChannelBuilder, Channel, Client, ConnectOptions, Error};
use futures::future::BoxFuture;
use http::Uri;
use tokio::sync::mpsc;
use tonic::transport::{Endpoint, channel::Change};
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};
use windlass::store::etcd::Connector;

use crate::{
    etcd::service::{Answer, Call},
    locked,
};

/// Carries requests to one member.
pub(crate) type Way = BoxCloneSyncService<Call, Answer, BoxError>;
type MakeWay = Arc<dyn Fn(usize, &Endpoint) -> Way + Send + Sync>;

/// Returns the endpoint of a member, as options name it.
pub(crate) fn endpoint(member: usize) -> String {
    format!("http://member-{member}:2379")
}

/// Returns what opens connections. `way` is called with the number of each member that a client adds.
pub(crate) fn connector(
    way: impl Fn(usize, &Endpoint) -> Way + Send + Sync + 'static,
) -> Connector {
    let way: MakeWay = Arc::new(way);
    Connector::new(move |endpoint, options: ConnectOptions| {
        let wire = Wire(way.clone());
        async move { Client::connect_with_balanced_channel([endpoint], Some(options), wire).await }
    })
}

/// Makes the channel of one client.
struct Wire(MakeWay);

impl BalancedChannelBuilder for Wire {
    type Error = Error;

    fn balanced_channel(
        self,
        buffer: usize,
    ) -> Result<(Channel, mpsc::Sender<Change<Uri, Endpoint>>), Error> {
        let (changes, updates) = mpsc::channel(buffer);
        let line = Line(Arc::new(Mutex::new(Used {
            way: self.0,
            updates,
            members: Vec::new(),
        })));
        Ok((Channel::Custom(BoxCloneSyncService::new(line)), changes))
    }
}

/// Sends requests to the member that the client uses.
#[derive(Clone)]
struct Line(Arc<Mutex<Used>>);

struct Used {
    way: MakeWay,
    updates: mpsc::Receiver<Change<Uri, Endpoint>>,
    members: Vec<(usize, Way)>,
}

impl Used {
    /// Returns the way to the member that was added last.
    fn last(&mut self) -> Option<Way> {
        let number = |uri: &Uri| uri.host()?.strip_prefix("member-")?.parse().ok();
        while let Ok(change) = self.updates.try_recv() {
            let (Change::Insert(uri, _) | Change::Remove(uri)) = &change;
            let Some(member) = number(uri) else { continue };
            self.members.retain(|(other, _)| *other != member);
            if let Change::Insert(_, endpoint) = change {
                self.members.push((member, (self.way)(member, &endpoint)));
            }
        }
        self.members.last().map(|(_, way)| way.clone())
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
        match locked(&self.0).last() {
            Some(way) => Box::pin(way.oneshot(call)),
            None => Box::pin(async { Err("no member is in use".into()) }),
        }
    }
}
