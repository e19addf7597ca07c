//! The environment variable with the tasks that a command has waited for.

use windlass::TaskContext;

/// The longest list of tasks in a variable, in bytes: Linux accepts no variable of more than 128
/// KiB.
const MOST_WAITED: usize = 100_000;

/// Returns the tasks that this run has waited for, as JSON. `None` when it is too long for a
/// variable.
pub(super) fn json(task: &TaskContext) -> Option<String> {
    let waited = task.waited();
    if waited.is_empty() {
        return None;
    }
    let json = serde_json::to_string(&**waited).ok()?;
    (json.len() <= MOST_WAITED).then_some(json)
}
