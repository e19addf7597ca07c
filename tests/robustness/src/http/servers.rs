//! [`Servers`]: two processes `windlass serve` on one store, which are killed and started again.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::BoxError;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(30);

/// The servers of a run.
#[derive(Debug)]
pub struct Servers {
    program: PathBuf,
    store: String,
    folder: PathBuf,
    running: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Servers {
    /// Starts servers of a store, and waits until they listen.
    ///
    /// # Errors
    ///
    /// When one does not.
    pub async fn start(
        program: PathBuf,
        store: String,
        folder: PathBuf,
        count: usize,
    ) -> Result<Self, BoxError> {
        let mut servers = Self {
            program,
            store,
            folder,
            running: Vec::new(),
        };
        for _ in 0..count {
            // The port of a server that is killed is its own again when it is started.
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            let child = servers.spawn(address)?;
            servers.running.push(Server { address, child });
        }
        for address in servers.addresses() {
            until_it_listens(address).await?;
        }
        Ok(servers)
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running.iter().map(|server| server.address).collect()
    }

    /// Makes a token that operates, and returns its secret.
    ///
    /// # Errors
    ///
    /// When the command fails.
    pub fn token(&self) -> Result<String, BoxError> {
        self.token_of("operate")
    }

    /// Makes a token with a role, and returns its secret.
    ///
    /// # Errors
    ///
    /// When the command fails.
    pub fn token_of(&self, role: &str) -> Result<String, BoxError> {
        let mut command = Command::new(&self.program);
        command.args(["token", "new", "client", "--role", role]);
        let made = command.env("WINDLASS_STORE", &self.store).output()?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into());
        }
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    fn spawn(&self, address: SocketAddr) -> Result<Child, BoxError> {
        let log = self.folder.join(format!("serve-{}.log", address.port()));
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(&self.program);
        command
            .args(["serve", "--no-socket", "--rate", "100000", "--listen"])
            .arg(address.to_string())
            .env("WINDLASS_STORE", &self.store)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Ok(command.spawn()?)
    }

    /// Kills a server with SIGKILL, for good.
    ///
    /// # Errors
    ///
    /// When it cannot be killed.
    pub fn stop(&mut self, which: usize) -> Result<(), BoxError> {
        let server = self.running.get_mut(which).ok_or("there is no server")?;
        server.child.kill()?;
        server.child.wait()?;
        Ok(())
    }

    /// Kills a server with SIGKILL, and starts it again after a while.
    ///
    /// # Errors
    ///
    /// When it does not listen again.
    pub async fn kill(&mut self, which: usize, away: Duration) -> Result<(), BoxError> {
        let at = which % self.running.len().max(1);
        let Some(server) = self.running.get_mut(at) else {
            return Err("there is no server".into());
        };
        server.child.kill()?;
        server.child.wait()?;
        let address = server.address;
        sleep(away).await;
        let child = self.spawn(address)?;
        if let Some(server) = self.running.get_mut(at) {
            server.child = child;
        }
        until_it_listens(address).await
    }
}

async fn until_it_listens(address: SocketAddr) -> Result<(), BoxError> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(address).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > START => {
                return Err(format!("the server at {address} does not listen: {error}").into());
            }
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}
