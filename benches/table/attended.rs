//! A run has a folder and its own process group. The process that was started attends to them: however the
//! run ends, it ends what the run has started, and removes the folder.

use std::{
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitCode, ExitStatus},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

use crate::support::Setting;

/// Set for the process that measures.
const ATTENDED: &str = "WINDLASS_BENCH_ATTENDED";
/// How long an interrupted run has to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn is_attended() -> bool {
    std::env::var_os(ATTENDED).is_some()
}

/// Runs this program with the same arguments in a folder that is removed at the end.
pub(crate) fn run(setting: &Setting) -> ExitCode {
    let folder = tempfile::Builder::new()
        .prefix("windlass-bench-")
        .tempdir_in(setting.place())
        .unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(std::env::args_os().skip(1))
        .arg("--dir")
        .arg(folder.path())
        .env(ATTENDED, "1")
        .process_group(0);
    let status = crate::support::runtime().block_on(attend(command));
    drop(folder);
    let code = status.code();
    let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

async fn attend(mut command: Command) -> ExitStatus {
    let mut interrupts = signal(SignalKind::interrupt()).unwrap();
    let mut ends = signal(SignalKind::terminate()).unwrap();
    let mut child = command.spawn().unwrap();
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    let status = tokio::select! {
        status = &mut ended => status.unwrap(),
        _ = interrupts.recv() => interrupted(group, &mut ended).await,
        _ = ends.recv() => interrupted(group, &mut ended).await,
    };
    // What a run that failed has left.
    while killpg(group, Signal::SIGKILL).is_ok() {
        sleep(Duration::from_millis(10)).await;
    }
    status
}

async fn interrupted(group: Pid, ended: &mut tokio::task::JoinHandle<ExitStatus>) -> ExitStatus {
    // A group that has ended in the meantime has no processes.
    let _ = killpg(group, Signal::SIGTERM);
    if let Ok(status) = timeout(PATIENCE, &mut *ended).await {
        return status.unwrap();
    }
    let _ = killpg(group, Signal::SIGKILL);
    ended.await.unwrap()
}
