//! The file on the disk: the names by which it can be opened, and the files that may be next to it.
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use windlass::{
    clock::SystemClock,
    store::{
        Error, Registry,
        sqlite::{Options, SqliteStates, SqliteStore},
    },
};

use super::support::*;

async fn open(path: impl AsRef<Path>) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Options::default(), SystemClock::shared()).await
}

/// Refuses both kinds of store at `path`; returns the reason.
async fn refused(path: &Path) -> String {
    let states = SqliteStates::open(path, Options::default()).await;
    let Err(Error::Unusable(of_states)) = states else {
        panic!("{states:?}");
    };
    let opened = open(path).await;
    let Err(Error::Unusable(text)) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(of_states, text);
    text
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_with_a_second_hard_link_is_refused_by_both_names() {
    let file = file();
    submit(&file.open().await, "t").await;
    let other = file.folder().join("other.db");
    fs::hard_link(file.path(), &other).unwrap();
    for name in [file.path(), other.clone()] {
        let text = refused(&name).await;
        assert!(text.contains("2 names (hard links)"), "{text}");
        assert!(text.contains(&name.display().to_string()), "{text}");
    }
    fs::remove_file(other).unwrap();
    file.open().await.get(&id("t")).await.unwrap();
}

#[tokio::test]
async fn a_symbolic_link_opens_the_file_that_it_names() {
    let file = file();
    let folder = file.folder().join("elsewhere");
    fs::create_dir(&folder).unwrap();
    let (first, second) = (folder.join("first.db"), folder.join("second.db"));
    symlink("second.db", &first).unwrap();
    symlink(file.path(), &second).unwrap();
    // The file does not exist yet.
    let by_link = open(&first).await.unwrap();
    submit(&by_link, "t").await;
    assert!(beside(&file.path(), "-wal").exists());
    let by_name = file.open().await;
    submit(&by_name, "u").await;
    by_link.get(&id("u")).await.unwrap();
    by_name.get(&id("t")).await.unwrap();
    assert_eq!(names(&folder), ["first.db", "second.db"]);
}

#[tokio::test]
async fn links_that_lead_nowhere_are_refused() {
    let file = file();
    let (a, b) = (file.folder().join("a.db"), file.folder().join("b.db"));
    symlink(&a, &b).unwrap();
    symlink(&b, &a).unwrap();
    let text = refused(&a).await;
    assert!(text.contains("symbolic links"), "{text}");
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused() {
    let text = refused(Path::new("/dev/null")).await;
    assert!(text.contains("not a regular file"), "{text}");
}

/// Leaves the files of a store like a killed process: with the acknowledged writes in the log.
async fn killed(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive.db");
    let store = open(&alive).await.unwrap();
    submit(&store, "t").await;
    fs::copy(&alive, path).unwrap();
    fs::copy(beside(&alive, "-wal"), beside(path, "-wal")).unwrap();
}

#[tokio::test]
async fn a_log_without_its_file_is_refused_and_left_alone() {
    for ending in ["-wal", "-journal"] {
        let file = file();
        killed(&file.path()).await;
        let (path, log) = (file.path(), beside(&file.path(), ending));
        fs::rename(beside(&path, "-wal"), &log).unwrap();
        let aside = file.folder().join("aside");
        fs::rename(&path, &aside).unwrap();
        let bytes = fs::read(&log).unwrap();
        let text = refused(&path).await;
        assert!(text.contains("the file is missing"), "{text}");
        assert!(text.contains(&log.display().to_string()), "{text}");
        let exists = SqliteStore::exists(&path).unwrap_err().to_string();
        assert_eq!(exists, text);
        assert_eq!(fs::read(&log).unwrap(), bytes);
        let left = names(&file.folder());
        assert_eq!(left.len(), 2, "nothing was created: {left:?}");
        if ending == "-wal" {
            // With its file, the log is read.
            fs::rename(aside, &path).unwrap();
            assert!(SqliteStore::exists(&path).unwrap());
            file.open().await.get(&id("t")).await.unwrap();
        }
    }
}

/// Regression: the file was moved without its log, and replaced by a link: the tasks in the log were
/// missing.
#[tokio::test]
async fn a_link_with_a_log_beside_it_is_refused() {
    for ending in ["-wal", "-journal"] {
        let file = file();
        killed(&file.path()).await;
        let (path, log) = (file.path(), beside(&file.path(), ending));
        fs::rename(beside(&path, "-wal"), &log).unwrap();
        let folder = file.folder().join("elsewhere");
        fs::create_dir(&folder).unwrap();
        let real = folder.join("tasks.db");
        fs::rename(&path, &real).unwrap();
        symlink(&real, &path).unwrap();
        // Also by a link to the link.
        let other = file.folder().join("other.db");
        symlink(&path, &other).unwrap();
        for name in [&path, &other] {
            let text = refused(name).await;
            assert!(text.contains(&log.display().to_string()), "{text}");
            assert!(text.contains("move the log to"), "{text}");
        }
        if ending == "-wal" {
            fs::rename(&log, beside(&real, "-wal")).unwrap();
            open(&path).await.unwrap().get(&id("t")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_log_beside_an_empty_file_is_refused_and_left_alone() {
    let file = file();
    killed(&file.path()).await;
    let log = beside(&file.path(), "-wal");
    let bytes = fs::read(&log).unwrap();
    fs::write(file.path(), "").unwrap();
    let text = refused(&file.path()).await;
    assert!(text.contains("the file is empty"), "{text}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
    assert_eq!(fs::metadata(file.path()).unwrap().len(), 0);
}

/// SQLite deletes or overwrites a file with the name of a log.
#[tokio::test]
async fn a_name_that_sqlite_gives_to_a_log_is_refused() {
    for ending in ["-wal", "-shm", "-journal"] {
        let file = file();
        let path = beside(&file.path(), ending);
        let text = refused(&path).await;
        assert!(text.contains(&format!("'{ending}'")), "{text}");
        assert!(text.contains("choose another name"), "{text}");
        let link = file.folder().join("link.db");
        symlink(&path, &link).unwrap();
        let by_link = refused(&link).await;
        assert_eq!(by_link, text);
        assert_eq!(names(&file.folder()), ["link.db"], "nothing was created");
    }
}

/// A database of another program with the name of a log.
#[tokio::test]
async fn a_database_in_the_place_of_a_log_is_refused_and_left_alone() {
    for ending in ["-wal", "-journal"] {
        for exists in [true, false] {
            let file = file();
            let (other, log) = (file.folder().join("other.db"), beside(&file.path(), ending));
            submit(&open(&other).await.unwrap(), "t").await;
            if exists {
                drop(file.open().await);
            }
            fs::rename(&other, &log).unwrap();
            let bytes = fs::read(&log).unwrap();
            let text = refused(&file.path()).await;
            assert!(text.contains(&log.display().to_string()), "{text}");
            assert!(text.contains("a database of its own"), "{text}");
            assert_eq!(fs::read(&log).unwrap(), bytes);
        }
    }
}

#[tokio::test]
async fn an_empty_log_without_a_file_holds_nothing() {
    let file = file();
    fs::write(beside(&file.path(), "-wal"), "").unwrap();
    assert!(!SqliteStore::exists(file.path()).unwrap());
    submit(&file.open().await, "t").await;
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn only_its_owner_can_read_a_new_file_and_its_log() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    for ending in ["", "-wal", "-shm"] {
        let part = beside(&file.path(), ending);
        assert_eq!(mode(&part), 0o600, "{}", part.display());
    }
    drop(store);
    let alone = file.folder().join("states.db");
    let _states = SqliteStates::open(&alone, Options::default())
        .await
        .unwrap();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(&alone, ending)), 0o600);
    }
}

/// Its owner may share a file on purpose.
#[tokio::test]
async fn the_mode_of_a_file_that_exists_stays() {
    let file = file();
    fs::write(file.path(), "").unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o660)).unwrap();
    let store = file.open().await;
    submit(&store, "t").await;
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(&file.path(), ending)), 0o660);
    }
}
