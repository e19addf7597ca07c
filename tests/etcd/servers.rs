//! Unsuitable servers, and their errors; names that are in use; clocks that jump.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::SignedDuration;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpSocket, TcpStream},
};
use windlass::{
    Client, NewTask, Runner, StateKind,
    clock::{Clock, SystemClock},
    runner::StartError,
    store::{
        Error, Store,
        etcd::{EtcdStore, Options},
    },
};

use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{obeys, open, raw, secs, steps, until},
};

async fn refused(options: Options) -> Error {
    let clock = SystemClock::shared();
    match EtcdStore::connect(options, clock).await {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_old_is_reported() {
    let server = Server::start();
    let version = raw(&server.endpoint()).await.status().await.unwrap();
    let version = version.version().to_owned();
    let old = format!("3.3{}", &version[3..]);
    let instead = Some((version.into_bytes(), old.clone().into_bytes()));
    let proxy = Proxy::telling(&[server.endpoint()], instead).await.unwrap();
    let error = refused(Options::parse(&proxy.url("ns")).unwrap()).await;
    assert!(!error.is_retryable(), "{error}");
    let said = error.to_string();
    assert!(said.contains(&format!("etcd {old} is too old")), "{said}");
    assert!(said.contains("3.4 or newer"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_has_no_address_is_unavailable() {
    // Longer than a label of a name may be: no resolver is asked, and none knows it.
    let name = "x".repeat(64);
    let options = Options::parse(&format!("etcd://{name}.invalid:2379/ns")).unwrap();
    let error = refused(options).await;
    assert!(error.is_retryable(), "{error}");
    assert!(
        error.to_string().contains("dns") || error.to_string().contains("answer"),
        "{error}"
    );
}

/// Any member that answers will do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_not_there_are_passed_over() {
    let server = Server::start();
    // A socket that is bound and does not listen keeps the port, and refuses connections.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let unused = bound.local_addr().unwrap();
    // Whichever of them is tried first.
    for _ in 0..6 {
        let url = format!("etcd://{unused},{},{unused}/ns", server.endpoint());
        let (_, client) = open(&url).await;
        let id = client.submit(NewTask::new("k")).await.unwrap();
        client.force_delete(&id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_quorum_is_unavailable() {
    let server = Server::start_alone_of_three();
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.timeout = secs(2);
    let error = refused(options).await;
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("quorum"), "{error}");
}

/// Resets connections that begin with a TLS hello before an answer, and passes the others: like a
/// server without TLS that closes quickly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_resets_a_tls_hello_is_reported_as_without_tls() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = listener.local_addr().unwrap();
    let behind = server.endpoint();
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            let behind = behind.clone();
            tokio::spawn(async move {
                let mut first = [0];
                if inside.peek(&mut first).await.is_ok_and(|n| n == 1) && first == [0x16] {
                    // Unread bytes, or this setting, turn the close into a reset.
                    inside.set_zero_linger().unwrap();
                    return;
                }
                let Ok(mut outside) = TcpStream::connect(behind).await else {
                    return;
                };
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            });
        }
    });
    // Checks that the front resets TLS connections.
    let mut hello = TcpStream::connect(front).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut hello, &[0x16, 3, 1])
        .await
        .unwrap();
    let reset = hello.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);

    let error = refused(Options::parse(&format!("etcds://{front}/ns")).unwrap()).await;
    assert!(error.to_string().contains("use etcd:// instead"), "{error}");
    let (_, client) = open(&format!("etcd://{front}/ns")).await;
    client.submit(NewTask::new("k")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_refused_until_its_node_is_gone() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    let (other, _) = open(&server.url("ns")).await;
    let node = Runner::builder(&store).node("n").handler("k", obeys);
    let node = node.start().await.unwrap();
    let again = || Runner::builder(&other).node("n").handler("k", obeys);
    let error = again().start().await.unwrap_err();
    assert!(matches!(error, StartError::NameTaken(_)), "{error}");
    let id = client.submit(NewTask::new("k")).await.unwrap();
    until("the first goes on", async || {
        client.get(&id).await.unwrap().node.is_some()
    })
    .await;
    node.shutdown().await;
    again().start().await.unwrap().shutdown().await;
}

/// Runs as the real clock, some hours off.
#[derive(Debug, Default)]
struct Jumping(AtomicI64);

impl Clock for Jumping {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now() + SignedDuration::from_hours(self.0.load(Ordering::Relaxed))
    }
}

/// The wall clock is for what people see and for wake-ups; leases have the monotonic one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_costs_no_lease() {
    let server = Server::start();
    let clock = Arc::new(Jumping::default());
    let store = Store::open_with_clock(&server.url("ns"), clock.clone())
        .await
        .unwrap();
    let client = Client::new(&store);
    let node = Runner::builder(&store).node("n").lease_ttl(secs(5));
    let node = node.handler("steps", steps).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let task = NewTask::new("steps").props(&120);
        ids.push(client.submit(task).await.unwrap());
    }
    until("all run", async || {
        node.snapshot()
            .await
            .is_some_and(|now| now.tasks.len() == 3)
    })
    .await;
    let lease = client.nodes().await.unwrap()[0].lease;
    for hours in [24, -24, 0] {
        clock.0.store(hours, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let running = node.snapshot().await.unwrap().tasks.len();
    assert_eq!(running, 3, "the tasks still run after the jumps");
    for id in &ids {
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.code(), StateKind::Completed);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
    assert_eq!(client.nodes().await.unwrap()[0].lease, lease);
    node.shutdown().await;
}
