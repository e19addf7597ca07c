//! Diagnoses servers that are not etcd, or that reject the connection.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{fault::WITHOUT_TLS, options::Options};

/// The advice when a server closes connections.
const WANTS_CERTIFICATE: &str = "the server closes the connection: if it asks for client certificates, give one (WINDLASS_ETCD_CERT, WINDLASS_ETCD_KEY)";
const NO_ETCD: &str = "the server there is not an etcd, or speaks TLS: check host and port, or use etcds:// instead of etcd://";

/// Returns the advice for a server that closes connections; `None` when the cause is unknown.
pub(crate) async fn diagnose(options: &Options, reason: &str) -> Option<&'static str> {
    let reason = reason.to_lowercase();
    let closed = ["broken pipe", "connection closed", "connection reset"];
    if !closed.iter().any(|part| reason.contains(part)) {
        return None;
    }
    let speaks_plainly = speaks_plainly(options).await;
    if options.is_tls() {
        // The answer to the hello and the end of the connection may arrive in either order.
        return match speaks_plainly {
            Some(true) => Some(WITHOUT_TLS),
            _ => options.identity.is_none().then_some(WANTS_CERTIFICATE),
        };
    }
    (speaks_plainly == Some(false)).then_some(NO_ETCD)
}

/// Returns the reason of a refused connection, instead of the texts of each layer.
pub(crate) fn refused(reason: &str) -> Option<&'static str> {
    reason.contains("Connection refused").then_some(
        "Connection refused: no server listens there; start etcd, or check host and port",
    )
}

/// Returns whether the first server that answers speaks HTTP/2 without TLS.
async fn speaks_plainly(options: &Options) -> Option<bool> {
    for endpoint in &options.endpoints {
        let address = endpoint
            .trim_start_matches("http://")
            .trim_start_matches("https://");
        let bytes = first_bytes(address, PREFACE).await;
        if !bytes.is_empty() {
            // HTTP/2 begins with a frame of settings; an alert or a text does not.
            return Some(bytes.len() >= 4 && bytes[3] == 4);
        }
        // The connection was closed without an answer. A server that expects TLS answers a broken
        // hello with an alert; a proxy in between may not.
        if !first_bytes(address, BROKEN_HELLO).await.is_empty() {
            return Some(false);
        }
    }
    None
}

/// The beginning of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A hello of TLS that every server rejects.
const BROKEN_HELLO: &[u8] = b"\x16\x03\x01\0\x05\x01\0\0\x01\0";

/// Returns the first bytes of the answer; empty if there is no answer.
async fn first_bytes(address: &str, to: &[u8]) -> Vec<u8> {
    let asked = timeout(Duration::from_secs(1), ask(address, to)).await;
    asked.ok().and_then(Result::ok).unwrap_or_default()
}

async fn ask(address: &str, text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(text).await?;
    let mut bytes = vec![0; 9];
    let count = stream.read(&mut bytes).await?;
    bytes.truncate(count);
    Ok(bytes)
}
