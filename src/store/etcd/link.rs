//! The connection: every call with a time limit, and large answers allowed.

use std::{future::Future, time::Duration};

use etcd_client::{
    Certificate, Client, ConnectOptions, Identity, KvClient, LeaseClient, TlsOptions, Txn,
    TxnResponse, WatchClient,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    Options,
    errors::{Fault, WITHOUT_TLS},
};
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
    pub(super) async fn connect(options: &Options) -> Result<Self, Fault> {
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
            let text = "certificates are given, but the store's URL is without TLS: use etcds://";
            return Err(Fault::Refused(Error::Unusable(text.into())));
        }
        let opened = timeout(
            options.timeout,
            Client::connect(&options.endpoints, Some(connect)),
        );
        let client = match opened.await {
            Ok(Ok(client)) => client,
            Ok(Err(e)) => return Err(e.into()),
            Err(_) => return Err(Fault::Unknown(no_answer(options.timeout))),
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

/// What is said when a server closes connections.
const WANTS_CERTIFICATE: &str = "the server closes the connection: if it asks for client certificates, give one (WINDLASS_ETCD_CERT, WINDLASS_ETCD_KEY)";
const NO_ETCD: &str = "what answers there is no etcd, or speaks TLS: look at host and port, or use etcds:// in the place of etcd://";

/// Why a server that can be reached gave no answer that makes sense; `None` when that is not known.
pub(super) async fn diagnose(options: &Options, reason: &str) -> Option<&'static str> {
    let reason = reason.to_lowercase();
    let closed = ["broken pipe", "connection closed", "connection reset"];
    if !closed.iter().any(|part| reason.contains(part)) {
        return None;
    }
    let speaks_plainly = speaks_plainly(options).await;
    if options.is_tls() {
        // Whether its answer to our hello or its closing comes first is up to the network.
        return match speaks_plainly {
            Some(true) => Some(WITHOUT_TLS),
            _ => options.identity.is_none().then_some(WANTS_CERTIFICATE),
        };
    }
    (speaks_plainly == Some(false)).then_some(NO_ETCD)
}

/// Whether the first server that answers at all speaks HTTP/2 without TLS.
async fn speaks_plainly(options: &Options) -> Option<bool> {
    for endpoint in &options.endpoints {
        let address = endpoint
            .trim_start_matches("http://")
            .trim_start_matches("https://");
        let answered = timeout(Duration::from_secs(1), first_bytes(address)).await;
        if let Ok(Ok(bytes)) = answered {
            // A frame of settings is what HTTP/2 begins with; an alert or a text is not.
            return Some(bytes.len() >= 4 && bytes[3] == 4);
        }
    }
    None
}

/// What a server answers to the beginning of HTTP/2.
async fn first_bytes(address: &str) -> std::io::Result<Vec<u8>> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(PREFACE).await?;
    let mut bytes = vec![0; 9];
    let count = stream.read(&mut bytes).await?;
    bytes.truncate(count);
    Ok(bytes)
}

fn no_answer(timeout: Duration) -> String {
    format!("no answer within {timeout:?}; look whether etcd runs there and has a quorum")
}
