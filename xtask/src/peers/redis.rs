//! [`Redis`]: a server for one round, in a folder of its own.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::Left;
use crate::tools;

/// How long the server has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// It is killed when this is dropped.
pub(super) struct Redis {
    child: Child,
    pub(super) address: String,
}

impl Redis {
    /// Starts a server with an append-only log that is synced `always`, or `everysec`.
    pub(super) fn start(folder: &Path, fsync: &str) -> Left<Self> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|e| format!("no free port: {e}"))?.port();
        let mut server = Command::new(tools::redis()?);
        server
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync])
            .arg("--dir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = server.spawn();
        let redis = Self {
            child: child.map_err(|e| format!("redis-server could not be started: {e}"))?,
            address: format!("127.0.0.1:{port}"),
        };
        let begun = Instant::now();
        while !redis.answers() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("redis-server did not answer within {PATIENCE:?}"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    fn answers(&self) -> bool {
        let ping = || {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok::<_, std::io::Error>(&answer == b"+PONG")
        };
        ping().unwrap_or(false)
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

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
