//! What `/proc` says about processes.

use std::fs;

use nix::unistd::Pid;

use crate::BoxError;

/// Returns the child of a process that runs the same program: the worker below a supervisor.
pub(crate) fn below(supervisor: u32) -> Result<Option<Pid>, BoxError> {
    let supervisor = supervisor.to_string();
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(&supervisor);
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|n| n.parse::<i32>().is_ok()) else {
            continue;
        };
        let is_child = stat(pid).is_some_and(|(_, parent)| parent == supervisor);
        if is_child && program(pid) == own {
            return Ok(Some(Pid::from_raw(pid.parse()?)));
        }
    }
    Ok(None)
}

/// Returns whether a process lives, and the id of its parent.
fn stat(pid: &str) -> Option<(bool, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    Some((lives, fields.next()?.to_owned()))
}

/// Returns whether a process lives; a zombie does not.
pub(crate) fn lives(pid: Pid) -> bool {
    stat(&pid.to_string()).is_some_and(|(lives, _)| lives)
}
