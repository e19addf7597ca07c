//! The write-ahead log stays short: under many small writes, with readers, on a small disk.

use std::{
    env,
    io::Write as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use windlass::{
    Message,
    clock::SystemClock,
    store::sqlite::{Options, SqliteStore, Synchronous},
};

use super::support::*;

/// The limit of the log of a small file, in bytes: 1,000 pages, each with a header of 24 bytes.
const LIMIT: u64 = 1000 * (4096 + 24);
/// The length that the log of a small file keeps when it starts again.
const KEPT: u64 = LIMIT + LIMIT / 4;
/// More than what one of the small writes of these tests adds.
const WRITE: u64 = 200_000;

fn quick() -> File {
    let mut file = file();
    file.options.synchronous = Synchronous::Normal;
    file
}

fn log_of(file: &File) -> u64 {
    std::fs::metadata(file.folder().join("tasks.db-wal"))
        .unwrap()
        .len()
}

/// Submits tasks one by one, which writes `bytes` to the log or more. Returns the longest log.
async fn write(file: &File, store: &SqliteStore, name: &str, bytes: u64) -> u64 {
    let mut longest = 0;
    // Each write of a task changes at least three pages.
    for n in 0..bytes / (3 * 4096) {
        submit(store, &format!("{name}{n}")).await;
        longest = longest.max(log_of(file));
    }
    longest
}

#[tokio::test]
async fn small_writes_keep_the_log_within_its_limit() {
    let file = quick();
    let store = file.open().await;
    let longest = write(&file, &store, "t", 3 * LIMIT).await;
    assert!(longest > LIMIT / 2, "{longest}: too little was written");
    // It grows beyond its limit while a thread copies it.
    assert!(longest < 2 * LIMIT + WRITE, "{longest}");
}

#[tokio::test]
async fn a_long_reader_lets_the_log_grow_and_its_end_shortens_it() {
    let file = quick();
    let store = file.open().await;
    submit(&store, "first").await;
    let reader = file.raw();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM windlass_tasks")
        .unwrap();
    let longest = write(&file, &store, "t", 2 * LIMIT).await;
    assert!(longest > KEPT + WRITE, "{longest}: the reader held nothing");
    reader.execute_batch("COMMIT").unwrap();
    // Once it is copied, the next commit starts it again and shortens it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut n = 0;
    while log_of(&file) > KEPT {
        assert!(Instant::now() < deadline, "{}", log_of(&file));
        submit(&store, &format!("u{n}")).await;
        n += 1;
    }
}

/// Each reader is short, but at each moment there is one. Returns the longest log.
async fn beside_readers_of(time: Duration, bytes: u64) -> u64 {
    let file = quick();
    let store = file.open().await;
    submit(&store, "first").await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = [file.raw(), file.raw()];
    let stopped = stop.clone();
    let begin = "BEGIN; SELECT count(*) FROM windlass_tasks";
    readers[0].execute_batch(begin).unwrap();
    let reading = std::thread::spawn(move || {
        let [mut old, mut new] = readers;
        while !stopped.load(Ordering::Relaxed) {
            std::thread::sleep(time);
            new.execute_batch(begin).unwrap();
            old.execute_batch("COMMIT").unwrap();
            (old, new) = (new, old);
        }
    });
    let longest = write(&file, &store, "t", bytes).await;
    stop.store(true, Ordering::Relaxed);
    reading.join().unwrap();
    longest
}

#[tokio::test]
async fn readers_that_take_turns_cannot_keep_the_log_growing() {
    // The time that a read takes.
    let longest = beside_readers_of(Duration::from_millis(5), 5 * LIMIT).await;
    assert!(longest < 2 * LIMIT + WRITE, "{longest}");
}

/// Regression: a truncation waited for 100 ms, whatever the size of the log: with readers of 150 ms the log
/// reached 14 times the size of the file.
#[tokio::test]
async fn readers_that_take_turns_of_a_sixth_of_a_second_cannot_either() {
    let longest = beside_readers_of(Duration::from_millis(150), 20 * LIMIT).await;
    assert!(longest < 9 * LIMIT, "{longest}");
}

/// Names the folder of a small disk to the process that the test starts.
const SMALL_DISK: &str = "WINDLASS_TEST_SMALL_DISK";

/// The disk is smaller than the limit of the log, and larger than the file.
#[tokio::test]
async fn a_disk_without_room_for_the_whole_log_takes_all_tasks() {
    if let Some(folder) = env::var_os(SMALL_DISK) {
        return fill(Path::new(&folder)).await;
    }
    let isolate = ["--user", "--map-root-user", "--mount"];
    let may = Command::new("unshare").args(isolate).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        // Not by a macro, whose output a test that passes does not show.
        let text = "NOT TESTED HERE: this machine forbids mounts in a namespace; run it as root";
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=2m none \"$1\" && exec \"$2\" --exact \"$3\" --nocapture";
    // The name of a test begins below its program.
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::a_disk_without_room_for_the_whole_log_takes_all_tasks");
    let ran = Command::new("unshare")
        .args(isolate)
        .args(["sh", "-c", script, "sh"])
        .args([folder.path(), env::current_exe().unwrap().as_path()])
        .arg(name)
        .env(SMALL_DISK, folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "{out}{err}");
}

/// Writes far more than the disk holds to the log, and little to the file.
async fn fill(folder: &Path) {
    let path = folder.join("tasks.db");
    let store = SqliteStore::open(&path, Options::default(), SystemClock::shared());
    let store = store.await.unwrap();
    let lease = join(&store, "a").await;
    for n in 0..300 {
        let name = format!("t{n}");
        submit(&store, &name).await;
        let claimed = claim(&store, &lease, &name).await;
        commit(&store, &claimed, Message::complete()).await.unwrap();
    }
}
