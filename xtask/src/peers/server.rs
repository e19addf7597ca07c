//! [`Server`]: the server of a peer for one round, in a folder of its own.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{Left, catalog::Serves};
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
    pub(super) fn start(serves: Serves, peer: &Path, folder: &Path, setting: &str) -> Left<Self> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|e| format!("no free port: {e}"))?.port();
        let address = format!("127.0.0.1:{port}");
        let mut server = match serves {
            Serves::Redis => redis(port, folder, setting)?,
            Serves::Itself => {
                let mut server = Command::new(peer);
                server.args(["serve", &format!("store={address}")]);
                server.arg(format!("dir={}", folder.display()));
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

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Seconds of processor time that the server has used.
    pub(super) fn used(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process()));
        processor_seconds(&stat.unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Redis with an append-only log that is synced `always`, or `everysec`.
fn redis(port: u16, folder: &Path, fsync: &str) -> Left<Command> {
    let mut server = Command::new(tools::redis()?);
    server
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync])
        .arg("--dir")
        .arg(folder);
    Ok(server)
}

/// User and system time, in a text of `/proc/PID/stat`.
fn processor_seconds(stat: &str) -> f64 {
    // After the name, which is in brackets: state is field 3, utime 14 and stime 15, in hundredths of a second.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|n| n.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_moves_no_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 0 0 20 0";
        assert_eq!(processor_seconds(stat), 1.75);
        assert_eq!(processor_seconds(""), 0.0);
    }
}
