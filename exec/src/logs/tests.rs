//! What is written can be read, within the limit, and missing bytes are counted.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use tempfile::TempDir;
use windlass::Fence;

use super::*;

const LIMIT: u64 = 64 << 10;

fn run(fence: u64) -> Run {
    Run {
        incarnation: 0,
        attempt: 1,
        fence: Fence(fence),
        nth: 0,
    }
}

fn writer(dir: &Path, fence: u64, limit: Option<u64>) -> Writer {
    Writer::new(
        Place::private(dir.to_owned()),
        "task".into(),
        run(fence),
        limit,
    )
}

fn reader(dir: &Path, fence: u64) -> Reader {
    Reader::new(dir.join("task"), run(fence))
}

fn stdout(text: impl Into<Vec<u8>>) -> Piece {
    Piece::now(Stream::Stdout, text.into())
}

/// The output of a reader: the bytes of both streams in order, and the missing bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    text: String,
    missing: Bytes,
    /// How much was read before the first gap.
    before_gap: Option<usize>,
}

impl Read {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Piece { bytes, .. } => self.text.push_str(std::str::from_utf8(bytes).unwrap()),
            Event::Gap(missing) => {
                self.before_gap.get_or_insert(self.text.len());
                self.missing.add(&missing);
            }
        }
        Ok(())
    }

    fn all(mut reader: Reader) -> Self {
        let mut read = Self::default();
        reader.finish(&mut |event| read.event(event)).unwrap();
        read
    }
}

fn numbers(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{n:07}\n")).collect()
}

#[test]
fn both_streams_are_read_in_the_order_in_which_they_were_written() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(dir.path(), 1, Some(LIMIT));
    let mut follower = reader(dir.path(), 1);
    let mut followed = Read::default();
    for text in ["a", "b", "c"] {
        let stderr = Piece::now(Stream::Stderr, text.to_uppercase().into());
        writer.write(&[stdout(text), stderr]);
        follower.read(&mut |event| followed.event(event)).unwrap();
        assert!(followed.text.ends_with(&text.to_uppercase()), "at once");
    }
    writer.end();
    follower.finish(&mut |event| followed.event(event)).unwrap();
    assert_eq!(followed.text, "aAbBcC");
    assert_eq!(Read::all(reader(dir.path(), 1)), followed);
    let plain = fs::read_to_string(dir.path().join("task/0.1.1.0.0.stdout")).unwrap();
    assert_eq!(plain, "abc");
}

#[test]
fn a_log_stays_within_its_limit_and_what_is_dropped_is_counted() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(dir.path(), 1, Some(LIMIT));
    let text = numbers(0, 100_000);
    let mut largest = 0;
    for part in text.as_bytes().chunks(5_000) {
        writer.write(&[stdout(part)]);
        let files = fs::read_dir(dir.path().join("task")).unwrap();
        largest = largest.max(files.map(|f| f.unwrap().metadata().unwrap().len()).sum());
    }
    writer.end();
    assert!((LIMIT / 2..=LIMIT).contains(&largest), "{largest}");
    let read = Read::all(reader(dir.path(), 1));
    assert_eq!(read.before_gap, Some(0), "the gap comes first");
    assert!(text.ends_with(&read.text) && read.text.len() as u64 > LIMIT / 2);
    assert_eq!(read.missing.stdout, (text.len() - read.text.len()) as u64);
}

#[test]
fn a_follower_that_is_overtaken_reports_the_gap_where_it_is() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(dir.path(), 1, Some(LIMIT));
    let mut follower = reader(dir.path(), 1);
    let mut read = Read::default();
    writer.write(&[stdout(numbers(0, 10))]);
    follower.read(&mut |event| read.event(event)).unwrap();
    assert_eq!(read.text, numbers(0, 10));
    let text = numbers(10, 50_000);
    writer.write(&[stdout(text.as_str())]);
    writer.end();
    follower.finish(&mut |event| read.event(event)).unwrap();
    let at = read.before_gap.unwrap();
    // The rest of the segment that was open: only the follower still has it.
    let (begin, end) = read.text.split_at(at);
    assert!(numbers(0, 50_000).starts_with(begin));
    assert!(text.ends_with(end) && !end.is_empty());
    let whole = numbers(0, 50_000).len() as u64;
    assert_eq!(read.missing.stdout, whole - read.text.len() as u64);
}

#[test]
fn what_the_disk_does_not_take_is_a_gap() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(dir.path(), 1, Some(LIMIT));
    let first = numbers(0, 1_000);
    writer.write(&[stdout(first.as_str())]);
    // The next segment is on a full disk.
    symlink("/dev/full", dir.path().join("task/0.1.1.0.1.stdout")).unwrap();
    writer.write(&[
        stdout(numbers(1_000, 1_500)),
        Piece::now(Stream::Stderr, b"kept".into()),
    ]);
    writer.end();
    let read = Read::all(reader(dir.path(), 1));
    assert!(
        read.text.starts_with(&first) && read.text.ends_with("kept"),
        "{read:?}"
    );
    let whole = numbers(0, 1_500).len() + "kept".len();
    assert_eq!(read.missing.stdout, (whole - read.text.len()) as u64);
    assert!(read.missing.stdout > 0);
}

#[test]
fn what_a_killed_writer_had_not_entered_into_the_index_is_read() {
    let dir = TempDir::new().unwrap();
    let mut writer = writer(dir.path(), 1, None);
    writer.write(&[stdout("one\n")]);
    drop(writer);
    let task = dir.path().join("task");
    let append = |name: &str, text: &str| {
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).open(task.join(name)).unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    append("0.1.1.0.0.stdout", "two\n");
    append("0.1.1.0.0.index", "o 17");
    assert_eq!(Read::all(reader(dir.path(), 1)).text, "one\ntwo\n");
}

#[test]
fn the_logs_of_a_task_are_bounded_together() {
    let dir = TempDir::new().unwrap();
    for fence in 1..=10 {
        let mut writer = writer(dir.path(), fence, Some(LIMIT));
        writer.write(&[stdout(vec![b'x'; 50_000])]);
        writer.end();
    }
    let segments = Segment::list(&dir.path().join("task")).unwrap();
    let mut fences: Vec<u64> = segments.iter().map(|s| s.run.fence.0).collect();
    fences.dedup();
    assert_eq!(fences, [7, 8, 9, 10]);
}

#[test]
fn a_log_without_a_limit_is_cut_to_one_later() {
    let dir = TempDir::new().unwrap();
    let place = Place::private(dir.path().to_owned());
    let logs = Logs::at(place.clone());
    let id: TaskId = "t".parse().unwrap();
    let mut writer = Writer::new(place, task_folder(&id, 7), run(1), None);
    for _ in 0..5 {
        writer.write(&[stdout(vec![b'x'; 4 << 20])]);
    }
    writer.end();
    assert_eq!(Read::all(logs.reader(&id, 7, run(1))).text.len(), 20 << 20);
    logs.trim(&id, 7, 10 << 20);
    let read = Read::all(logs.reader(&id, 7, run(1)));
    assert!(
        (1..=10 << 20).contains(&read.text.len()),
        "{}",
        read.text.len()
    );
    assert_eq!(read.text.len() as u64 + read.missing.stdout, 20 << 20);
}

#[tokio::test]
async fn the_logs_of_deleted_tasks_are_deleted_now_and_then() {
    let dir = TempDir::new().unwrap();
    let place = Place::private(dir.path().to_owned());
    let logs = Logs::at(place.clone());
    let store = windlass::store::Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let mut folders = Vec::new();
    for id in ["kept", "deleted"] {
        let id = client
            .submit(windlass::NewTask::new("exec").id(id))
            .await
            .unwrap()
            .into_id();
        let order = client.get(&id).await.unwrap().order;
        let mut writer = Writer::new(place.clone(), task_folder(&id, order), run(1), None);
        writer.write(&[stdout("text")]);
        folders.push(logs.dir(&id, order));
    }
    client.force_delete("deleted").await.unwrap();
    let is_deleted = async {
        while folders[1].exists() {
            tokio::task::yield_now().await;
        }
    };
    let long = std::time::Duration::from_secs(30);
    tokio::select! {
        () = logs.keep_swept(&client, std::time::Duration::from_millis(1)) => {}
        () = is_deleted => {}
        () = tokio::time::sleep(long) => {}
    }
    assert!(folders[0].exists() && !folders[1].exists());
}
