//! The supervisor: no command outlives the claim of its worker.
//!
//! `windlass worker` and `windlass run` are two processes. The one that was started becomes the
//! supervisor: it starts the same program again as the worker ([`enter`]), waits, and ends with the
//! worker's status. Everything that the worker's commands start and leave behind becomes a child of
//! the supervisor (`PR_SET_CHILD_SUBREAPER`), also what called `setsid`, so the supervisor finds it.
//!
//! - **The worker ends**, in whatever way: the supervisor ends all that is left of its commands.
//!   SIGTERM, and SIGKILL before the worker's lease can end.
//! - **The worker stands still** (SIGSTOP, swapped out): it reports how long it trusts its lease. When
//!   that moment passes without a new one, the supervisor kills the commands.
//! - **The supervisor ends**: the worker finds the pipe from it closed, and stops as for SIGTERM.
//! - **Both are killed at once**: the next worker on the machine ends what they left
//!   (`command::leftover`).
//!
//! | module | what |
//! |---|---|
//! | `link` | the worker's side: what it receives from its supervisor, and reports to it |
//! | `stops` | which signals count when both processes receive them |
//! | `watch` | the supervisor's side |
//!
//! It needs Linux. Elsewhere the worker has no supervisor, and its commands outlive it when it is
//! killed.

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
    /// It was the supervisor. The worker has ended; so should this process.
    Supervisor(ExitCode),
}

/// Makes this process the supervisor of a new one, or finds that it is the worker. `grace` is how
/// long commands have at most between SIGTERM and SIGKILL.
#[cfg(target_os = "linux")]
pub fn enter(grace: Duration) -> Role {
    match link::find() {
        link::Found::Worker(link) => Role::Worker(link),
        // It was killed before this process came to look.
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

/// This process is the worker: there is no supervisor on this system.
#[cfg(not(target_os = "linux"))]
pub fn enter(_grace: Duration) -> Role {
    Role::Worker(Link::default())
}
