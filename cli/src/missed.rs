//! Deadlines that have passed when a task is submitted: the task fails, whichever node claims it.

use jiff::Timestamp;
use windlass::{Task, TaskState};

/// Returns the deadline of a new task that has passed: the task will fail without a run.
pub(crate) fn missed(task: &Task, now: Timestamp) -> Option<String> {
    TaskState::first(task, now).missed(now)
}

/// Returns the note about this many submitted tasks that have missed a deadline; `None` for zero.
pub(crate) fn note(tasks: usize) -> Option<String> {
    let have = match tasks {
        0 => return None,
        1 => "1 task has".to_owned(),
        tasks => format!("{tasks} tasks have"),
    };
    let fails = if tasks == 1 { "it fails" } else { "they fail" };
    Some(format!(
        "note: {have} a start_by or end_by that has passed; {fails} without a run"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_counts() {
        assert_eq!(note(0), None);
        let one = "note: 1 task has a start_by or end_by that has passed; it fails without a run";
        assert_eq!(note(1).as_deref(), Some(one));
        assert!(
            note(2).is_some_and(|text| text.contains("2 tasks have") && text.contains("they fail"))
        );
    }
}
