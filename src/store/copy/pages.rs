//! [`Pages`]: how many tasks a copy reads at once.

use windlass_statemachine::TaskId;

use crate::store::{Error, Exported, Limits};

/// The most tasks that are copied in one call.
pub(super) const AT_ONCE: usize = 200;

/// Reads tasks page by page. Pages have fewer tasks after pages with many bytes.
pub(super) struct Pages<'a> {
    left: &'a [TaskId],
    size: usize,
}

impl<'a> Pages<'a> {
    pub(super) fn new(ids: &'a [TaskId]) -> Self {
        // Tasks of the largest size fill a write.
        let size = Limits::WRITE_BYTES / Limits::default().max_bytes;
        Self { left: ids, size }
    }

    pub(super) fn next(&mut self) -> Option<&'a [TaskId]> {
        let (page, left) = self.left.split_at(self.size.min(self.left.len()));
        self.left = left;
        Some(page).filter(|page| !page.is_empty())
    }

    /// Chooses the size of the next page after one with these tasks.
    pub(super) fn sized(&mut self, read: &[Result<Exported, Error>]) {
        let sizes = read.iter().filter_map(|one| one.as_ref().ok());
        let bytes: usize = sizes.map(Exported::bytes).sum();
        self.size = match bytes {
            bytes if bytes > Limits::WRITE_BYTES => self.size / 2,
            bytes if bytes > Limits::WRITE_BYTES / 4 => self.size,
            _ => self.size * 2,
        }
        .clamp(1, AT_ONCE);
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Json, Task, TaskState};

    use super::*;

    fn exported(bytes: usize) -> Result<Exported, Error> {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.props = Json::new("props", &"x".repeat(bytes)).unwrap();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let state = TaskState::new(at);
        let record = crate::store::TaskRecord {
            task,
            state: Ok(state),
            order: 1,
            submitted_at: at,
            node: None,
            fence: Default::default(),
            commands: 0,
            limited_by: None,
        };
        Exported::new(record, None, Vec::new(), Vec::new())
    }

    #[test]
    fn pages_grow_with_small_tasks_and_shrink_with_large_ones() {
        let ids: Vec<TaskId> = (0..1000)
            .map(|n| format!("t{n}").parse().unwrap())
            .collect();
        let mut pages = Pages::new(&ids);
        assert_eq!(pages.next().unwrap().len(), 16, "of the largest size");
        let mut read = 16;
        for (each, expected) in [
            (1, 32),
            (1, 64),
            (1 << 20, 32),
            (1 << 18, 32),
            (1 << 10, 64),
        ] {
            let tasks: Vec<_> = (0..pages.size).map(|_| exported(each)).collect();
            pages.sized(&tasks);
            assert_eq!(
                pages.next().unwrap().len(),
                expected,
                "after tasks of {each} bytes"
            );
            read += expected;
        }
        while let Some(page) = pages.next() {
            assert!(page.len() <= AT_ONCE);
            read += page.len();
            pages.sized(&[]);
        }
        assert_eq!(read, ids.len(), "each task is read once");
    }
}
