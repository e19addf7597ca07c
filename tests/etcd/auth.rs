//! Tokens that expire, users and roles that change, and passwords that are wrong for a while, under
//! nodes that run.

use std::time::Duration;

use etcd_client::{Client as Raw, ConnectOptions, Permission, PermissionType};
use tokio::time::timeout;
use windlass::{
    Client, NewTask, Runner, StateKind,
    clock::SystemClock,
    store::{
        Coordinator, Filter, NodeStatus, Page, Store,
        etcd::{EtcdStore, Options},
    },
};

use crate::{
    server::Server,
    support::{DEADLINE, in_time, obeys, raw, secs, spec, steps, until},
};

/// Turns users on: `root`, and `w` who may use the namespace.
async fn with_users(server: &Server) -> Raw {
    in_time("the users are added", add_users(server)).await
}

async fn add_users(server: &Server) -> Raw {
    let mut root = raw(&server.endpoint()).await;
    root.user_add("root", "r", None).await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    root.role_add("windlass").await.unwrap();
    let all = Permission::new(PermissionType::Readwrite, "/ns/").with_prefix();
    root.role_grant_permission("windlass", all).await.unwrap();
    root.user_add("w", "secret", None).await.unwrap();
    root.user_grant_role("w", "windlass").await.unwrap();
    root.auth_enable().await.unwrap();
    as_root(server).await
}

async fn as_root(server: &Server) -> Raw {
    let options = ConnectOptions::new()
        .with_user("root", "r")
        .with_auto_token_refresh(true);
    let endpoint = [format!("http://{}", server.endpoint())];
    Raw::connect(endpoint, Some(options)).await.unwrap()
}

async fn as_worker(server: &Server) -> (Store, Client) {
    as_user(server, "w").await
}

async fn as_user(server: &Server, name: &str) -> (Store, Client) {
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.user = Some((name.to_owned(), "secret".to_owned()));
    let clock = SystemClock::shared();
    let store = EtcdStore::connect(options, clock.clone()).await.unwrap();
    let store = std::sync::Arc::new(store);
    let store = Store::from_parts(store.clone(), store, clock);
    let client = Client::new(&store);
    (store, client)
}

/// A role that may use the namespace is enough for a node that compacts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_role_of_its_namespace_compacts() {
    let server = Server::start();
    let mut root = with_users(&server).await;
    let mut options = Options::parse(&server.url("ns")).unwrap();
    options.user = Some(("w".to_owned(), "secret".to_owned()));
    options.compact_after = Some(Duration::from_millis(600));
    options.look_every = Duration::ZERO;
    let store = EtcdStore::connect(options, SystemClock::shared()).await;
    let store = store.unwrap();
    let lease = store.join(&spec("n"), secs(60)).await.unwrap();
    until("the history is compacted", async || {
        store.renew(&lease, &NodeStatus::default()).await.unwrap();
        let first = etcd_client::GetOptions::new().with_revision(1);
        root.get("/ns/x", Some(first)).await.is_err()
    })
    .await;
}

/// Runs tasks while `disturb` happens: each continues under its one claim, and tasks that are
/// submitted meanwhile and afterwards reach their handlers.
async fn goes_on(server: &mut Server, disturb: impl AsyncFnOnce(&mut Server)) {
    let (store, client) = in_time("the store opens", as_worker(server)).await;
    let node = Runner::builder(&store).node("n").handler("steps", steps);
    let node = node.lease_ttl(secs(30)).start();
    let node = in_time("the node starts", node).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let task = NewTask::new("steps").props(&100);
        ids.push(client.submit(task).await.unwrap());
    }
    until("all run", async || {
        node.snapshot().await.is_some_and(|s| s.tasks.len() == 5)
    })
    .await;
    in_time("the servers are disturbed", disturb(server)).await;
    // A refused call did nothing, and its error says that it may be tried again.
    until("a submit is taken", async || {
        let task = NewTask::new("steps").props(&1);
        match client.submit(task).await {
            Ok(id) => {
                ids.push(id);
                true
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                false
            }
        }
    })
    .await;
    for id in &ids {
        let Ok(done) = timeout(DEADLINE, client.wait(id)).await else {
            let (record, node) = (client.get(id).await, node.snapshot().await);
            panic!("not ended within {DEADLINE:?}: {record:?}; the node: {node:?}");
        };
        let done = done.unwrap();
        assert_eq!(done.code(), StateKind::Completed);
        assert_eq!((done.state.claims, done.state.attempts), (1, 0));
    }
    in_time("the node shuts down", node.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_expires_is_renewed() {
    let ttl = ["--auth-token-ttl".to_owned(), "1".to_owned()];
    let mut server = Server::start_with("http", &ttl);
    with_users(&server).await;
    goes_on(&mut server, async |_| {
        tokio::time::sleep(secs(4)).await;
    })
    .await;
}

/// The watch opens again with a token that the restarted server does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_the_tokens_is_asked_for_new_ones() {
    let mut server = Server::start();
    with_users(&server).await;
    goes_on(&mut server, async |server| server.restart()).await;
}

/// A JSON web token contains the revision of users and roles; the client library renews it when it
/// has expired, but not when it is older than a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_older_than_a_change_of_roles_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "a key that both sides know").unwrap();
    let token = format!("jwt,priv-key={},sign-method=HS256,ttl=10m", key.display());
    let mut server = Server::start_with("http", &["--auth-token".to_owned(), token]);
    with_users(&server).await;
    goes_on(&mut server, async |server| {
        for n in 0..3 {
            let mut root = as_root(server).await;
            root.role_add(format!("another{n}")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_while_its_password_is_rejected() {
    let mut server = Server::start();
    let mut root = with_users(&server).await;
    goes_on(&mut server, async |server| {
        root.user_change_password("w", "another").await.unwrap();
        let (mut refused, mut options) = (0, Options::parse(&server.url("ns")).unwrap());
        options.user = Some(("w".to_owned(), "secret".to_owned()));
        while refused < 3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let connected = EtcdStore::connect(options.clone(), SystemClock::shared()).await;
            refused += u32::from(connected.is_err());
        }
        root.user_change_password("w", "secret").await.unwrap();
    })
    .await;
}

/// The same for a role that is revoked and granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_while_its_role_is_gone() {
    let mut server = Server::start();
    let mut root = with_users(&server).await;
    goes_on(&mut server, async |server| {
        let (_store, same_user) = as_worker(server).await;
        root.user_revoke_role("w", "windlass").await.unwrap();
        until("the user is refused", async || {
            same_user.counts().await.is_err()
        })
        .await;
        // The time for which the role is gone: the node writes every 50 ms.
        tokio::time::sleep(secs(2)).await;
        root.user_grant_role("w", "windlass").await.unwrap();
    })
    .await;
}

/// A list of live tasks does not read what has ended: a user that may not read it gets the list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_what_lives_reads_nothing_that_has_ended() {
    let server = Server::start();
    let mut root = with_users(&server).await;
    root.role_add("live").await.unwrap();
    for (from, to) in [("/ns/", "/ns/finished/"), ("/ns/finished0", "/ns0")] {
        let but_finished = Permission::new(PermissionType::Readwrite, from).with_range_end(to);
        root.role_grant_permission("live", but_finished)
            .await
            .unwrap();
    }
    root.user_add("l", "secret", None).await.unwrap();
    root.user_grant_role("l", "live").await.unwrap();

    let (store, client) = as_worker(&server).await;
    let node = Runner::builder(&store)
        .node("n")
        .handler("steps", steps)
        .handler("obeys", obeys);
    let node = node.start().await.unwrap();
    let ended = NewTask::new("steps").props(&1).id("ended");
    let ended = client.submit(ended).await.unwrap();
    client.wait(&ended).await.unwrap();
    let live = client
        .submit(NewTask::new("obeys").id("live"))
        .await
        .unwrap()
        .into_id();
    until("it runs", async || {
        client.get(&live).await.unwrap().node.is_some()
    })
    .await;

    let (_store, of_live) = as_user(&server, "l").await;
    let names = async |filter: Filter| {
        let page = of_live.list(&filter, Page::default()).await;
        page.map(|page| page.into_iter().map(|r| r.task.id).collect::<Vec<_>>())
    };
    let states = Filter::new().states([StateKind::Runnable, StateKind::Sleeping]);
    let of_node = Filter::new().node("n".parse().unwrap());
    assert_eq!(names(states).await.unwrap(), vec![live.clone()]);
    assert_eq!(names(of_node).await.unwrap(), [live]);
    let all = names(Filter::default()).await;
    assert!(all.is_err(), "what has ended is out of reach: {all:?}");
    node.shutdown().await;
}
