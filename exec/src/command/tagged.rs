//! The environment variables that name the task and the claim of a process, and a search for such
//! processes.

use windlass::Fence;

use super::{folder::Folder, process};

/// The variable that names the file where a command keeps its progress.
pub(crate) const STATE_DIR: &str = "WINDLASS_STATE_DIR";
/// The variable that holds the number of the claim.
pub(crate) const FENCE: &str = "WINDLASS_FENCE";

/// Returns the groups that have a process of this folder whose claim is accepted. `None` stands for
/// a process that does not name its claim.
pub(super) fn groups_of(folder: &Folder, accepts: impl Fn(Option<Fence>) -> bool) -> Vec<i32> {
    let mut dir = format!("{STATE_DIR}=").into_bytes();
    dir.extend_from_slice(folder.path.as_os_str().as_encoded_bytes());
    process::groups_where(|environment| {
        let entries = || environment.split(|byte| *byte == 0);
        entries().any(|entry| entry == dir) && accepts(entries().find_map(fence_in))
    })
}

/// Returns whether the environment of a process names the folder of another task.
pub(super) fn is_of_another(folder: &Folder, pid: i32) -> bool {
    let own = folder.path.as_os_str().as_encoded_bytes();
    let environment = process::environment(pid).unwrap_or_default();
    let dir = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(STATE_DIR.as_bytes())?.strip_prefix(b"="));
    dir.is_some_and(|dir| dir != own)
}

/// Returns the fence in the entry of an environment that holds one.
fn fence_in(entry: &[u8]) -> Option<Fence> {
    let value = entry.strip_prefix(FENCE.as_bytes())?.strip_prefix(b"=")?;
    std::str::from_utf8(value).ok()?.parse().ok().map(Fence)
}
