//! The supervisor's side: it starts the worker, passes signals on, and ends what the worker's commands
//! leave.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    process::{Command, ExitCode},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tracing::{debug, error, warn};
use windlass::statemachine::Backoff;

use super::common::{MARK, mask, now};
use crate::command::process;

/// The grace for commands of a worker that ended on its own: it has released its lease.
const AFTER_EXIT: Duration = Duration::from_secs(1);
/// How long to wait for a killed process to disappear. A process that is stuck in the kernel may
/// take longer.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How long after the worker's deadline the supervisor ends the commands. The worker ends them at
/// the deadline itself, and the lease lasts longer (`windlass::runner::lease_margin`).
const SLACK_MS: i64 = 50;

/// Starts the worker, waits until it has ended, and ends what it left.
///
/// # Errors
///
/// When the worker could not be started. This process can then be the worker.
pub(super) fn run(grace: Duration) -> io::Result<ExitCode> {
    let mut supervisor = Supervisor::start()?;
    let status = supervisor.wait();
    let clean = matches!(status, WaitStatus::Exited(..));
    let longest = if clean { AFTER_EXIT } else { grace };
    // Without a deadline there is no lease, and the commands get no time.
    let left = supervisor.deadline().map_or(Duration::ZERO, left);
    supervisor.end(grace.min(longest).min(left));
    Ok(supervisor.conclude(status))
}

struct Supervisor {
    worker: Pid,
    mask: SigSet,
    signals: SignalFd,
    /// The pipe to the worker: a byte for each signal.
    passed: io::PipeWriter,
    /// The pipe from the worker: the moments until which it trusts its lease. `None` when it has
    /// ended.
    deadlines: Option<io::PipeReader>,
    /// The last reported moment that has not passed.
    deadline: Option<i64>,
}

/// Returns the time until the deadline.
fn left(deadline: i64) -> Duration {
    let left = now().map_or(0, |now| deadline.saturating_sub(now));
    Duration::from_millis(u64::try_from(left).unwrap_or(0))
}

fn inherited(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

impl Supervisor {
    fn start() -> io::Result<Self> {
        catch_children()?;
        let (from_us, passed) = io::pipe()?;
        let (deadlines, to_us) = io::pipe()?;
        inherited(&from_us)?;
        inherited(&to_us)?;
        fcntl(&deadlines, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mask = mask();
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // From here on these signals are pending until they are read. The worker inherits the mask,
        // and undoes it.
        mask.thread_block()?;
        let mut args = std::env::args_os();
        let program = args.next().unwrap_or_else(|| "windlass".into());
        // This path names the running program even when its file was replaced.
        let mut command = Command::new("/proc/self/exe");
        let (us, from, to) = (std::process::id(), from_us.as_raw_fd(), to_us.as_raw_fd());
        command.arg0(program).args(args);
        command.env(MARK, format!("{us} {from} {to}"));
        prctl::set_child_subreaper(true)?;
        let worker = match command.spawn() {
            Ok(child) => i32::try_from(child.id()).map_err(io::Error::other)?,
            Err(error) => {
                // This process will be the worker, which waits only for its own children.
                prctl::set_child_subreaper(false)?;
                mask.thread_unblock()?;
                return Err(error);
            }
        };
        Ok(Self {
            worker: Pid::from_raw(worker),
            mask,
            signals,
            passed,
            deadlines: Some(deadlines),
            deadline: None,
        })
    }

    /// Waits until the worker has ended. Meanwhile it passes signals on, reaps orphaned processes,
    /// and kills the commands of a worker that does not renew its lease.
    fn wait(&mut self) -> WaitStatus {
        loop {
            // Signals first: a child that ends after this check sends another signal.
            while let Some(signal) = self.signal() {
                self.pass(signal);
            }
            if let Some(status) = self.reap() {
                return status;
            }
            self.read_deadlines();
            if let Some(deadline) = self.deadline
                && now().is_ok_and(|now| now > deadline.saturating_add(SLACK_MS))
            {
                self.deadline = None;
                self.kill_commands();
            }
            self.sleep();
        }
    }

    /// Waits for a signal, a report of the worker, or its deadline.
    fn sleep(&self) {
        let timeout = match self.deadline {
            Some(deadline) => {
                let left = left(deadline.saturating_add(SLACK_MS + 1));
                // A longer wait is split into several.
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
            None => PollTimeout::NONE,
        };
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(deadlines) = &self.deadlines {
            fds.push(PollFd::new(deadlines.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                error!(%error, "the supervisor cannot wait for signals");
                sleep(Duration::from_millis(100));
            }
        }
    }

    /// Returns the next signal that was received.
    fn signal(&self) -> Option<Signal> {
        loop {
            let info = self.signals.read_signal().ok().flatten()?;
            let signal = i32::try_from(info.ssi_signo).ok();
            match signal.and_then(|number| Signal::try_from(number).ok()) {
                Some(Signal::SIGCHLD) | None => {}
                signal => return signal,
            }
        }
    }

    /// Passes a signal on. A worker that is starting has to end by the signal itself; a running
    /// worker counts the bytes.
    fn pass(&mut self, signal: Signal) {
        debug!(%signal, "passed on to the worker");
        let byte = u8::try_from(signal as i32).unwrap_or_default();
        // Both fail only if the worker has ended. It has not been waited for, so its number was not
        // reused.
        let _ = kill(self.worker, signal);
        let _ = self.passed.write_all(&[byte]);
    }

    /// Reaps all processes that have ended. Returns the status of the worker if it is among them.
    fn reap(&self) -> Option<WaitStatus> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return None,
                Ok(status) if status.pid() == Some(self.worker) => return Some(status),
                Ok(_) | Err(Errno::EINTR) => {}
                // No children: something else has waited for the worker.
                Err(_) => return Some(WaitStatus::Exited(self.worker, 1)),
            }
        }
    }

    fn read_deadlines(&mut self) {
        let Some(pipe) = &mut self.deadlines else {
            return;
        };
        // A report is written in one call, and so read in one call.
        let mut report = [0; 8];
        loop {
            match pipe.read(&mut report) {
                Ok(8) => self.deadline = Some(i64::from_le_bytes(report)),
                Ok(0) => {
                    self.deadlines = None;
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Returns the moment until which the worker trusted its lease, as it last reported.
    fn deadline(&mut self) -> Option<i64> {
        self.read_deadlines();
        self.deadline
    }

    /// Kills the commands of a worker that stands still: its lease is about to end.
    fn kill_commands(&self) {
        let us = std::process::id() as i32;
        let mut killed = 0;
        for (pid, _) in process::descendants(us) {
            if pid != self.worker.as_raw() && send(pid, Signal::SIGKILL) {
                killed += 1;
            }
        }
        if killed > 0 {
            warn!(
                killed,
                "the worker has not renewed its lease: its commands were killed"
            );
        }
    }

    /// Ends everything that is left: SIGTERM, and SIGKILL for what lives after the grace. One more
    /// signal to the supervisor ends the grace.
    fn end(&self, grace: Duration) {
        let us = std::process::id() as i32;
        let term_until = Instant::now() + grace;
        let give_up = term_until + AFTER_KILL;
        let mut reported = HashSet::new();
        let mut kills = grace.is_zero();
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
        loop {
            while waitpid(None, Some(WaitPidFlag::WNOHANG))
                .is_ok_and(|s| s != WaitStatus::StillAlive)
            {}
            let left = process::descendants(us);
            if left.is_empty() {
                return;
            }
            if reported.is_empty() {
                warn!(
                    processes = left.len(),
                    "the worker has ended: ending the processes that it left running"
                );
            }
            kills |= Instant::now() >= term_until;
            while let Some(signal) = self.signal() {
                kills |= signal != Signal::SIGHUP;
            }
            if Instant::now() >= give_up {
                let left: Vec<i32> = left.iter().map(|(pid, _)| *pid).collect();
                error!(
                    ?left,
                    "processes that the worker left were killed and are still there"
                );
                return;
            }
            // Processes that these start in the meantime are found by the next search.
            for (pid, stat) in left {
                let new = reported.insert((pid, stat.start));
                if kills {
                    send(pid, Signal::SIGKILL);
                } else if new {
                    send(pid, Signal::SIGTERM);
                    // A stopped process (SIGSTOP) handles SIGTERM only when it continues.
                    send(pid, Signal::SIGCONT);
                }
            }
            sleep(backoff.pause());
        }
    }

    /// Ends like the worker: with its exit code, or by the same signal.
    fn conclude(&self, status: WaitStatus) -> ExitCode {
        match status {
            WaitStatus::Exited(_, code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            WaitStatus::Signaled(_, signal, _) => {
                warn!(%signal, "the worker was ended by a signal");
                // A core dump of the supervisor would be of no use.
                let _ = prctl::set_dumpable(false);
                let _ = self.mask.thread_unblock();
                // Twice: the standard library handles a first SIGSEGV.
                for _ in 0..2 {
                    let _ = kill(Pid::this(), signal);
                }
                // Process 1 of a container is not ended by its own signals.
                ExitCode::from(128 + u8::try_from(signal as i32).unwrap_or(0))
            }
            _ => ExitCode::FAILURE,
        }
    }
}

/// Sends a signal to one process. Returns false if the process is gone, or may not be signalled.
fn send(pid: i32, signal: Signal) -> bool {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => true,
        Err(Errno::ESRCH) => false,
        Err(error) => {
            warn!(pid, %signal, %error, "a process that the worker left could not be signalled");
            false
        }
    }
}

/// Restores SIGCHLD, which some parents leave ignored: children could not be waited for. It sets a
/// handler, because that is the only way in safe code. The handler never runs: the signal is
/// blocked.
fn catch_children() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _entered = runtime.enter();
    signal(SignalKind::child()).map(drop)
}
