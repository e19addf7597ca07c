//! What a node says in its log while the quota of its servers fills.

use std::time::Duration;

use windlass::{
    clock::SystemClock,
    store::{
        Coordinator, NodeStatus,
        etcd::{EtcdStore, Options},
    },
};

use crate::{
    idle::counters,
    logged::Logged,
    server::Server,
    support::{raw, secs, spec, until},
};

/// How often the server was asked how large it is.
async fn looks(server: &Server) -> u64 {
    let calls = counters(server, "grpc_server_started_total").await;
    calls.get("Status").copied().unwrap_or(0)
}

/// On one thread: what the store does on its own is in this test's log, too.
#[tokio::test]
async fn a_node_reports_once_that_the_quota_fills() {
    let log = Logged::begin();
    let server = Server::start_with("http", &["--quota-backend-bytes=4194304".to_owned()]);
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.look_every = Duration::ZERO;
    let store = EtcdStore::connect(options, SystemClock::shared()).await;
    let store = store.unwrap();
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    let renew = async || store.renew(&lease, &NodeStatus::default()).await.unwrap();
    let looked_often = async || {
        let before = looks(&server).await;
        until("it looked again and again", async || {
            renew().await;
            looks(&server).await >= before + 5
        })
        .await;
    };
    let said = || log.lines_with("the quota of etcd fills").len();
    looked_often().await;
    assert_eq!(said(), 0, "there is room");

    let mut etcd = raw(&server.endpoint()).await;
    let value = vec![b'x'; 100_000];
    until("it is said", async || {
        if said() == 0 {
            let _ = etcd.put("/other/large", value.clone(), None).await;
        }
        renew().await;
        said() > 0
    })
    .await;
    assert_eq!(log.lines_with("of the quota of 4.0 MiB").len(), 1);
    looked_often().await;
    assert_eq!(said(), 1, "it is said once");
}
