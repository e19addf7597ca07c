//! The record of a unique key: its holder, and until when the key is taken.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Task, TaskId};

use super::{
    json::{parse, write},
    kv::KeyValue,
    snapshot::Snapshot,
};
use crate::store::{
    Error,
    rules::{facts::Holder, kept_time::kept, unique::until},
};

/// `/NS/meta/unique/KEY`. A record whose task is gone is ignored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unique {
    task: TaskId,
    /// The submit time, which distinguishes tasks with the same id.
    submitted_at: Timestamp,
    pub(crate) until: Timestamp,
}

impl Unique {
    /// Returns the key and the record of a task that is submitted at this time; `None` without a unique key.
    pub(crate) fn of(task: &Task, submitted_at: Timestamp) -> Option<(&str, Self)> {
        let unique = task.unique.as_ref()?;
        let submitted_at = kept(submitted_at);
        let record = Self {
            task: task.id.clone(),
            submitted_at,
            until: until(unique, submitted_at),
        };
        Some((unique.key(), record))
    }

    /// Reads a record. An unreadable one is ignored: the next submit with the key replaces it.
    pub(crate) fn read(kv: &KeyValue) -> Option<Self> {
        parse(kv).ok()
    }

    pub(crate) fn write(&self) -> Result<String, Error> {
        write("unique", self)
    }

    /// Returns the task that may have the key.
    pub(crate) fn task(&self) -> &TaskId {
        &self.task
    }

    /// Returns the holder, if `found` is the task of the record.
    pub(crate) fn holder(&self, key: &str, found: &Snapshot) -> Option<Holder> {
        let (envelope, _) = found.envelope().ok()?;
        let terms = envelope.terms.as_ref()?;
        let is_its = terms.unique.as_ref().is_some_and(|own| own.key() == key);
        let is_same = envelope.submitted_at == Some(self.submitted_at);
        (is_its && is_same).then(|| Holder {
            task: self.task.clone(),
            until: self.until,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_statemachine as machine;

    use super::*;
    use crate::store::etcd::schema::Envelope;

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> T {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn a_record_names_its_task_and_no_later_one_of_the_same_id() {
        let mut task = Task::new(parsed("a"), parsed("k"));
        let hour = Duration::from_secs(3600);
        task.unique = machine::Unique::new("mail", hour).ok();
        let at = Timestamp::UNIX_EPOCH;
        let (key, record) = Unique::of(&task, at).unwrap_or_else(|| panic!("it has a key"));
        let text = record.write().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            text,
            r#"{"task":"a","submitted_at":"1970-01-01T00:00:00Z","until":"1970-01-01T01:00:00Z"}"#
        );
        let read = Unique::read(&KeyValue::new("/n/meta/unique/mail", &text, 9));
        assert_eq!(read.as_ref(), Some(&record));
        let found = |task: &Task, at: Timestamp| {
            let envelope = write("task", &Envelope::new(task, at, 0));
            let envelope = envelope.unwrap_or_else(|e| panic!("{e}"));
            Snapshot {
                task: Some(KeyValue::new("/n/tasks/a", &envelope, 3)),
                ..Snapshot::default()
            }
        };
        let holder = record.holder(key, &found(&task, at));
        assert_eq!(holder.map(|holder| holder.until), Some(record.until));
        assert_eq!(record.holder("other", &found(&task, at)), None);
        assert_eq!(record.holder(key, &found(&task, Timestamp::MAX)), None);
        assert_eq!(record.holder(key, &Snapshot::default()), None);
        let damaged = KeyValue::new("/n/meta/unique/mail", "{", 9);
        assert_eq!(Unique::read(&damaged), None);
    }
}
