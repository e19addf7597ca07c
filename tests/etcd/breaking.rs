//! Writes through a connection that breaks all the time, and loses answers: each happens once.
//!
//! Not for etcd 3.5.0 to 3.5.4: a member of these panics when a client goes away while a transaction of reads is
//! under way ([etcd issue 14110](https://github.com/etcd-io/etcd/issues/14110)), which these tests bring about.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;
use windlass::store::{Done, Error, Registry, Submitted, Transaction};
use windlass_etcd_cluster::Proxy;

use crate::{
    server::Server,
    support::{DEADLINE, connect, in_time, task},
    transactions::{apply, id, ids, send},
};

/// Breaks the connections of a proxy again and again, until it is dropped.
///
/// A connection lives for 60 ms at first. It lives longer while no work is done, so that a slow disk
/// delays a test and does not stop it.
struct Breaking {
    proxy: Arc<Proxy>,
    done: Arc<AtomicU64>,
    breaking: JoinHandle<()>,
}

impl Breaking {
    const SHORTEST: Duration = Duration::from_millis(60);

    fn start(proxy: &Arc<Proxy>) -> Self {
        let done = Arc::new(AtomicU64::new(0));
        let (breaks, counted) = (proxy.clone(), done.clone());
        let breaking = tokio::spawn(async move {
            let (mut lives, mut before) = (Self::SHORTEST, 0);
            loop {
                tokio::time::sleep(lives).await;
                breaks.cut();
                tokio::time::sleep(Duration::from_millis(15)).await;
                breaks.mend();
                let now = counted.load(Ordering::Relaxed);
                lives = if now == before {
                    lives * 3 / 2
                } else {
                    Self::SHORTEST.max(lives * 4 / 5)
                };
                before = now;
            }
        });
        Self {
            proxy: proxy.clone(),
            done,
            breaking,
        }
    }

    /// A piece of work is done.
    fn progress(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Breaking {
    fn drop(&mut self) {
        self.breaking.abort();
        self.proxy.mend();
    }
}

/// Judges the failures of one write that is tried again: it must succeed in time, and the server must live.
struct Tries {
    began: Instant,
}

impl Tries {
    fn begin() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    fn failed(&self, error: &Error, server: &mut Server) {
        assert!(error.is_retryable(), "{error}");
        if let Some(end) = server.ended() {
            panic!("the server has ended, so no write succeeds: {end}");
        }
        assert!(
            self.began.elapsed() < DEADLINE,
            "not written within {DEADLINE:?}: {error}"
        );
    }
}

/// The connection breaks all the time, and answers are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_through_a_connection_that_breaks_happen_once() {
    let mut server = Server::start();
    let proxy = Arc::new(Proxy::to(&[server.endpoint()]).await.unwrap());
    let store = connect(&proxy.url("ns")).await;
    store.submit(vec![task("counted")]).await.remove(0).unwrap();
    let breaking = Breaking::start(&proxy);
    for n in 0..60 {
        let transaction = Transaction::new()
            .submit(task(&format!("t{n:03}")))
            .send(send("counted", &format!("c{n:03}")));
        if n % 10 == 0 {
            proxy.lose_answer_to(format!("/ns/tasks/t{n:03}").as_bytes());
        }
        let tries = Tries::begin();
        loop {
            match in_time("a transaction ends", apply(&store, transaction.clone())).await {
                Ok(done) => {
                    assert_eq!(done[0], Done::Submitted(Submitted::New));
                    break;
                }
                Err(e) => tries.failed(&e, &mut server),
            }
        }
        breaking.progress();
    }
    assert_eq!(proxy.lost_answers(), 6);
    drop(breaking);
    let near = connect(&server.url("ns")).await;
    assert_eq!(ids(&near).await.len(), 61);
    assert_eq!(near.commands(&id("counted")).await.unwrap().len(), 60);
}

/// A write whose answer is lost is repeated and happens once. The answer to every tenth write is
/// lost, and the connections break all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_through_a_connection_that_breaks_happen_once() {
    let mut server = Server::start();
    let proxy = Arc::new(Proxy::to(&[server.endpoint()]).await.unwrap());
    let store = connect(&proxy.url("ns")).await;
    let breaking = Breaking::start(&proxy);
    for n in 0..150 {
        let name = format!("t{n:03}");
        if n % 10 == 0 {
            proxy.lose_answer_to(format!("/ns/tasks/{name}").as_bytes());
        }
        let (tries, mut gave_up) = (Tries::begin(), false);
        loop {
            let submitted = in_time("a submit ends", store.submit(vec![task(&name)]));
            match submitted.await.remove(0) {
                Ok(_) => break,
                // The previous call gave up, but its write was done.
                Err(Error::AlreadyExists { .. }) if gave_up => break,
                Err(e) => {
                    tries.failed(&e, &mut server);
                    gave_up = true;
                }
            }
        }
        breaking.progress();
    }
    assert_eq!(proxy.lost_answers(), 15);
    drop(breaking);
    let near = connect(&server.url("ns")).await;
    let counts = near.counts().await.unwrap();
    assert_eq!(counts[0].tasks, 150);
    for n in 0..150 {
        let id = format!("t{n:03}").parse().unwrap();
        assert_eq!(near.history(&id, 10).await.unwrap().len(), 1);
    }
}
