//! [`NewTasks`]: tasks as their submits wrote them, which can be claimed without a read.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use windlass_statemachine::TaskId;

use crate::store::etcd::schema::KeyValue;

/// The most tasks that are kept. Claims of further tasks read them.
const MOST: usize = 4096;
/// The largest envelope that is kept, in bytes.
const LARGEST: usize = 1024;

/// The envelopes of unclaimed tasks, as delivered by the watch. They may be outdated, so a claim compares
/// them.
#[derive(Default)]
pub(crate) struct NewTasks {
    kept: Mutex<HashMap<TaskId, KeyValue>>,
}

impl NewTasks {
    fn kept(&self) -> MutexGuard<'_, HashMap<TaskId, KeyValue>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the envelope of a task that was submitted, if there is room.
    pub(crate) fn add(&self, id: TaskId, envelope: &KeyValue) {
        if envelope.value().len() > LARGEST {
            return;
        }
        let mut kept = self.kept();
        // The oldest stay, because nodes claim in the order of the submits.
        if kept.len() < MOST || kept.contains_key(&id) {
            kept.insert(id, envelope.clone());
        }
    }

    /// Takes out the envelope of a task that is about to be claimed.
    pub(crate) fn take(&self, id: &TaskId) -> Option<KeyValue> {
        self.kept().remove(id)
    }

    /// Removes a task that was claimed or deleted.
    pub(crate) fn forget(&self, id: &TaskId) {
        self.kept().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TaskId {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_new_task_is_taken_once_and_the_oldest_stay() {
        let tasks = NewTasks::default();
        for n in 0..MOST {
            tasks.add(id(&format!("t{n}")), &KeyValue::new("k", "", n as i64 + 1));
        }
        tasks.add(id("late"), &KeyValue::new("k", "", 9));
        assert_eq!(tasks.take(&id("late")), None);
        let taken = tasks.take(&id("t0"));
        assert_eq!(taken.map(|kv| kv.mod_revision()), Some(1));
        assert_eq!(tasks.take(&id("t0")), None);
        tasks.forget(&id("t1"));
        assert_eq!(tasks.take(&id("t1")), None);
        tasks.add(
            id("large"),
            &KeyValue::new("k", &"x".repeat(LARGEST + 1), 9),
        );
        assert_eq!(tasks.take(&id("large")), None);
    }

    #[test]
    fn a_task_that_is_submitted_again_replaces_the_one_before() {
        let tasks = NewTasks::default();
        tasks.add(id("a"), &KeyValue::new("k", "", 1));
        tasks.add(id("a"), &KeyValue::new("k", "", 7));
        let taken = tasks.take(&id("a"));
        assert_eq!(taken.map(|kv| kv.mod_revision()), Some(7));
    }
}
