//! [`Worker`]: a process that runs tasks, to be killed and stopped.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::sleep;
use windlass::NodeName;

use crate::{BoxError, processes, site::Site, terms::Terms, witness::Said};

/// The log line of a worker that begins to work.
pub const WORKING: &str = "working node=";
/// How Rust's programs end when they panic.
const PANICKED: i32 = 101;
/// The time limit of a worker that waits for a disturbed store.
const SLOW: Duration = Duration::from_secs(40);
/// How long a worker has to release its tasks and end.
pub const SHUTDOWN: Duration = Duration::from_secs(10);

/// A worker that got SIGKILL and may not have ended yet.
#[derive(Debug)]
#[must_use]
pub struct Struck {
    worker: Option<Pid>,
    left: &'static str,
}

/// What a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The kinds of [`crate::kinds`].
    Library,
    /// The kind `exec`, by the command line.
    Exec,
}

/// A process and, when it was killed, the next in its place. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    site: Arc<Site>,
    role: Role,
    name: String,
    store: String,
    terms: Terms,
    lives: u32,
    child: Option<Child>,
    /// How long the log was when its process started.
    logged: u64,
    /// Its process stands still.
    stopped: bool,
}

impl Worker {
    /// A worker that is not started yet, on the store of that name.
    pub fn new(site: &Arc<Site>, role: Role, name: &str, store: &str) -> Self {
        Self {
            site: site.clone(),
            role,
            name: name.to_owned(),
            store: store.to_owned(),
            terms: Terms::default(),
            lives: 0,
            child: None,
            logged: 0,
            stopped: false,
        }
    }

    /// The same worker on other terms. A worker of the command line has none.
    #[must_use]
    pub fn on_terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// What it runs.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Where it writes what it witnesses.
    pub fn witnesses(&self) -> PathBuf {
        self.site.witnesses()
    }

    /// The id of its process: that of the supervisor, where there is one.
    ///
    /// # Errors
    ///
    /// When it has ended on its own.
    pub fn pid(&mut self) -> Result<u32, BoxError> {
        Ok(self.child()?.id())
    }

    /// Its name; that of its node begins so.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn log(&self) -> PathBuf {
        self.site.folder.join(format!("{}.log", self.name))
    }

    /// Starts its process.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn launch(&mut self) -> Result<(), BoxError> {
        self.lives += 1;
        let site = &self.site;
        let mut options = File::options();
        let log = options.create(true).append(true).open(self.log())?;
        self.logged = log.metadata()?.len();
        let ttl = site.ttl.as_millis().to_string();
        // One comes back under a new name, the other waits for its own.
        let (node, mut command) = match self.role {
            Role::Library => {
                let node = format!("{}-{}", self.name, self.lives);
                let mut command = Command::new(site.programs.worker);
                command.arg(&self.store).arg(&node).arg(site.witnesses());
                // Sometimes there are fewer slots than tasks.
                let slots = if self.lives.is_multiple_of(2) {
                    "10"
                } else {
                    "48"
                };
                let late = site.late.as_millis().to_string();
                command.args([&ttl, slots, &late]);
                command.args(self.terms.to_args());
                (node, command)
            }
            Role::Exec => {
                let mut command = Command::new(site.programs.cli);
                command.args(["--store", &self.store, "worker", "--name", &self.name]);
                command.args(["--slots", "8", "--grace", "500ms", "--retention", "forever"]);
                command.args(["--lease-ttl", &format!("{ttl}ms"), "--park-after", "300ms"]);
                (self.name.clone(), command)
            }
        };
        command
            .env("WINDLASS_LOG", "windlass=info")
            // Backtraces of the handlers that panic block all threads of the runtime, for seconds on a
            // busy machine: then nothing of the node runs, nor does it end its handlers in time.
            .env("RUST_BACKTRACE", "0")
            // Where the folders of tasks are, when the store has no folder.
            .env("XDG_DATA_HOME", &site.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn()?;
        let node = NodeName::new(node)?;
        site.journal.say_of(child.id(), Said::Launched { node });
        self.child = Some(child);
        Ok(())
    }

    /// Returns whether its process works; from then on it must not end on its own.
    fn works(&self) -> Result<bool, BoxError> {
        let log = fs::read(self.log())?;
        let log = log.get(usize::try_from(self.logged)?..).unwrap_or(&[]);
        Ok(String::from_utf8_lossy(log).contains(WORKING))
    }

    /// Supervises its process, which must not end on its own; with a disturbed store, a process
    /// that could not start is started again.
    ///
    /// # Errors
    ///
    /// When it has ended on its own.
    pub fn supervise(&mut self) -> Result<(), BoxError> {
        let Some(child) = self.child.as_mut() else {
            return Ok(());
        };
        let Some(status) = child.try_wait()? else {
            return Ok(());
        };
        if self.may_have_failed(status)? {
            return self.launch();
        }
        let log = fs::read_to_string(self.log())?;
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(format!(
            "worker {} ended by itself: {status}; its log ends:\n{}",
            self.name,
            last.join("\n")
        )
        .into())
    }

    /// Whether it ended as one does that finds no store.
    fn may_have_failed(&self, status: ExitStatus) -> Result<bool, BoxError> {
        let failed = status.code().is_some_and(|c| c != 0 && c != PANICKED);
        Ok(self.site.shaken && failed && !self.works()?)
    }

    /// Its process, which must not have ended on its own.
    fn child(&mut self) -> Result<&mut Child, BoxError> {
        self.supervise()?;
        let child = self.child.as_mut();
        Ok(child.ok_or("it was not started")?)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), BoxError> {
        let id = self.child()?.id();
        kill(Pid::from_raw(i32::try_from(id)?), signal)?;
        Ok(())
    }

    /// Kills its process. Of the two processes of a command line it kills both at once, the worker or
    /// the supervisor, by turns; when this returns, neither is left.
    ///
    /// # Errors
    ///
    /// When it had ended on its own, or the process that was spared does not end.
    pub async fn kill(&mut self) -> Result<(), BoxError> {
        let struck = self.strike()?;
        self.bury(struck).await
    }

    /// Sends SIGKILL as [`kill`](Self::kill) does, and waits for nothing: several workers are killed
    /// at the same time.
    ///
    /// # Errors
    ///
    /// When it had ended on its own.
    pub fn strike(&mut self) -> Result<Struck, BoxError> {
        let id = self.child()?.id();
        let supervisor = Pid::from_raw(i32::try_from(id)?);
        let turn = if self.stopped { 0 } else { self.lives % 3 };
        let worker = self.below()?;
        match (worker, turn) {
            (Some(worker), 1) => kill(worker, Signal::SIGKILL)?,
            (Some(worker), 0) => {
                // Neither can react to the death of the other.
                processes::suspend(supervisor)?;
                kill(worker, Signal::SIGKILL)?;
                kill(supervisor, Signal::SIGKILL)?;
            }
            _ => kill(supervisor, Signal::SIGKILL)?,
        }
        self.site.journal.say_of(id, Said::Killed);
        self.stopped = false;
        let left = if turn == 1 { "supervisor" } else { "worker" };
        Ok(Struck { worker, left })
    }

    /// Waits until neither process of a killed worker is left.
    ///
    /// # Errors
    ///
    /// When the process that was spared does not end.
    pub async fn bury(&mut self, struck: Struck) -> Result<(), BoxError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let deadline = Instant::now() + SLOW;
        while child.try_wait()?.is_none() || struck.worker.is_some_and(processes::lives) {
            if Instant::now() > deadline {
                self.child = Some(child);
                let (left, name) = (struck.left, &self.name);
                return Err(format!("the {left} of {name} did not end within {SLOW:?}").into());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The worker below a supervisor; `None` of a process without one, or that has none yet.
    fn below(&self) -> Result<Option<Pid>, BoxError> {
        match self.child.as_ref().filter(|_| self.role == Role::Exec) {
            Some(child) => processes::below(child.id()),
            None => Ok(None),
        }
    }

    /// Stops its process: it does nothing until it continues. Of the two processes of a command
    /// line it stops the worker, or both, by turns.
    ///
    /// # Errors
    ///
    /// When it had ended on its own.
    pub fn stop(&mut self) -> Result<(), BoxError> {
        self.stopped = true;
        let worker = self.below()?;
        if let Some(worker) = worker {
            processes::suspend(worker)?;
        }
        let id = self.child()?.id();
        // Recorded last: until now it may have acted.
        if worker.is_none() || self.lives.is_multiple_of(2) {
            processes::suspend(Pid::from_raw(i32::try_from(id)?))?;
            self.site.journal.say_of(id, Said::Stopped);
        } else {
            self.site.journal.say_of(id, Said::WorkerStopped);
        }
        Ok(())
    }

    /// Lets its process continue.
    ///
    /// # Errors
    ///
    /// When it had ended.
    pub fn go_on(&mut self) -> Result<(), BoxError> {
        // Recorded first, because from now on it may act.
        let id = self.child()?.id();
        self.site.journal.say_of(id, Said::Continued);
        if let Some(worker) = self.below()? {
            kill(worker, Signal::SIGCONT)?;
        }
        self.stopped = false;
        self.signal(Signal::SIGCONT)
    }

    /// Asks its process to shut down, and waits for that.
    ///
    /// # Errors
    ///
    /// When it has not within the time, or badly.
    pub async fn shut_down(&mut self, within: Duration) -> Result<(), BoxError> {
        self.signal(Signal::SIGTERM)?;
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let within = if self.site.shaken { SLOW } else { within };
        let deadline = Instant::now() + within;
        let status: ExitStatus = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                self.child = Some(child);
                return Err(
                    format!("worker {} did not shut down within {within:?}", self.name).into(),
                );
            }
            sleep(Duration::from_millis(10)).await;
        };
        // A process that got the signal before it could handle signals has nothing to release.
        if status.success() || status.signal() == Some(Signal::SIGTERM as i32) {
            return Ok(());
        }
        if self.may_have_failed(status)? {
            return Ok(());
        }
        Err(format!("worker {} shut down badly: {status}", self.name).into())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Ok(Some(worker)) = self.below() {
            let _ = kill(worker, Signal::SIGKILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
