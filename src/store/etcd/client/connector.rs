//! [`Connector`]: what opens the connection to a member. A simulation gives one that leads into its own network.

use std::{fmt, sync::Arc};

use etcd_client::{Client, ConnectOptions, Error};
use futures::future::BoxFuture;

type Connect =
    dyn Fn(String, ConnectOptions) -> BoxFuture<'static, Result<Client, Error>> + Send + Sync;

/// Opens the connections of a store.
#[derive(Clone, Default)]
#[cfg_attr(
    not(feature = "simulation"),
    allow(unreachable_pub, reason = "only simulations name it")
)]
pub struct Connector(Option<Arc<Connect>>);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector")
            .field(&self.is_network())
            .finish()
    }
}

impl Connector {
    /// Returns a connector that calls `connect` with the endpoint and the options of the connection.
    #[cfg(feature = "simulation")]
    pub fn new<F>(connect: impl Fn(String, ConnectOptions) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        Self(Some(Arc::new(move |endpoint, options| {
            Box::pin(connect(endpoint, options))
        })))
    }

    /// Returns whether it connects through the network of the machine.
    pub(crate) fn is_network(&self) -> bool {
        self.0.is_none()
    }

    /// Connects to the member at this endpoint.
    pub(crate) async fn connect(
        &self,
        endpoint: &str,
        options: ConnectOptions,
    ) -> Result<Client, Error> {
        match &self.0 {
            Some(connect) => connect(endpoint.to_owned(), options).await,
            None => Client::connect([endpoint], Some(options)).await,
        }
    }
}
