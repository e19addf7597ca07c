//! The supervisor: makes sure that no command outlives the claim of its worker.
//!
//! `windlass worker` and `windlass run` are two processes. The one that was started becomes the
//! supervisor: it starts the same program again as the worker ([`enter`]), waits, and ends with the
//! worker's status. All processes that the worker's commands leave behind become children of the
//! supervisor (`PR_SET_CHILD_SUBREAPER`), including those that called `setsid`, so the supervisor
//! finds them.
//!
//! - **The worker ends**, for any reason: the supervisor ends the remaining processes of its
//!   commands: SIGTERM, and SIGKILL before the worker's lease can end.
//! - **The worker stands still** (SIGSTOP, swapped out): the worker reports how long it trusts its
//!   lease. When that time passes without a new report, the supervisor kills the commands.
//! - **The supervisor ends**: the worker finds the pipe from it closed, and stops as on SIGTERM.
//! - **Both are killed at once**: the next worker on the machine ends what they left
//!   (`command::leftover`).
//!
//! | module | what |
//! |---|---|
//! | `link` | the worker's side: what it receives from its supervisor, and reports to it |
//! | `stops` | which signals count when both processes receive them |
//! | `watch` | the supervisor's side |
//!
//! The supervisor needs Linux. On other systems the worker has no supervisor, and its commands
//! outlive it when it is killed.

mod common;
mod link;
mod stops;
#[cfg(target_os = "linux")]
mod watch;

use std::{process::ExitCode, time::Duration};

pub use self::link::Link;

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Role {
    /// The worker, with or without a supervisor.
    Worker(Link),
    /// It was the supervisor. The worker has ended, and this process should end too.
    Supervisor(ExitCode),
}

/// Makes this process the supervisor of a new worker, or detects that it is the worker. `grace`:
/// the longest time of commands between SIGTERM and SIGKILL.
#[cfg(target_os = "linux")]
pub fn enter(grace: Duration) -> Role {
    match link::find() {
        link::Found::Worker(link) => Role::Worker(link),
        // The supervisor was killed before its worker checked.
        link::Found::Orphan => Role::Supervisor(ExitCode::from(128 + 15)),
        link::Found::Nothing => match watch::run(grace) {
            Ok(code) => Role::Supervisor(code),
            Err(error) => {
                tracing::warn!(%error, "the supervisor could not start: commands outlive this worker when it is killed");
                Role::Worker(Link::default())
            }
        },
    }
}

/// Returns the role of a worker: this system has no supervisor.
#[cfg(not(target_os = "linux"))]
pub fn enter(_grace: Duration) -> Role {
    Role::Worker(Link::default())
}
