//! [`Link`]: what the worker receives from its supervisor, and reports to it.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only Linux has supervisors")
)]

use std::{
    fs::File,
    io::{self, Write},
    sync::Arc,
    time::Instant,
};

use futures::{FutureExt, Stream, StreamExt, stream};
use tokio::sync::mpsc;
use windlass::runner::{Runner, StopSignals};

use super::{
    common::{MARK, mask, now},
    stops::{Received, Stops},
};

/// The pipes between a worker and its supervisor. The default is a worker without a supervisor.
#[derive(Debug, Clone, Default)]
pub struct Link(Option<Arc<Pipes>>);

#[derive(Debug)]
struct Pipes {
    supervisor: u32,
    /// A pipe with one byte for each signal that the supervisor received. It is closed when the
    /// supervisor ends.
    signals: File,
    /// A pipe for the moments until which the worker trusts its lease.
    deadlines: File,
}

/// What a process finds out about its supervisor when it starts.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(super) enum Found {
    /// It is the worker of a supervisor.
    Worker(Link),
    /// It is the worker of a supervisor that has ended.
    Orphan,
    /// It has no supervisor.
    Nothing,
}

/// Checks whether this process is the worker of a supervisor, and if so opens the pipes.
#[cfg(target_os = "linux")]
pub(super) fn find() -> Found {
    let Ok(mark) = std::env::var(MARK) else {
        return Found::Nothing;
    };
    let numbers: Vec<i32> = (mark.split(' ')).filter_map(|n| n.parse().ok()).collect();
    let [supervisor, signals, deadlines] = numbers[..] else {
        return Found::Nothing;
    };
    if nix::unistd::getppid().as_raw() != supervisor {
        // Distinguishes a worker from a process that inherited the variable from another process.
        let is_worker = is_pipe(signals) && is_pipe(deadlines);
        return if is_worker {
            Found::Orphan
        } else {
            Found::Nothing
        };
    }
    // Before another thread starts: threads and commands inherit the blocked signals.
    if let Err(error) = mask().thread_unblock() {
        tracing::warn!(%error, "the worker cannot receive signals; its supervisor can");
    }
    // Starts a session without a terminal, also for the commands: a command that opens /dev/tty then
    // gets an error, where the kernel would stop it silently (SIGTTIN). The supervisor stays in the
    // terminal's session and passes its signals on.
    if let Err(error) = nix::unistd::setsid() {
        tracing::warn!(%error, "the worker could not leave the terminal: a command that reads from it waits for ever");
    }
    match Pipes::take(supervisor, signals, deadlines) {
        Ok(pipes) => {
            take_name();
            Found::Worker(Link(Some(Arc::new(pipes))))
        }
        Err(error) => {
            tracing::warn!(%error, "the worker cannot read from its supervisor");
            Found::Worker(Link::default())
        }
    }
}

/// Gives this process the name of its program: it was started as `/proc/self/exe`, and would be
/// listed as `exe`.
#[cfg(target_os = "linux")]
fn take_name() {
    use std::os::unix::ffi::OsStrExt;
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program)
        .file_name()
        .unwrap_or_default();
    if let Ok(name) = std::ffi::CString::new(name.as_bytes()) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

#[cfg(target_os = "linux")]
fn is_pipe(number: i32) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
    link.is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
}

impl Pipes {
    fn write(&self, moment: Instant) {
        let left = moment.saturating_duration_since(Instant::now());
        let left = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
        if let Ok(now) = now() {
            // A supervisor that has ended reads nothing: the worker notices it by the other pipe.
            let _ = (&self.deadlines).write_all(&now.saturating_add(left).to_le_bytes());
        }
    }

    /// Opens the pipes again, as files that commands do not inherit, and closes the inherited ones.
    #[cfg(target_os = "linux")]
    fn take(supervisor: i32, signals: i32, deadlines: i32) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = |number: i32| format!("/proc/self/fd/{number}");
        let pipes = Self {
            supervisor: u32::try_from(supervisor).map_err(io::Error::other)?,
            signals: File::open(path(signals))?,
            // A supervisor that stands still must not block its worker.
            deadlines: File::options()
                .write(true)
                .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
                .open(path(deadlines))?,
        };
        nix::unistd::close(signals)?;
        nix::unistd::close(deadlines)?;
        Ok(pipes)
    }
}

impl Link {
    /// Returns the process id of the supervisor; `None` without one.
    pub fn supervisor(&self) -> Option<u32> {
        self.0.as_ref().map(|pipes| pipes.supervisor)
    }

    /// Returns the stream of reasons to stop: the first stops the node, the next aborts.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals.
    pub fn stops(&self) -> io::Result<impl Stream<Item = &'static str> + Unpin + use<>> {
        let mut own = StopSignals::listen()?;
        let (tx, mut rx) = mpsc::unbounded_channel();
        if let Some(pipes) = &self.0 {
            let (pipes, tx, counts) = (pipes.clone(), tx.clone(), own.names());
            std::thread::Builder::new()
                .name("supervisor".into())
                .spawn(move || listen(&pipes.signals, &counts, &tx))?;
        }
        tokio::spawn(async move {
            while let Some(name) = own.next().await {
                if tx.send(Received::Signal(name)).is_err() {
                    return;
                }
            }
        });
        let received = stream::poll_fn(move |cx| rx.poll_recv(cx));
        let mut stops = Stops::new(self.0.is_some());
        let reasons =
            received.filter_map(move |received| std::future::ready(stops.receive(received)));
        Ok(reasons)
    }

    /// Reports to the supervisor how long the node trusts its lease, until the node ends.
    pub fn report(&self, runner: &Runner) {
        let Some(pipes) = self.0.clone() else {
            return;
        };
        let mut deadlines = Box::pin(runner.lease_deadlines());
        // Sends the first report now, before the node has claimed anything.
        if let Some(Some(moment)) = deadlines.next().now_or_never() {
            pipes.write(moment);
        }
        tokio::spawn(async move {
            while let Some(moment) = deadlines.next().await {
                pipes.write(moment);
            }
        });
    }
}

/// Reads the signals that the supervisor passes on, until it ends. `counts`: the signals that this
/// process does not ignore.
fn listen(mut signals: &File, counts: &[&'static str], tx: &mpsc::UnboundedSender<Received>) {
    use std::io::Read;
    let mut byte = [0];
    loop {
        let received = match signals.read(&mut byte) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok(1..) => {
                let signal = nix::sys::signal::Signal::try_from(i32::from(byte[0]));
                let name = signal.ok().map(nix::sys::signal::Signal::as_str);
                match counts.iter().find(|known| Some(**known) == name) {
                    Some(name) => Received::Passed(name),
                    None => continue,
                }
            }
            Ok(0) | Err(_) => Received::Gone,
        };
        if tx.send(received).is_err() || received == Received::Gone {
            return;
        }
    }
}
