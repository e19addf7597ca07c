//! The files of an open store are moved or deleted: nothing more is acknowledged, and a node stops.
#![cfg(unix)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use windlass::{
    BoxError, Client, Message, NewTask, Runner, TaskContext,
    clock::SystemClock,
    store::{
        Coordinator, Error, Event, NodeStatus, Registry, StateStore, Store,
        sqlite::{Options, SqliteStates, SqliteStore},
    },
};

use super::support::*;

const LONG: Duration = Duration::from_secs(20);

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn is_gone<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(error @ Error::StoreGone { .. }) => {
            assert!(!error.is_retryable());
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

/// A way to remove the files, and to put them back.
struct Away {
    name: &'static str,
    go: fn(&Path),
    back: fn(&Path),
}

fn moved(path: &Path) -> PathBuf {
    beside(path, ".moved")
}

const AWAYS: [Away; 6] = [
    Away {
        name: "moved",
        go: |path| fs::rename(path, moved(path)).unwrap(),
        back: |path| fs::rename(moved(path), path).unwrap(),
    },
    Away {
        name: "deleted",
        go: |path| {
            fs::hard_link(path, moved(path)).unwrap();
            fs::remove_file(path).unwrap();
        },
        back: |path| fs::rename(moved(path), path).unwrap(),
    },
    Away {
        name: "replaced",
        go: |path| {
            fs::rename(path, moved(path)).unwrap();
            fs::copy(moved(path), path).unwrap();
        },
        back: |path| fs::rename(moved(path), path).unwrap(),
    },
    // Another program would follow the link, and use the logs next to its target.
    Away {
        name: "replaced by a link to it",
        go: |path| {
            let link = beside(path, ".link");
            fs::hard_link(path, moved(path)).unwrap();
            std::os::unix::fs::symlink(moved(path), &link).unwrap();
            fs::rename(link, path).unwrap();
        },
        back: |path| fs::rename(moved(path), path).unwrap(),
    },
    Away {
        name: "log deleted",
        go: |path| fs::remove_file(beside(path, "-wal")).unwrap(),
        back: |_| {},
    },
    Away {
        name: "index of the log deleted",
        go: |path| fs::remove_file(beside(path, "-shm")).unwrap(),
        back: |_| {},
    },
];

#[tokio::test]
async fn nothing_is_acknowledged_once_the_files_are_gone() {
    for away in AWAYS {
        let file = file();
        let store = file.open().await;
        let states = SqliteStates::open(file.path(), Options::default())
            .await
            .unwrap();
        let lease = join(&store, "a").await;
        submit(&store, "t").await;
        submit(&store, "u").await;
        let held = claim(&store, &lease, "t").await;

        (away.go)(&file.path());
        let text = is_gone(try_submit(&store, task("late")).await);
        assert!(text.contains("tasks.db"), "{}: {text}", away.name);
        assert!(text.contains("put"), "{}: {text}", away.name);
        is_gone(store.renew(&lease, &NodeStatus::default()).await);
        is_gone(try_claim(&store, &lease, "u").await);
        is_gone(commit(&store, &held, Message::complete()).await);
        is_gone(store.get(&id("t")).await);
        is_gone(store.changes(None).await.map(drop));
        is_gone(store.watch(&lease, None).await.map(drop));
        is_gone(states.load(&[id("t")]).await.remove(0));

        (away.back)(&file.path());
        is_gone(try_submit(&store, task("late")).await);
        drop((store, states));
        let again = file.open().await;
        again.get(&id("t")).await.unwrap();
        again.get(&id("u")).await.unwrap();
        let late = again.get(&id("late")).await;
        assert!(matches!(late, Err(Error::NotFound { .. })), "{late:?}");
    }
}

/// Nobody calls the store in the meantime: the watch and the feed notice on their own.
#[tokio::test]
async fn a_watch_and_a_feed_end_when_the_file_is_gone() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "a").await;
    let mut watch = store.watch(&lease, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    let mut feed = store.changes(None).await.unwrap();

    fs::rename(file.path(), moved(&file.path())).unwrap();
    let next = tokio::time::timeout(LONG, feed.next()).await.unwrap();
    is_gone(next.unwrap());
    assert!(feed.next().await.is_none());
    let ended = tokio::time::timeout(LONG, watch.next()).await.unwrap();
    assert!(ended.is_none(), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_move_is_in_the_moved_files() {
    let file = file();
    let store = Arc::new(file.open().await);
    let writer = store.clone();
    let (written, mut so_far) = tokio::sync::watch::channel(0);
    let acknowledged = tokio::spawn(async move {
        for n in 0..100_000 {
            if try_submit(&writer, task(&format!("t{n}"))).await.is_err() {
                return n;
            }
            written.send_replace(n + 1);
        }
        100_000
    });
    so_far.wait_for(|n| *n >= 20).await.unwrap();
    fs::rename(file.path(), moved(&file.path())).unwrap();
    let count = acknowledged.await.unwrap();
    assert!((20..100_000).contains(&count), "{count}");
    drop(store);
    // The log stays where it was, with all that was acknowledged.
    let log = beside(&file.path(), "-wal");
    fs::rename(log, beside(&moved(&file.path()), "-wal")).unwrap();
    let options = Options::default();
    let store = SqliteStore::open(moved(&file.path()), options, SystemClock::shared());
    let store = store.await.unwrap();
    for n in 0..count {
        store.get(&id(&format!("t{n}"))).await.unwrap();
    }
}

#[tokio::test]
async fn closing_a_store_whose_file_was_replaced_leaves_the_new_one_alone() {
    let file = file();
    let old = file.open().await;
    submit(&old, "old").await;
    let kept = file.folder().join("kept");
    fs::create_dir(&kept).unwrap();
    for ending in ["", "-wal", "-shm"] {
        let name = format!("tasks.db{ending}");
        fs::rename(file.folder().join(&name), kept.join(&name)).unwrap();
    }
    let new = file.open().await;
    submit(&new, "new").await;
    is_gone(try_submit(&old, task("late")).await);
    drop(old);
    assert!(beside(&file.path(), "-wal").exists());
    submit(&new, "newer").await;
    drop(new);
    let new = file.open().await;
    new.get(&id("new")).await.unwrap();
    new.get(&id("newer")).await.unwrap();
    let old = SqliteStore::open(
        kept.join("tasks.db"),
        Options::default(),
        SystemClock::shared(),
    );
    old.await.unwrap().get(&id("old")).await.unwrap();
}

/// Reports that a handler has ended, in whatever way.
struct Ends(tokio::sync::mpsc::UnboundedSender<&'static str>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

/// What happens to the file while a handler runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Happens {
    Moved,
    MovedBeforeASubmit,
    MovedAndBack,
}

/// Runs a node on the file, moves the file while a handler runs, and returns how the node ended.
async fn node_of(file: &File, happens: Happens) -> std::io::Result<Option<&'static str>> {
    let url = format!("sqlite:{}", file.path().display());
    let store = Store::open(&url).await.unwrap();
    let client = Client::new(&store);
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let stopped = started.clone();
    let wait = move |_: TaskContext| {
        let (started, ends) = (started.clone(), Ends(stopped.clone()));
        async move {
            let _ends = ends;
            started.send("started").unwrap();
            std::future::pending::<Result<Message, BoxError>>().await
        }
    };
    // Its lease would be renewed a minute later.
    let node = Runner::builder(&store)
        .lease_ttl(Duration::from_secs(180))
        .handler("k", wait)
        .start()
        .await
        .unwrap();
    client.submit(NewTask::new("k")).await.unwrap();
    assert_eq!(starts.recv().await, Some("started"));
    assert!(node.failure().is_none());

    fs::rename(file.path(), moved(&file.path())).unwrap();
    match happens {
        Happens::Moved => {}
        Happens::MovedBeforeASubmit => {
            is_gone(client.submit(NewTask::new("k")).await);
        }
        Happens::MovedAndBack => fs::rename(moved(&file.path()), file.path()).unwrap(),
    }
    let ended = node.run_until(std::future::pending());
    let ended = tokio::time::timeout(LONG, ended).await.unwrap();
    assert_eq!(starts.recv().await, Some("ended"));
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_file_is_gone_stops_its_handlers_and_says_why() {
    for happens in [Happens::Moved, Happens::MovedBeforeASubmit] {
        let ended = node_of(&file(), happens).await.unwrap_err();
        let cause = ended.get_ref().and_then(|e| e.downcast_ref::<Error>());
        assert!(matches!(cause, Some(Error::StoreGone { .. })), "{ended:?}");
    }
}

/// Tasks that another process submitted by the other name are in another log. A node that stood still in the
/// meantime continued with a log that did not have them.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_file_was_away_and_is_back_ends() {
    let ended = node_of(&file(), Happens::MovedAndBack).await.unwrap_err();
    let cause = ended.get_ref().and_then(|e| e.downcast_ref::<Error>());
    assert!(matches!(cause, Some(Error::StoreGone { .. })), "{ended:?}");
    assert!(
        ended.to_string().contains("another name for a while"),
        "{ended}"
    );
}
