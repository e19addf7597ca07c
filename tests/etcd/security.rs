//! TLS, users and roles, and the errors when something is wrong with them.

use std::path::Path;

use etcd_client::{Permission, PermissionType};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use windlass::{
    Message, NewTask, Runner, StateKind, TaskContext,
    clock::SystemClock,
    store::{
        Error, Store,
        etcd::{EtcdStore, Options},
    },
};

use windlass_etcd_cluster::Proxy;

use crate::{server::Server, support::raw};

/// An authority with certificates for a server and a client, as PEM.
struct Authority {
    ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { ca, issuer }
    }

    fn sign(&self, expired: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        if expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A server with this certificate, which asks clients for one.
fn server(folder: &Path, authority: &Authority, (cert, key): &(String, String)) -> Server {
    let arguments = [
        "--cert-file".to_owned(),
        write(folder, "cert", cert),
        "--key-file".to_owned(),
        write(folder, "key", key),
        "--client-cert-auth".to_owned(),
        "--trusted-ca-file".to_owned(),
        write(folder, "ca", &authority.ca),
    ];
    Server::start_with("https", &arguments)
}

async fn refused(options: Options) -> String {
    let clock = SystemClock::shared();
    match EtcdStore::connect(options, clock).await {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = server(folder.path(), &authority, &authority.sign(false));
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.ca = Some(authority.ca.clone().into());
    let (cert, key) = authority.sign(false);
    options.identity = Some((cert.into(), key.into()));

    let clock = SystemClock::shared();
    let store = EtcdStore::connect(options.clone(), clock.clone())
        .await
        .unwrap();
    let store = std::sync::Arc::new(store);
    let store = Store::from_parts(store.clone(), store, clock);
    let client = windlass::Client::new(&store);
    let handler = |_: TaskContext| async { Message::complete() };
    let node = Runner::builder(&store).node("n").handler("k", handler);
    let node = node.start().await.unwrap();
    let id = client.submit(NewTask::new("k")).await.unwrap();
    assert_eq!(client.wait(&id).await.unwrap().code(), StateKind::Completed);
    node.shutdown().await;

    let mut wrong_ca = options.clone();
    wrong_ca.ca = Some(Authority::new().ca.into());
    let said = refused(wrong_ca).await;
    assert!(said.contains("give its CA"), "{said}");

    let mut nobody = options.clone();
    nobody.identity = None;
    let said = refused(nobody).await;
    assert!(said.contains("client certificate"), "{said}");

    let plain = server.url("ns").replace("etcds://", "etcd://");
    let said = refused(Options::parse(&plain).unwrap()).await;
    assert!(said.contains("etcds://"), "{said}");

    let mut plain = Options::parse(&plain).unwrap();
    plain.ca = options.ca.clone();
    let said = refused(plain).await;
    assert!(said.contains("use etcds://"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = server(folder.path(), &authority, &authority.sign(true));
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.ca = Some(authority.ca.clone().into());
    let said = refused(options).await;
    assert!(said.contains("has expired"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_reported() {
    let server = Server::start();
    let url = server.url("ns").replace("etcd://", "etcds://");
    let said = refused(Options::parse(&url).unwrap()).await;
    assert!(said.contains("use etcd://"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_allows_the_namespace_is_enough() {
    let server = Server::start();
    let mut root = raw(&server.endpoint()).await;
    root.user_add("root", "r", None).await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    root.role_add("windlass").await.unwrap();
    let all = Permission::new(PermissionType::Readwrite, "/ns/").with_prefix();
    root.role_grant_permission("windlass", all).await.unwrap();
    root.user_add("w", "secret", None).await.unwrap();
    root.user_grant_role("w", "windlass").await.unwrap();
    root.user_add("nobody", "secret", None).await.unwrap();
    root.auth_enable().await.unwrap();

    let as_user = |namespace: &str, name: &str, password: &str| {
        let mut options = Options::parse(&server.url(namespace)).unwrap();
        options.user = Some((name.to_owned(), password.to_owned()));
        options
    };
    let clock = SystemClock::shared();
    let store = EtcdStore::connect(as_user("ns", "w", "secret"), clock.clone()).await;
    let store = std::sync::Arc::new(store.unwrap());
    let store = Store::from_parts(store.clone(), store, clock);
    let client = windlass::Client::new(&store);
    let handler = |_: TaskContext| async { Message::complete() };
    let node = Runner::builder(&store).node("n").handler("k", handler);
    let node = node.start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(client.submit(NewTask::new("k")).await.unwrap());
    }
    for id in &ids {
        assert_eq!(client.wait(id).await.unwrap().code(), StateKind::Completed);
    }
    assert_eq!(client.nodes().await.unwrap().len(), 1);
    node.shutdown().await;

    for (options, says) in [
        (as_user("ns", "w", "wrong"), "WINDLASS_ETCD_PASSWORD"),
        (as_user("other", "w", "secret"), "needs a role"),
        (as_user("ns", "nobody", "secret"), "needs a role"),
        (
            Options::parse(&server.url("ns")).unwrap(),
            "WINDLASS_ETCD_USER",
        ),
    ] {
        let said = refused(options).await;
        assert!(said.contains(says), "{says}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_where_there_are_none_is_reported() {
    let server = Server::start();
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.user = Some(("w".into(), "secret".into()));
    let said = refused(options).await;
    assert!(said.contains("leave user and password out"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_no_etcd_is_reported() {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let url = format!("etcd://{address}/ns");
    let said = refused(Options::parse(&url).unwrap()).await;
    assert!(said.contains("is not an etcd"), "{said}");
}

/// It may be a balancer before members that are all away for a moment: trying again may help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_closed_without_a_word_is_unavailable() {
    let server = Server::start();
    let proxy = Proxy::to(&[server.endpoint()]).await.unwrap();
    proxy.cut();
    let error = Store::open(&proxy.url("ns")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://{}/ns", listener.local_addr().unwrap());
    drop(listener);
    let error = Store::open(&url).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(matches!(error, Error::Unavailable { .. }));
}
