//! TLS: the certificate is shown, and read again when it changes.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};
use windlass_server::{Listen, Server, TlsFiles};

use crate::{kit::Kit, listening::exchange};

fn write_certificate(folder: &Path) -> TlsFiles {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: folder.join("cert.pem"),
        key: folder.join("key.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    files
}

/// A client that trusts one certificate.
fn client(files: &TlsFiles) -> TlsConnector {
    let mut trusted = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    trusted.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn an_address_with_tls_shows_its_certificate_and_takes_no_plain_text() {
    let kit = Kit::new().await;
    let dir = tempfile::tempdir().unwrap();
    let files = write_certificate(dir.path());
    let server = Server::builder(&kit.store).tls(files.clone()).build();
    let listens = [Listen::Tls("127.0.0.1:0".parse().unwrap())];
    let serving = server.listen(listens).await.unwrap();
    assert!(serving.urls()[0].starts_with("https://127.0.0.1:"));
    let address = serving.addresses()[0];
    let get = format!(
        "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        kit.admin
    );
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = client(&files).connect(name.clone(), stream).await.unwrap();
    let read = exchange(stream, get.as_bytes()).await;
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    let plain = TcpStream::connect(address).await.unwrap();
    let refused = exchange(plain, get.as_bytes()).await;
    assert!(!refused.contains("HTTP/"), "{refused}");
    // A session is opened by any name here, with a cookie that is sent encrypted only.
    let body = format!("token={}", kit.admin);
    let post = format!(
        "POST /session HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = client(&files).connect(name, stream).await.unwrap();
    let opened = exchange(stream, post.as_bytes()).await;
    assert!(opened.starts_with("HTTP/1.1 303"), "{opened}");
    assert!(opened.contains("; SameSite=Lax; Secure"), "{opened}");
    serving.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn files_that_are_no_certificate_with_its_key_are_refused() {
    let kit = Kit::new().await;
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (write_certificate(one.path()), write_certificate(two.path()));
    let empty = one.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (certificate, key, says) in [
        (&first.certificate, &second.key, "do not fit together"),
        (&first.key, &first.key, "has no PEM block CERTIFICATE"),
        (&empty, &first.key, "has no PEM block CERTIFICATE"),
        (&first.certificate, &first.certificate, "has no private key"),
        (&one.path().join("none"), &first.key, "has no certificate"),
        (&one.path().to_path_buf(), &first.key, "is no file"),
    ] {
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let server = Server::builder(&kit.store).tls(files).build();
        let refused = server
            .listen([Listen::Tls("127.0.0.1:0".parse().unwrap())])
            .await;
        let text = refused.expect_err("a refusal").to_string();
        assert!(text.contains(says), "{text}");
    }
    let bare = Server::builder(&kit.store).build();
    let refused = bare
        .listen([Listen::Tls("127.0.0.1:0".parse().unwrap())])
        .await;
    let text = refused.expect_err("a refusal").to_string();
    assert!(text.contains("give a certificate with its key"), "{text}");
}
