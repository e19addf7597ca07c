//! [`Settings`]: the options of a run that apply to its tasks.

/// What to do with tasks of an earlier run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    /// Whether tasks that have ended run again.
    pub(super) again: bool,
    /// Whether tasks that failed run again.
    pub(super) retry_failed: bool,
    /// Whether the first failure ends the run.
    pub(super) fail_fast: bool,
    /// Run at most N commands at once: the node may have claimed more.
    pub(super) jobs: usize,
}
