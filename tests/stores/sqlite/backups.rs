//! Backups: a file that is copied while programs use it, and what the copy may do.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use windlass::{
    Message,
    clock::SystemClock,
    store::{
        Claimed, Coordinator, Doctor, Error, Filter, Lease, Page, Registry, Transfer,
        examine::{Examination, Verdict},
        sqlite::{Options, SqliteStore},
    },
};

use super::support::*;

async fn open(path: &Path) -> SqliteStore {
    let opened = SqliteStore::open(path, Options::default(), SystemClock::shared());
    opened.await.unwrap()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

/// Submits, claims and ends a task, and returns its claim.
async fn whole_life(store: &SqliteStore, lease: &Lease, name: &str) -> Claimed {
    submit(store, name).await;
    let claimed = claim(store, lease, name).await;
    commit(store, &claimed, Message::complete()).await.unwrap();
    claimed
}

/// Claims every task that is free, and returns the fences.
async fn claim_all(store: &SqliteStore, lease: &Lease) -> Vec<u64> {
    let all = store.list(&Filter::default(), Page::new(10_000)).await;
    let live = all.unwrap().into_iter().filter(|task| {
        let state = task.state.as_ref();
        state.is_ok_and(|state| !state.code().is_terminal())
    });
    let live: Vec<_> = live.map(|task| task.task.id).collect();
    let claimed = store.claim(lease, live).await.into_iter();
    let claimed = claimed.filter_map(|claimed| claimed.unwrap());
    claimed.map(|claimed| claimed.claim.fence.0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_made_while_tasks_run_is_one_state_and_gives_out_no_fence_again() {
    let file = file();
    let store = file.open().await;
    let lease = join(&store, "node").await;
    submit(&store, "held").await;
    let held = claim(&store, &lease, "held").await;
    for n in 0..200 {
        submit(&store, &format!("free{n}")).await;
    }
    let ended = AtomicUsize::new(0);
    let to = file.folder().join("backup.db");
    let stop = tokio_util::sync::CancellationToken::new();
    let work = async {
        let mut fences = BTreeSet::from([held.claim.fence.0]);
        for n in 0.. {
            let claimed = whole_life(&store, &lease, &format!("work{n}")).await;
            assert!(fences.insert(claimed.claim.fence.0));
            ended.fetch_add(1, Ordering::SeqCst);
            if stop.is_cancelled() {
                break;
            }
        }
        fences
    };
    let back_up = async {
        while ended.load(Ordering::SeqCst) < 20 {
            tokio::task::yield_now().await;
        }
        let before = ended.load(Ordering::SeqCst);
        let backup = store.backup(&to).await.unwrap();
        let after = ended.load(Ordering::SeqCst);
        stop.cancel();
        (before, backup, after)
    };
    let (mut fences, (before, backup, after)) = tokio::join!(work, back_up);

    let found = fs::metadata(&to).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(found.len(), backup.bytes);
    let beside = names(&file.folder());
    let rest = beside.iter().filter(|name| name.starts_with("backup."));
    assert_eq!(rest.collect::<Vec<_>>(), ["backup.db"]);
    let second = file.folder().join("second.db");
    fs::copy(&to, &second).unwrap();

    let restored = open(&to).await;
    // One state: what was acknowledged before is there, and no task is half there.
    let all = restored.list(&Filter::default(), Page::new(10_000)).await;
    let all = all.unwrap();
    let works: Vec<_> = all
        .iter()
        .filter(|task| task.task.id.as_str().starts_with("work"))
        .collect();
    let done = works
        .iter()
        .filter(|task| task.state.as_ref().unwrap().code().is_terminal());
    assert!((before..=after).contains(&done.clone().count()));
    assert!(works.len() - done.count() <= 1);
    let counts = restored.counts().await.unwrap();
    let counted: u64 = counts.iter().map(|count| count.tasks).sum();
    assert_eq!(counted, all.len() as u64);

    // It runs nothing until it is told to.
    let error = try_submit(&restored, task("new")).await.unwrap_err();
    assert!(matches!(error, Error::Copied(_)), "{error}");
    let url = format!("backup of 'sqlite:{}'", file.path().display());
    assert!(error.to_string().contains(&url), "{error}");
    let error = restored.join(&node("node"), Duration::from_secs(9)).await;
    assert!(matches!(error, Err(Error::Copied(_))), "{error:?}");
    assert!(restored.nodes().await.unwrap().is_empty());
    // The owner of before has lost its claim.
    let error = commit(&restored, &held, Message::complete()).await;
    assert!(matches!(error, Err(Error::Fenced(_))), "{error:?}");

    // The store goes on, and so do two copies of the backup, one after the other: no fence comes twice.
    for n in 0..50 {
        let claimed = whole_life(&store, &lease, &format!("later{n}")).await;
        assert!(fences.insert(claimed.claim.fence.0));
    }
    for restored in [restored, open(&second).await] {
        restored.set_copied(None).await.unwrap();
        let lease = join(&restored, "node").await;
        let claimed = claim_all(&restored, &lease).await;
        assert!(claimed.len() >= 201, "{}", claimed.len());
        let greatest = fences.last().copied().unwrap();
        for fence in claimed {
            assert!(fence > greatest, "{fence} is not greater than {greatest}");
            assert!(fences.insert(fence), "{fence} was given out before");
        }
        let record = restored.get(&id("held")).await.unwrap();
        assert!(record.fence.0 > greatest);
        let findings = restored.examine(&Examination::default()).await.unwrap();
        let bad: Vec<_> = findings
            .iter()
            .filter(|one| one.verdict == Verdict::Error)
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
    commit(&store, &held, Message::complete()).await.unwrap();
}

#[tokio::test]
async fn a_backup_replaces_nothing() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let to = file.folder().join("backup.db");
    let there: [(PathBuf, &str); 2] = [
        (to.clone(), "it exists"),
        (file.folder().join("backup.db-wal"), "the log of another"),
    ];
    for (path, reason) in &there {
        fs::write(path, "mine").unwrap();
        let error = store.backup(&to).await.unwrap_err().to_string();
        assert!(error.starts_with("file: "), "{error}");
        assert!(error.contains(reason), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), "mine");
        fs::remove_file(path).unwrap();
    }
    let error = store.backup(&file.folder().join("no/backup.db")).await;
    assert!(error.unwrap_err().to_string().contains("its folder"));
}

/// A backup removed the file that has its name and `.part`, whatever that was.
#[tokio::test]
async fn a_backup_leaves_every_other_file_alone() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let to = file.folder().join("backup.db");
    let part = file.folder().join("backup.db.part");
    fs::write(&part, "mine").unwrap();
    store.backup(&to).await.unwrap();
    assert_eq!(fs::read_to_string(&part).unwrap(), "mine");
    assert_eq!(parts(&file.folder()), [part]);
}

/// A backup under a name of the store's own files made the store unusable.
#[tokio::test]
async fn a_backup_takes_no_name_of_the_store_itself() {
    let file = file();
    let store = file.open().await;
    submit(&store, "a").await;
    let own = store.file().unwrap().to_owned();
    for ending in ["-journal", "-wal", "-shm", ".tasks", ".logs", ".lock"] {
        let mut name = own.clone().into_os_string();
        name.push(ending);
        let error = store
            .backup(Path::new(&name))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("name another file"), "{ending}: {error}");
    }
    for name in ["other-journal", "x.db-wal"] {
        let error = store.backup(&file.folder().join(name)).await.unwrap_err();
        assert!(
            error.to_string().contains("is that of a log of SQLite"),
            "{error}"
        );
    }
    assert!(parts(&file.folder()).is_empty());
}

/// The files of backups that are written.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_part = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(".part"));
    files.filter(is_part).collect()
}

/// A caller that is gone stops no half-written backup from being removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_whose_caller_is_gone_leaves_no_file() {
    let file = file();
    let store = file.open().await;
    for n in 0..50 {
        submit(&store, &format!("t{n}")).await;
    }
    let to = file.folder().join("backup.db");
    let mut gone = Box::pin(store.backup(&to));
    // Polled until it writes, and then dropped.
    while parts(&file.folder()).is_empty() {
        assert!(futures::poll!(&mut gone).is_pending(), "it was too fast");
        tokio::task::yield_now().await;
    }
    drop(gone);
    let begun = std::time::Instant::now();
    while !parts(&file.folder()).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the rest stays");
        tokio::task::yield_now().await;
    }
    assert!(!to.exists());
    store.backup(&to).await.unwrap();
}
