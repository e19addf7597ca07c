//! The ids of the tasks and commands that handlers make.

use windlass::TaskId;

/// Returns whether the plan's task of this id submits children. Such a task is not deleted: the
/// checkers look for its children.
pub fn has_children(id: &TaskId) -> bool {
    ["parent-", "sower-"]
        .iter()
        .any(|kind| id.as_str().starts_with(kind))
}

/// The id of a child.
pub fn child(parent: &TaskId, number: u64) -> String {
    format!("{parent}.{number}")
}

/// The id of the command that a parent sends to its first child.
pub fn command_to_child(parent: &TaskId) -> String {
    format!("{parent}.command")
}

/// The id of a task that comes only with effects that are refused.
pub fn never(sower: &TaskId, number: u64) -> String {
    format!("{sower}.never-{number}")
}

/// The id of a child that is drawn in every attempt: a second execution of the effects makes a
/// second child.
pub fn stray_child(parent: &TaskId) -> String {
    format!("{parent}{STRAY}{:016x}", fastrand::u64(..))
}

/// The id of a command to the first child that is drawn in every attempt.
pub fn stray_command(parent: &TaskId) -> String {
    format!(
        "{}{STRAY}{:016x}",
        command_to_child(parent),
        fastrand::u64(..)
    )
}

/// What is between the parent's part of such an id and the part that is drawn.
pub const STRAY: char = '~';
