//! [`Server`]: the server of a peer for one round, in its own folder.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{StepResult, catalog::Serves};
use crate::tools;

/// How long the server has to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// It is killed when this is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
}

impl Server {
    /// Starts the server of a peer and waits until it listens.
    pub(super) fn start(
        serves: Serves,
        peer: &Path,
        folder: &Path,
        setting: &str,
    ) -> StepResult<Self> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|e| format!("no free port: {e}"))?.port();
        let address = format!("127.0.0.1:{port}");
        let mut server = match serves {
            Serves::Redis => redis(port, folder, setting)?,
            Serves::Itself => {
                let mut server = Command::new(peer);
                server.args(["serve", &format!("store={address}")]);
                server.arg(format!("dir={}", folder.display()));
                server.arg(format!("setting={setting}"));
                if setting == "postgresql" {
                    server.arg(format!("postgresql={}", tools::postgresql()?.display()));
                }
                server
            }
        };
        let child = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self {
            child: child.map_err(|e| format!("the server could not be started: {e}"))?,
            address,
        };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("the server has ended: {status}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server did not listen within {PATIENCE:?}"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The server and the processes that it has started.
    pub(super) fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        let mut at = 0;
        while let Some(process) = all.get(at) {
            let children = fs::read_dir(format!("/proc/{process}/task"));
            for thread in children.into_iter().flatten().flatten() {
                let children = fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                all.extend(
                    children
                        .split_whitespace()
                        .filter_map(|id| id.parse::<u32>().ok()),
                );
            }
            at += 1;
        }
        all
    }

    /// Seconds of processor time that these processes, and those of them that have ended, have used.
    pub(super) fn used(&self) -> f64 {
        let stat = |id: &u32| fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        self.processes()
            .iter()
            .map(|id| processor_seconds(&stat(id)))
            .sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Redis with an append-only log that is synced `always`, or `everysec`.
fn redis(port: u16, folder: &Path, fsync: &str) -> StepResult<Command> {
    let mut server = Command::new(tools::redis()?);
    server
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync])
        .arg("--dir")
        .arg(folder);
    Ok(server)
}

/// User and system time of a process and of its ended children, in a text of `/proc/PID/stat`.
fn processor_seconds(stat: &str) -> f64 {
    // After the name, which is in brackets: state is field 3, the times are 14 to 17, in hundredths of a second.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(4);
    let ticks: u32 = ticks.filter_map(|n| n.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_moves_no_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 20 5 20 0";
        assert_eq!(processor_seconds(stat), 2.0);
        assert_eq!(processor_seconds(""), 0.0);
    }
}
