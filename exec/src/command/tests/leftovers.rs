//! Which processes an attempt may end: never the command of a later claim.

use std::{fs, process::Child};

use super::{
    leftover::{Leftover, NotEnded, OnBehalfOf},
    *,
};
use windlass::Fence;

/// A folder with the record of a claim, and the process that it names.
struct LeftoverFolder {
    _dir: TempDir,
    folder: Folder,
    child: Child,
}

impl LeftoverFolder {
    fn of(fence: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder {
            path: dir.path().join("t@1"),
            record: dir.path().join("t@1.run"),
            owners: crate::place::Owners::us(),
        };
        let mut command = std::process::Command::new("sleep");
        command
            .arg("600")
            .env(tagged::STATE_DIR, &folder.path)
            .env(tagged::FENCE, fence.to_string());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let left = Self {
            _dir: dir,
            folder,
            child: command.spawn().unwrap(),
        };
        left.record(fence);
        left.wait_for_environment();
        left
    }

    /// Linux shows the environment of a process a moment after its start.
    fn wait_for_environment(&self) {
        let environment = format!("/proc/{}/environ", self.pid());
        let began = std::time::Instant::now();
        while fs::read(&environment).unwrap().is_empty() {
            assert!(began.elapsed() < LONG, "{environment} is empty");
            std::thread::yield_now();
        }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Writes the record of a claim that names the process.
    fn record(&self, fence: u64) {
        let running = running(fence);
        let mut record = record::about_to_start(&self.folder, running).unwrap();
        record.is(self.pid()).unwrap();
    }

    /// Writes this text as the record.
    fn write(&self, text: &str) {
        crate::place::write_private(&self.folder.record, text.as_bytes()).unwrap();
    }

    fn lives(&self) -> bool {
        process::group_lives(self.pid())
    }
}

impl Drop for LeftoverFolder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running(fence: u64) -> Running<'static> {
    Running {
        fence: Fence(fence),
        holders: &[],
        grace: Duration::ZERO,
    }
}

#[tokio::test]
async fn a_claim_ends_the_command_of_an_earlier_claim_and_of_no_later_one() {
    for (own, ends) in [(6, false), (7, true), (8, true)] {
        let left = LeftoverFolder::of(7);
        let claim = OnBehalfOf::Claim(Fence(own));
        let ended = leftover::end(&left.folder, claim, LONG, std::future::pending()).await;
        match ended {
            Ok(()) => assert!(ends && !left.lives(), "{own}"),
            Err(NotEnded::OtherClaim(Fence(7))) => assert!(!ends && left.lives(), "{own}"),
            Err(e) => panic!("{own}: {e}"),
        }
    }
}

#[tokio::test]
async fn a_process_of_a_later_claim_is_not_found_by_its_folder() {
    for (record, own, finds) in [
        (Some(5), 6, false),
        (Some(7), 8, true),
        (None, 6, false),
        (None, 7, true),
    ] {
        let left = LeftoverFolder::of(7);
        match record {
            // The process of this record is not recorded yet.
            Some(fence) => {
                let line = json!({"fence": fence}).to_string();
                left.write(&line);
            }
            None => left.write(""),
        }
        let mut found = Leftover::find(&left.folder, OnBehalfOf::Claim(Fence(own))).unwrap();
        let found = found.take_groups();
        assert_eq!(!found.is_empty(), finds, "{record:?} {own}: {found:?}");
    }
}

#[tokio::test]
async fn nothing_is_signalled_once_another_claim_has_the_record() {
    // The future is dropped, or runs to its end.
    for drops in [true, false] {
        let left = LeftoverFolder::of(5);
        let found = Leftover::find(&left.folder, OnBehalfOf::Claim(Fence(6))).unwrap();
        left.record(7);
        match drops {
            true => drop(found),
            false => {
                let ended = found.end(Duration::ZERO, std::future::pending()).await;
                assert!(matches!(ended, Err(NotEnded::OtherClaim(Fence(7)))));
            }
        }
        assert!(left.lives(), "dropped: {drops}");
    }
    // The number of a group that another process has ended may be reused.
    let left = LeftoverFolder::of(5);
    let found = Leftover::find(&left.folder, OnBehalfOf::Claim(Fence(6))).unwrap();
    fs::remove_file(&left.folder.record).unwrap();
    assert!(found.end(LONG, std::future::pending()).await.is_ok() && left.lives());

    let left = LeftoverFolder::of(5);
    drop(Leftover::find(&left.folder, OnBehalfOf::Claim(Fence(6))).unwrap());
    until("it is killed", async || !left.lives()).await;
}

#[tokio::test]
async fn the_record_of_a_later_claim_stays() {
    let left = LeftoverFolder::of(7);
    let before = fs::read(&left.folder.record).unwrap();
    let refused = record::about_to_start(&left.folder, running(6)).unwrap_err();
    assert!(matches!(refused, NotWritten::LaterClaim(Fence(7))));
    assert_eq!(fs::read(&left.folder.record).unwrap(), before);
    // A later claim replaces the record; the command that ends afterwards leaves that record as it
    // is.
    let folder = left.folder.clone();
    let first = record::about_to_start(&folder, running(8)).unwrap();
    let second = record::about_to_start(&folder, running(9)).unwrap();
    first.ended();
    assert!(folder.record.exists());
    second.ended();
    assert!(!folder.record.exists());
}

/// A record that was moved to another task, and a record that names a process which does not lead a
/// group.
#[tokio::test]
async fn a_process_of_another_task_is_not_signalled() {
    let left = LeftoverFolder::of(7);
    let find = |folder: &Folder| {
        let found = Leftover::find(folder, OnBehalfOf::Claim(Fence(8)));
        found.unwrap().take_groups()
    };
    assert_eq!(find(&left.folder), [left.pid()]);
    let other = Folder {
        path: left.folder.path.with_file_name("u@2"),
        ..left.folder.clone()
    };
    assert!(find(&other).is_empty());

    let mut member = std::process::Command::new("sleep");
    member.arg("600");
    std::os::unix::process::CommandExt::process_group(&mut member, left.pid());
    let mut member = member.spawn().unwrap();
    let mut record = record::about_to_start(&other, running(7)).unwrap();
    record.is(member.id() as i32).unwrap();
    let found = find(&other);
    member.kill().unwrap();
    member.wait().unwrap();
    assert!(found.is_empty(), "it leads no group");
}

/// The command of a deleted task. Whether a worker that ends it lives is not known.
#[tokio::test]
async fn the_command_of_a_task_that_is_over_has_two_seconds_at_most() {
    let node = Node::start().await;
    let url = format!("sqlite:{}", node.file("s").display());
    let folders = folders_of(&url, &node.client).await;
    let gone = "gone".parse().unwrap();
    let folder = folders.prepare(&gone, 1).unwrap();
    let mut command = tokio::process::Command::new("sh");
    let script = format!(
        "trap '' TERM; touch {}; sleep 600",
        node.file("ready").display()
    );
    command.args(["-c", &script]).process_group(0);
    let mut left = command.kill_on_drop(true).spawn().unwrap();
    content(&node.file("ready")).await;
    let mut record = record::about_to_start(&folder, running(7)).unwrap();
    record.is(left.id().unwrap() as i32).unwrap();
    let began = Instant::now();
    folders.sweep(LONG);
    timeout(LONG, left.wait()).await.unwrap().unwrap();
    let lived = began.elapsed();
    let expected = Duration::from_millis(1_800)..Duration::from_secs(6);
    assert!(expected.contains(&lived), "{lived:?}");
}
