//! How a process connects to a member: a channel of `etcd-client` whose requests the network carries.

use tokio::sync::oneshot;
use tower::{BoxError, service_fn};
use windlass::store::etcd::Connector;

use super::{Carried, Network};
use crate::{
    etcd::service::Call,
    wire::{self, Way},
};

impl Network {
    /// Returns what opens the connections of a process.
    pub fn connector(&self, process: usize) -> Connector {
        let network = self.clone();
        wire::connector(move |member, _| network.way((process, member)))
    }

    /// Returns the endpoint of a member, as options name it.
    pub fn endpoint(member: usize) -> String {
        wire::endpoint(member)
    }

    fn way(&self, ends: (usize, usize)) -> Way {
        let network = self.clone();
        Way::new(service_fn(move |call: Call| {
            let (answer, answered) = oneshot::channel();
            let carried = Carried { ends, call, answer };
            let sent = network.0.carrier.send(carried);
            async move {
                sent.map_err(|_| "the network has ended")?;
                Ok::<_, BoxError>(answered.await?)
            }
        }))
    }
}
