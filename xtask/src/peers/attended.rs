//! The folder of a run, and what an interrupted run leaves behind.
//!
//! The process that was started runs the measurement in its own process group, and starts an attendant. The
//! attendant holds a pipe from the first process. When the pipe closes, however that process ended, the attendant
//! ends the process group and removes the folder.

use std::{
    env, fs,
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// The chore of the attendant: `peers-tidy GROUP FOLDER`.
pub(crate) const CHORE: &str = "peers-tidy";

/// Set for the process that measures.
const FOLDER: &str = "WINDLASS_PEERS_FOLDER";

/// How often, and how long between two looks, an ended group is waited for before it is killed.
const LOOKS: (u32, Duration) = (50, Duration::from_millis(100));

/// The folder of this run, if this is the process that measures.
pub(super) fn folder() -> Option<PathBuf> {
    env::var_os(FOLDER).map(PathBuf::from)
}

/// The folder in which cargo builds.
pub(super) fn target() -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|e| format!("this program was not found: {e}"))?;
    let target = this.ancestors().nth(2);
    target
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("{} is in no target folder", this.display()))
}

/// Runs this program with the same arguments in a new folder below `dir`.
pub(super) fn run(dir: Option<&Path>, args: &[String]) -> Result<(), String> {
    let place = match dir {
        Some(dir) => dir.to_path_buf(),
        None => target()?.join("peers"),
    };
    let folder = place.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| {
        format!(
            "could not create {}: {e}; choose another --dir",
            folder.display()
        )
    })?;
    let this = env::current_exe().map_err(|e| format!("this program was not found: {e}"))?;
    let mut measuring = Command::new(&this);
    let measuring = measuring
        .args(["bench", "peers"])
        .args(args)
        .env(FOLDER, &folder)
        .stdin(Stdio::null())
        .process_group(0);
    let mut measuring = started("the measurement", measuring)?;
    let mut attendant = Command::new(&this);
    let attendant = attendant
        .args([CHORE, &measuring.id().to_string()])
        .arg(&folder)
        .stdin(Stdio::piped())
        .process_group(0);
    let mut attendant = started("the attendant", attendant)?;
    let status = measuring.wait();
    drop(attendant.stdin.take());
    let _ = attendant.wait();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("bench peers: {status}")),
        Err(e) => Err(format!("the measurement could not be waited for: {e}")),
    }
}

fn started(what: &str, command: &mut Command) -> Result<Child, String> {
    command
        .spawn()
        .map_err(|e| format!("{what} could not be started: {e}"))
}

/// Waits until the first process has ended, ends the group, and removes the folder.
pub(crate) fn tidy(args: &[String]) -> Result<(), String> {
    let [group, folder] = args else {
        return Err(format!("write: cargo xtask {CHORE} GROUP FOLDER"));
    };
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // A group without processes refuses the signal.
    let signal = |name: &str| {
        let mut kill = Command::new("kill");
        kill.args([name, "--", &format!("-{group}")]);
        kill.stderr(Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    };
    signal("-TERM");
    for _ in 0..LOOKS.0 {
        if !signal("-0") {
            break;
        }
        sleep(LOOKS.1);
    }
    signal("-KILL");
    fs::remove_dir_all(folder).map_err(|e| format!("could not remove {folder}: {e}"))
}
