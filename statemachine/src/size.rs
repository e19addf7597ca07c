//! [`Size`]: how many bytes of a state count against a store's limit.

use crate::{TaskState, TaskStatus};

/// The bytes of a state that count against the limit of a store, together with the task's props.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{TaskState, size::Size};
/// use jiff::Timestamp;
///
/// let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
/// state.data = Some(serde_json::json!({"page": 7}).into());
/// let size = Size::of(&state);
/// assert_eq!((size.bytes(), size.largest()), (10, "data"));
/// assert!(size.fits(10) && !size.fits(9));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the handler's data.
    pub data: usize,
    /// Bytes of the result of a completed task.
    pub result: usize,
    /// Bytes of the replies to signals in the same write.
    pub reply: usize,
}

impl Size {
    /// Returns the size of a state.
    pub fn of(state: &TaskState) -> Self {
        let result = match &state.status {
            TaskStatus::Completed { result } => result.as_ref().map_or(0, |json| json.len()),
            _ => 0,
        };
        Self {
            data: state.data.as_ref().map_or(0, |json| json.len()),
            result,
            reply: 0,
        }
    }

    /// Returns the total of data, result and replies.
    pub fn bytes(self) -> usize {
        let state = self.data.saturating_add(self.result);
        state.saturating_add(self.reply)
    }

    /// Returns the name of the largest field: `data`, `result` or `reply`.
    pub fn largest(self) -> &'static str {
        if self.reply > self.data.max(self.result) {
            "reply"
        } else if self.result > self.data {
            "result"
        } else {
            "data"
        }
    }

    /// Returns whether the state fits into `room` bytes. A state without data and result always
    /// does: the props alone may fill a store.
    pub fn fits(self, room: usize) -> bool {
        self.bytes() == 0 || self.bytes() <= room
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_result_of_a_completed_task_counts() {
        let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
        assert_eq!(Size::of(&state), Size::default());
        let result = Some(json!("12").into());
        state.status = TaskStatus::Completed { result };
        let size = |data, result| Size {
            data,
            result,
            reply: 0,
        };
        assert_eq!(Size::of(&state), size(0, 4));
        state.data = Some(json!([1, 2]).into());
        let size = Size::of(&state);
        assert_eq!((size.data, size.bytes(), size.largest()), (5, 9, "data"));
        state.status = TaskStatus::Failed;
        assert_eq!(Size::of(&state).bytes(), 5);
    }

    #[test]
    fn nothing_fits_everywhere() {
        assert!(Size::default().fits(0));
        let size = Size {
            data: 1,
            result: 1,
            reply: 2,
        };
        assert!(size.fits(4) && !size.fits(3));
        assert_eq!(size.largest(), "reply");
    }
}
