//! Servers for the tests: each on free ports of the loopback, with a folder of its own.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to answer.
const START: Duration = Duration::from_secs(30);

/// An etcd of one member. It is killed, and its data are gone, when it is dropped.
pub(crate) struct Server {
    child: Option<Child>,
    folder: tempfile::TempDir,
    client: u16,
    peer: u16,
    scheme: &'static str,
    arguments: Vec<String>,
    /// Members that are named and never start.
    absent: u16,
}

/// The program: `ETCD_BIN`, or `etcd` of the PATH.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("ETCD_BIN").map_or_else(|| PathBuf::from("etcd"), PathBuf::from)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with("http", &[])
    }

    /// One of three members, of which the others never start.
    pub(crate) fn start_alone_of_three() -> Self {
        Self::start_one_of("http", &[], 2)
    }

    /// As [`start`](Self::start), with arguments of one's own; `scheme` is that of the clients.
    pub(crate) fn start_with(scheme: &'static str, arguments: &[String]) -> Self {
        Self::start_one_of(scheme, arguments, 0)
    }

    fn start_one_of(scheme: &'static str, arguments: &[String], absent: u16) -> Self {
        // A port that was free may be taken by the time that etcd wants it.
        for _ in 0..5 {
            let mut server = Self {
                child: None,
                folder: tempfile::tempdir().unwrap(),
                client: free_port(),
                peer: free_port(),
                scheme,
                arguments: arguments.to_vec(),
                absent,
            };
            if server.run() {
                return server;
            }
        }
        panic!("etcd could not be started five times in a row");
    }

    /// Starts the program on its ports; false when it has ended before it answered.
    fn run(&mut self) -> bool {
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.client);
        let peer = format!("http://127.0.0.1:{}", self.peer);
        let absent = (1..=self.absent).map(|n| format!(",x{n}=http://127.0.0.1:{n}"));
        let members = format!("m={peer}{}", absent.collect::<String>());
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = Command::new(program());
        command
            .args(["--name", "m", "--data-dir"])
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &members])
            // Short enough that a lease of a second is one.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.arguments)
            .env_remove("ETCD_BIN")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = command.spawn().unwrap_or_else(|e| {
            let name = program();
            panic!(
                "{} cannot be started: {e}; put etcd into the PATH, or set ETCD_BIN (cargo xtask test gets one)",
                name.display()
            )
        });
        self.child = Some(child);
        let started = Instant::now();
        while started.elapsed() < START {
            if let Some(child) = &mut self.child
                && child.try_wait().unwrap().is_some()
            {
                return false;
            }
            let address = SocketAddr::from(([127, 0, 0, 1], self.client));
            if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("etcd does not answer within {START:?}: {}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.client)
    }

    /// The URL of a namespace.
    pub(crate) fn url(&self, namespace: &str) -> String {
        let scheme = if self.scheme == "https" {
            "etcds"
        } else {
            "etcd"
        };
        format!("{scheme}://{}/{namespace}", self.endpoint())
    }

    fn pid(&self) -> String {
        self.child.as_ref().unwrap().id().to_string()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid()]).status();
        assert!(status.unwrap().success());
    }

    /// Stops the process without ending it.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    /// Kills the process; the data stay.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.kill();
        assert!(self.run(), "etcd did not come back: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
