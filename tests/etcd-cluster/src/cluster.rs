//! [`Cluster`]: the processes.

use std::{
    collections::hash_map::RandomState,
    fs::File,
    hash::BuildHasher,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

pub use crate::setup::{Setup, program};
use crate::{BoxError, gateway::Gateway};

/// How long members may take to answer.
const START: Duration = Duration::from_secs(60);
/// How long members may take to agree on a leader.
const LEAD: Duration = Duration::from_secs(30);

/// Returns a free port below the range of outgoing connections, so that it stays free while its
/// server is dead. Draws by the process and the time: programs of the simulation all have the same `RandomState`.
fn free_port() -> u16 {
    loop {
        let drawn = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
        let port = 15_000 + (drawn % 15_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One process and, when it was killed, the next in its place.
#[derive(Debug)]
struct Member {
    child: Option<Child>,
    client: u16,
    peer: u16,
}

/// An etcd of one member or of several. It is killed, and its data are gone, when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    setup: Setup,
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Cluster {
    /// Starts one and waits until all members answer.
    ///
    /// # Errors
    ///
    /// When the program cannot be started, or does not answer.
    pub fn start(setup: Setup) -> Result<Self, BoxError> {
        // A port that was free may be taken by the time that etcd wants it.
        let mut last = BoxError::from("not tried");
        for _ in 0..5 {
            match Self::try_start(setup.clone()) {
                Ok(cluster) => return Ok(cluster),
                Err(e) => last = e,
            }
        }
        Err(format!("etcd could not be started five times in a row: {last}").into())
    }

    fn try_start(setup: Setup) -> Result<Self, BoxError> {
        let (folder, temporary) = match &setup.folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let folder = tempfile::tempdir()?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let member = |_| Member {
            child: None,
            client: free_port(),
            peer: free_port(),
        };
        let mut cluster = Self {
            members: (0..setup.members).map(member).collect(),
            setup,
            folder,
            _temporary: temporary,
        };
        for n in 0..cluster.members.len() {
            // From an earlier try, on other ports.
            let _ = std::fs::remove_dir_all(cluster.data(n));
            cluster.spawn(n)?;
        }
        for n in 0..cluster.members.len() {
            cluster.wait_for(n)?;
        }
        Ok(cluster)
    }

    fn data(&self, n: usize) -> PathBuf {
        self.folder.join(format!("m{n}"))
    }

    fn log_file(&self, n: usize) -> PathBuf {
        self.folder.join(format!("m{n}.log"))
    }

    /// Returns the log of a member.
    pub fn log(&self, n: usize) -> String {
        std::fs::read_to_string(self.log_file(n)).unwrap_or_default()
    }

    /// Where everything of it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    fn spawn(&mut self, n: usize) -> Result<(), BoxError> {
        let peer = |m: &Member| format!("http://127.0.0.1:{}", m.peer);
        let all: Vec<String> = (self.members.iter().enumerate())
            .map(|(n, m)| format!("m{n}={}", peer(m)))
            .collect();
        let (client, peer) = (
            format!(
                "{}://127.0.0.1:{}",
                self.setup.scheme, self.members[n].client
            ),
            peer(&self.members[n]),
        );
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file(n))?;
        let mut command = Command::new(&self.setup.program);
        command
            .args(["--name", &format!("m{n}"), "--data-dir"])
            .arg(self.data(n))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(",")])
            // Short enough for leases of a second.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.setup.arguments)
            .env_remove("ETCD_BIN")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().map_err(|e| {
            format!(
                "{} cannot be started: {e}; put etcd into the PATH, or set ETCD_BIN (cargo xtask test gets one)",
                self.setup.program.display()
            )
        })?;
        self.members[n].child = Some(child);
        Ok(())
    }

    fn address(&self, n: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.members[n].client))
    }

    /// Waits until a member answers.
    fn wait_for(&mut self, n: usize) -> Result<(), BoxError> {
        let started = Instant::now();
        let address = self.address(n);
        while started.elapsed() < START {
            if let Some(child) = &mut self.members[n].child
                && let Some(status) = child.try_wait()?
            {
                return Err(format!("m{n} has ended: {status}: {}", self.log(n)).into());
            }
            // The gateway speaks TLS too, which this does not.
            let answers = match self.setup.scheme {
                "http" => match Gateway(address).read() {
                    Ok(_) => true,
                    // A member that requires a password answers too.
                    Err(e) => e.to_string().contains("user name is empty"),
                },
                _ => TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok(),
            };
            if answers {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        Err(format!("m{n} does not answer within {START:?}: {}", self.log(n)).into())
    }

    /// Where clients reach a member: `HOST:PORT`.
    pub fn endpoint(&self, n: usize) -> String {
        self.address(n).to_string()
    }

    /// Where clients reach the members.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.size()).map(|n| self.endpoint(n)).collect()
    }

    /// The URL of a namespace, with all members.
    pub fn url(&self, namespace: &str) -> String {
        self.url_of(&self.endpoints(), namespace)
    }

    /// The URL of a namespace, with these endpoints.
    pub fn url_of(&self, endpoints: &[String], namespace: &str) -> String {
        let scheme = if self.setup.scheme == "https" {
            "etcds"
        } else {
            "etcd"
        };
        format!("{scheme}://{}/{namespace}", endpoints.join(","))
    }

    /// Returns the gateway of a member.
    pub fn gateway(&self, n: usize) -> Gateway {
        Gateway(self.address(n))
    }

    fn signal(&self, n: usize, signal: &str) -> Result<(), BoxError> {
        let child = self.members[n].child.as_ref().ok_or("it is dead")?;
        let pid = child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status()?;
        if !status.success() {
            return Err(format!("kill {signal} {pid}: {status}").into());
        }
        Ok(())
    }

    /// Stops a member without ending it.
    ///
    /// # Errors
    ///
    /// When it is dead.
    pub fn pause(&self, n: usize) -> Result<(), BoxError> {
        self.signal(n, "-STOP")
    }

    /// Lets it continue.
    ///
    /// # Errors
    ///
    /// When it is dead.
    pub fn resume(&self, n: usize) -> Result<(), BoxError> {
        self.signal(n, "-CONT")
    }

    /// Returns how a member has ended by itself, with the end of its log; `None` while it runs, and after a kill.
    ///
    /// # Errors
    ///
    /// When the system does not report it.
    pub fn ended(&mut self, n: usize) -> Result<Option<String>, BoxError> {
        let Some(child) = &mut self.members[n].child else {
            return Ok(None);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(None);
        };
        let log = self.log(n);
        let mut panics = log.lines().filter(|line| line.contains("panic"));
        let reason = panics.next().or(log.lines().last()).unwrap_or_default();
        Ok(Some(format!("m{n} has ended: {status}: {reason}")))
    }

    /// Kills a member; its data stay.
    pub fn kill(&mut self, n: usize) {
        if let Some(mut child) = self.members[n].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether its program keeps what it has acknowledged when it is killed. etcd 3.5.0 to 3.5.2 do
    /// not under load: a killed member comes back with other data than the others.
    ///
    /// # Errors
    ///
    /// When the program does not report its version.
    pub fn outlives_kills(&self) -> Result<bool, BoxError> {
        let told = Command::new(&self.setup.program)
            .arg("--version")
            .output()?;
        let told = String::from_utf8(told.stdout)?;
        let version = told
            .lines()
            .find_map(|line| line.strip_prefix("etcd Version: "));
        let version = version.ok_or("it does not tell its version")?.trim();
        Ok(!["3.5.0", "3.5.1", "3.5.2"].contains(&version))
    }

    /// Bytes of the resident set of a member.
    ///
    /// # Errors
    ///
    /// When it is dead, or the system does not report it.
    pub fn resident(&self, n: usize) -> Result<u64, BoxError> {
        let child = self.members[n].child.as_ref().ok_or("it is dead")?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.trim().strip_suffix(" kB"));
        Ok(resident.ok_or("no VmRSS")?.parse::<u64>()? * 1024)
    }

    /// Ends a member by SIGTERM; its data stay.
    ///
    /// # Errors
    ///
    /// When the signal cannot be sent.
    pub fn terminate(&mut self, n: usize) -> Result<(), BoxError> {
        self.signal(n, "-TERM")?;
        if let Some(mut child) = self.members[n].child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Starts a member again on its data, and waits for nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn revive(&mut self, n: usize) -> Result<(), BoxError> {
        self.kill(n);
        self.spawn(n)
    }

    /// Starts a member again on its data, and waits until it answers.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or does not answer.
    pub fn restart(&mut self, n: usize) -> Result<(), BoxError> {
        self.revive(n)?;
        self.wait_for(n)
    }

    /// Waits until a member that was revived answers by a quorum.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn settle(&mut self, n: usize) -> Result<(), BoxError> {
        self.wait_for(n)
    }

    /// The member that leads; waits for one.
    ///
    /// # Errors
    ///
    /// When there is no leader for a long time.
    pub fn leader(&self) -> Result<usize, BoxError> {
        let started = Instant::now();
        while started.elapsed() < LEAD {
            for n in 0..self.size() {
                if self.members[n].child.is_some()
                    && let Ok(status) = self.gateway(n).status()
                    && status.leader == status.id
                    && status.id != 0
                {
                    return Ok(n);
                }
            }
            sleep(Duration::from_millis(50));
        }
        Err(format!("no member leads within {LEAD:?}").into())
    }

    /// Lets another member lead: `to`.
    ///
    /// # Errors
    ///
    /// When a member does not answer, or refuses.
    pub fn lead(&self, to: usize) -> Result<(), BoxError> {
        let from = self.leader()?;
        if from == to {
            return Ok(());
        }
        let id = self.gateway(to).status()?.id;
        self.gateway(from).hand_over(id)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for n in 0..self.members.len() {
            self.kill(n);
        }
    }
}
