//! The server that is measured: the program `windlass serve`, in its own process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support;

/// How many tokens the clients share: a caller has a quarter of the requests in work.
const TOKENS: usize = 5;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) tokens: Vec<String>,
    /// The token of workers.
    pub(crate) work: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    let program = std::env::var_os("WINDLASS_CLI");
    program.map(PathBuf::from).expect(
        "WINDLASS_CLI names no program: run `cargo xtask bench http`, or name a release build of windlass",
    )
}

fn windlass(store: &Path) -> Command {
    let mut command = Command::new(program());
    let store = format!("sqlite:{}", store.display());
    command.env("WINDLASS_STORE", store).stdin(Stdio::null());
    command
}

fn token_of(store: &Path, name: &str, role: &str) -> String {
    let mut command = windlass(store);
    command.args(["token", "new", name, "--role", role]);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

impl Server {
    /// Starts a server of a file.
    pub(crate) fn of(store: &Path) -> Self {
        let token = |n: usize| token_of(store, &format!("bench{n}"), "operate");
        let tokens = (0..TOKENS).map(token).collect();
        let work = token_of(store, "workers", "work");
        let log = store.with_extension("log");
        let child = windlass(store)
            .args(["serve", "--no-socket", "--rate", "10000000"])
            .args(["--listen", "127.0.0.1:0"])
            .env("WINDLASS_LOG_FORMAT", "json")
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let address = loop {
            let text = fs::read_to_string(&log).unwrap();
            let url = text.split("http://").nth(1);
            if let Some(address) = url.and_then(|url| url.split(['"', '/']).next()) {
                break address.to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{text}");
            std::thread::sleep(Duration::from_millis(10));
        };
        Self {
            child,
            address,
            tokens,
            work,
        }
    }

    /// Returns the token of a connection.
    pub(crate) fn token(&self, connection: usize) -> &str {
        // The last one is for whoever measures beside the others.
        &self.tokens[connection % (TOKENS - 1)]
    }

    /// Processor time that it has used.
    pub(crate) fn used(&self) -> Duration {
        support::used(self.child.id())
    }

    /// Its resident memory in bytes.
    pub(crate) fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<f64>().unwrap() * 1024.0
    }
}
