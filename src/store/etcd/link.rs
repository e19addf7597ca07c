//! The connection: every call with a time limit, and large answers allowed.

use std::{future::Future, time::Duration};

use etcd_client::{
    Certificate, Client, ConnectOptions, Identity, KvClient, LeaseClient, TlsOptions, Txn,
    TxnResponse, WatchClient,
};
use tokio::time::timeout;

use super::{Options, errors::Fault};
use crate::store::Error;

/// One revision is one message, and one page is too: the default of 4 MiB is soon passed.
const MAX_MESSAGE: usize = 1 << 30;

/// The clients of one connection. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Link {
    client: Client,
    timeout: Duration,
}

impl Link {
    /// Connects and looks whether an etcd answers.
    pub(super) async fn connect(options: &Options) -> Result<Self, Error> {
        const OPERATION: &str = "connect to etcd";
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(options.timeout.min(Duration::from_secs(3)))
            // Servers refuse pings that come more often than every 5 s.
            .with_keep_alive(Duration::from_secs(6), Duration::from_secs(4))
            .with_keep_alive_while_idle(false)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &options.user {
            connect = connect.with_user(name, password);
        }
        if options.is_tls() {
            let mut tls = match &options.ca {
                Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca)),
                None => TlsOptions::new().with_native_roots(),
            };
            if let Some((cert, key)) = &options.identity {
                tls = tls.identity(Identity::from_pem(cert, key));
            }
            if let Some(domain) = &options.domain {
                tls = tls.domain_name(domain);
            }
            connect = connect.with_tls(tls);
        } else if options.ca.is_some() || options.identity.is_some() {
            return Err(Error::Unusable(
                "certificates are given, but the store's URL is without TLS: use etcds://".into(),
            ));
        }
        let opened = timeout(
            options.timeout,
            Client::connect(&options.endpoints, Some(connect)),
        );
        let client = match opened.await {
            Ok(Ok(client)) => client,
            Ok(Err(e)) => return Err(Fault::from(e).into_error(OPERATION)),
            Err(_) => return Err(Error::unavailable(OPERATION, no_answer(options.timeout))),
        };
        let timeout = options.timeout;
        Ok(Self { client, timeout })
    }

    pub(super) fn kv(&self) -> KvClient {
        let kv = self.client.kv_client();
        kv.max_decoding_message_size(MAX_MESSAGE)
    }

    pub(super) fn watcher(&self) -> WatchClient {
        let watch = self.client.watch_client();
        watch.max_decoding_message_size(MAX_MESSAGE)
    }

    pub(super) fn leases(&self) -> LeaseClient {
        self.client.lease_client()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits for an answer, but not for ever.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, Fault> {
        match timeout(self.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) => Err(e.into()),
            Err(_) => Err(Fault::Unknown(no_answer(self.timeout))),
        }
    }

    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Fault> {
        let mut kv = self.kv();
        self.call(kv.txn(txn)).await
    }
}

fn no_answer(timeout: Duration) -> String {
    format!("no answer within {timeout:?}; look whether etcd runs there and has a quorum")
}
