//! The index after changes of keys: its lists, its records and the keys that they lack.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_statemachine::{Json, TaskStatus};

use super::{IndexKey, Rows, at, envelope, enveloped, id, span, state, stored, text};
use crate::store::{
    Filter, Order, Span,
    etcd::{
        read::KeySet,
        schema::{self, Fences, KeyValue, Part, Snapshot},
    },
};

/// A length of props and of data that the index does not keep.
const LONG: usize = 5000;

/// One change of one key.
#[derive(Debug, Clone)]
struct Change {
    task: u8,
    key: u8,
    value: Option<u8>,
    revision: i64,
}

impl Change {
    fn of(&self) -> IndexKey<'static> {
        match self.key {
            0 => IndexKey::Part(Part::Task),
            1 => IndexKey::Part(Part::Owner),
            2 => IndexKey::Finished,
            3 => IndexKey::State,
            4 => IndexKey::Parked,
            5 => IndexKey::Part(Part::Props),
            6 => IndexKey::Part(Part::Slot),
            7 => IndexKey::Part(Part::Command("c")),
            _ => IndexKey::PropsApart,
        }
    }

    /// The set of keys with which a list reads this key.
    fn keys(&self) -> KeySet {
        match self.key {
            0 => KeySet::TASK,
            2 => KeySet::FINISHED,
            3 => KeySet::STATE,
            4 => KeySet::PARKED,
            8 => KeySet::PROPS_APART,
            _ => KeySet::PARTS,
        }
    }

    fn kv(&self) -> Option<KeyValue> {
        let value = self.value?;
        let order = u64::from(self.task) + 1;
        let of = |text: &str| KeyValue::new("k", text, 1);
        let mut kv = match (self.key, value) {
            (0 | 2, 3) => of("{"),
            (2, 1) => enveloped("b", order, Some(LONG)),
            (0 | 2, _) => envelope(["a", "b", "c"][usize::from(value)], order, self.key == 2),
            (1, 0) => of(r#"{"node":"n","lease":7}"#),
            (3, 0) => state(TaskStatus::Runnable),
            (3, 1) => state(TaskStatus::Sleeping { until: at(50) }),
            (3, 2) => stored(TaskStatus::Paused, LONG),
            (4, 0) => of(r#"{"quarantined":"damaged"}"#),
            (4, 1) => of(&format!(r#"{{"quarantined":{}}}"#, text(LONG))),
            (4, _) => of("{}"),
            (5 | 8, 0) => of(r#"{"a":1}"#),
            (5 | 8, 1) => of(&text(LONG)),
            (5 | 8, 2) => of(&format!("?{}", text(LONG))),
            // A pointer of an inner namespace.
            (7, 0) => of(r#""t9""#),
            _ => of("?"),
        };
        (kv.created, kv.written) = (self.revision, self.revision);
        Some(kv)
    }

    /// Adds the key to a task as a read does.
    fn read(&self, found: &mut Snapshot) {
        let Some(kv) = self.kv() else { return };
        match self.of() {
            IndexKey::Part(Part::Command(_)) if schema::ranges::is_pointer(&kv) => {}
            IndexKey::Part(part) => found.take(&part, kv),
            IndexKey::Finished => found.put(schema::TaskKey::Finished, Some(kv)),
            IndexKey::State => found.put(schema::TaskKey::TaskState, Some(kv)),
            IndexKey::Parked => found.put(schema::TaskKey::Parked, Some(kv)),
            IndexKey::PropsApart => found.put(schema::TaskKey::PropsApart, Some(kv)),
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (0..6u8, 0..9u8, prop::option::weighted(0.7, 0..4u8));
    let changes = prop::collection::vec(change, 0..80);
    changes.prop_map(|changes| {
        let numbered = changes.into_iter().zip(1..);
        let change = |((task, key, value), revision)| Change {
            task,
            key,
            value,
            revision,
        };
        numbered.map(change).collect()
    })
}

/// The remaining keys, each with its last change.
type StoredKeys = BTreeMap<(u8, u8), Change>;

/// A read of the keys of a task that belong to these sets.
fn read(left: &StoredKeys, task: u8, keys: KeySet) -> Snapshot {
    let mut found = Snapshot::default();
    let of_task = left.values().filter(|change| change.task == task);
    let wanted = of_task.filter(|change| keys.contains(change.keys()));
    wanted.for_each(|change| change.read(&mut found));
    found
}

/// The record of each task as text, from the index and the keys that it lacks.
fn by_index(rows: &Rows, left: &StoredKeys, without_props: bool) -> Vec<String> {
    let span = Span {
        without_props,
        only_waiting: false,
        ..span((Order::Id, true), None, 100)
    };
    let known = rows.step(&Filter::default(), &span).known.tasks;
    let records = known.into_iter().map(|task| {
        let number = task.id.as_str()[1..].parse().unwrap();
        let missing = task.missing;
        let read = (!missing.is_empty()).then(|| read(left, number, missing));
        let mut record = task.record(read, &Fences::default()).unwrap();
        if without_props {
            record.task.props = Json::null();
        }
        format!("{record:?}")
    });
    records.collect()
}

/// The record of each task as text, from a read of all keys.
fn by_read(left: &StoredKeys, without_props: bool) -> Vec<String> {
    let all = (0..6).map(|n| (id(n), read(left, n, KeySet::ALL)));
    let existing = all.filter(|(_, found)| found.exists());
    let records = existing.map(|(id, found)| {
        let mut record = found.record(&id).unwrap();
        if without_props {
            record.task.props = Json::null();
        }
        format!("{record:?}")
    });
    records.collect()
}

proptest! {
    /// An index that has followed the changes equals an index that lists the remaining keys, and has the same records as
    /// a read of them.
    #[test]
    fn it_is_the_same_whether_it_followed_or_listed(changes in changes()) {
        let (mut followed, fences) = (Rows::default(), Fences::default());
        let mut left = StoredKeys::new();
        for change in &changes {
            followed.take(id(change.task), &change.of(), change.kv().as_ref(), &fences);
            left.remove(&(change.task, change.key));
            if change.value.is_some() {
                left.insert((change.task, change.key), change.clone());
            }
        }
        let mut listed = Rows::default();
        for change in left.values() {
            listed.take(id(change.task), &change.of(), change.kv().as_ref(), &fences);
        }
        prop_assert_eq!(&followed, &listed);
        let tasks: u64 = listed.states().iter().map(|count| count.tasks).sum();
        let of_task = |n: &u8| left.contains_key(&(*n, 0)) || left.contains_key(&(*n, 2));
        prop_assert_eq!(tasks, (0..6).filter(of_task).count() as u64);
        for without_props in [false, true] {
            let expected = by_read(&left, without_props);
            prop_assert_eq!(by_index(&followed, &left, without_props), expected);
        }
        let unreadable = |record: &String| record.contains("state: Err");
        let unreadable = by_read(&left, true).iter().filter(|record| unreadable(record)).count();
        let counted = listed.states().into_iter().filter(|count| count.state.is_none());
        prop_assert_eq!(counted.map(|count| count.tasks).sum::<u64>(), unreadable as u64);
    }
}

/// A task with short values is in the index as a whole; of one with long values a list reads only these.
#[test]
fn a_list_reads_only_long_values() {
    let value = |key, value| Change {
        task: 1,
        key,
        value: Some(value),
        revision: 1,
    };
    let missing = |changes: &[Change], without_props| {
        let mut rows = Rows::default();
        for change in changes {
            let kv = change.kv();
            rows.take(id(1), &change.of(), kv.as_ref(), &Fences::default());
        }
        let span = Span {
            without_props,
            only_waiting: false,
            ..span((Order::Submitted, true), None, 9)
        };
        let mut found = rows.step(&Filter::default(), &span).known.tasks;
        found.remove(0).missing
    };
    let short = [
        value(0, 0),
        value(1, 0),
        value(3, 1),
        value(4, 2),
        value(8, 0),
    ];
    assert!(missing(&short, false).is_empty());
    let long_props = [value(0, 0), value(3, 0), value(8, 1)];
    assert_eq!(missing(&long_props, false), KeySet::PROPS_APART);
    assert!(missing(&long_props, true).is_empty());
    assert_eq!(missing(&[value(2, 1)], false), KeySet::FINISHED);
    assert!(missing(&[value(2, 1)], true).is_empty());
    assert_eq!(missing(&[value(0, 0), value(3, 2)], true), KeySet::STATE);
}
