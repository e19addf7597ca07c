//! What an earlier attempt has left running.
//!
//! When a worker is killed, nothing kills its commands: the operating system could (Linux'
//! `PR_SET_PDEATHSIG`), but only if code runs between fork and exec, which safe Rust does not allow.
//! So every running command is written down beside the task's folder before it starts, and the next
//! attempt on the same machine ends whatever of it still lives before it starts its own. A process
//! is known again by its number together with the time it started and the machine's start, and, should
//! the worker have died before it could write that down, by the variable `WINDLASS_STATE_DIR` in its
//! environment, which names the task's folder.

use std::{fs, io, path::Path, time::Duration};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::warn;
use windlass::Fence;

use super::{
    folders::{Folder, write_private},
    process::{self, Identity},
};

/// The variable that tells a command where to keep its progress.
pub(crate) const STATE_DIR: &str = "WINDLASS_STATE_DIR";

/// How long a killed group may take to be gone.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// What is written down of a running command.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    fence: Fence,
    /// The leader of its group; `None` from before it starts until it has.
    #[serde(default)]
    leader: Option<Identity>,
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    let text = serde_json::to_string(record)?;
    // A rename, so that nobody reads half of it. It need not survive the machine: nor do processes.
    let mut new = path.as_os_str().to_owned();
    // No folder's name has this.
    new.push("~");
    write_private(Path::new(&new), &text)?;
    fs::rename(new, path)
}

/// Says that a command is about to start.
pub(crate) fn about_to_start(folder: &Folder, fence: Fence) -> io::Result<()> {
    let record = Record {
        fence,
        leader: None,
    };
    write(&folder.record, &record)
}

/// Says which process the command is.
pub(crate) fn started(folder: &Folder, fence: Fence, pid: i32) -> io::Result<()> {
    let record = Record {
        fence,
        leader: Identity::of(pid),
    };
    write(&folder.record, &record)
}

/// Says that the command of this claim has ended. What another claim wrote stays.
pub(crate) fn ended(folder: &Folder, fence: Fence) {
    let own = fs::read(&folder.record)
        .ok()
        .and_then(|text| serde_json::from_slice::<Record>(&text).ok())
        .is_some_and(|record| record.fence == fence);
    if own {
        let _ = fs::remove_file(&folder.record);
    }
}

/// The groups that an earlier attempt has left.
fn groups(folder: &Folder) -> Vec<i32> {
    let Ok(text) = fs::read(&folder.record) else {
        return Vec::new();
    };
    // One that cannot be read is as good as one that names no process.
    let leader = serde_json::from_slice::<Record>(&text)
        .ok()
        .and_then(|record| record.leader);
    if let Some(leader) = &leader {
        if !leader.is_here() {
            return Vec::new();
        }
        if leader.lives() {
            return vec![leader.pid];
        }
    }
    let mut entry = format!("{STATE_DIR}=").into_bytes();
    entry.extend_from_slice(folder.path.as_os_str().as_encoded_bytes());
    let mut groups = process::groups_with(&entry);
    if let Some(leader) = leader {
        groups.retain(|group| *group == leader.pid);
    }
    groups
}

/// Ends what an earlier attempt has left running: SIGTERM, and SIGKILL after the grace.
///
/// # Errors
///
/// When something of it still lives.
pub(crate) async fn end(folder: &Folder, grace: Duration) -> Result<(), String> {
    if !folder.record.exists() {
        return Ok(());
    }
    let place = folder.clone();
    let groups = tokio::task::spawn_blocking(move || groups(&place))
        .await
        .unwrap_or_default();
    for group in &groups {
        warn!(
            group,
            "the command of an earlier attempt still runs: ending it"
        );
    }
    for (signal, wait) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, AFTER_KILL)] {
        let deadline = Instant::now() + wait;
        let mut pause = Duration::from_millis(2);
        for group in groups.iter().filter(|g| process::group_lives(**g)) {
            let sent = process::signal_group(*group, signal)
                .and_then(|()| process::signal_group(*group, Signal::SIGCONT));
            if let Err(e) = sent {
                return Err(format!(
                    "process group {group} of an earlier attempt cannot be ended: {e}"
                ));
            }
        }
        while groups.iter().any(|g| process::group_lives(*g)) && Instant::now() < deadline {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
    match groups.iter().find(|g| process::group_lives(**g)) {
        Some(group) => Err(format!(
            "process group {group} of an earlier attempt was killed and is still there"
        )),
        None => Ok(()),
    }
}
