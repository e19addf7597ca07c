//! [`Kept`]: the values of a task's keys that the index keeps, so that a list need not read them.
//!
//! Only what a [`TaskRecord`](crate::store::TaskRecord) needs is kept: a state without the lines of its history, a mark
//! in `parked/` only of a quarantined task. Long values are left out, so that the memory for a task has a bound.

use windlass_statemachine::Json;

use crate::store::etcd::{
    read::KeySet,
    schema::{
        Envelope, KeyValue, Snapshot, TaskKey,
        json::{text_of, write},
    },
};

/// The longest value that is kept, in bytes.
const MOST_BYTES: usize = 1024;
/// The longest props that are kept, in bytes.
const MOST_PROPS: usize = 256;

/// How much of a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// Everything but the props in it.
    ButProps,
    Nothing,
}

/// A key that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    of: TaskKey,
    extent: Extent,
    /// Whether it contains props that cannot be read.
    is_damaged: bool,
    created: i64,
    written: i64,
    text: Box<[u8]>,
}

/// The keys of a task that exist, in the order of [`TaskKey`], with the kept values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept(Vec<Value>);

/// Returns the part of a value that is kept. `short` stands for the value, if a list needs no more of it.
fn kept_of(of: TaskKey, kv: &KeyValue, short: Option<String>) -> (Extent, Vec<u8>) {
    if of == TaskKey::Finished && kv.value().len() > MOST_PROPS {
        return kept_of_ended(kv);
    }
    let text = short.map_or_else(|| kv.value().to_vec(), String::into_bytes);
    match of {
        TaskKey::Props | TaskKey::PropsApart if text.len() > MOST_PROPS => {
            (Extent::ButProps, b"null".to_vec())
        }
        _ if text.len() > MOST_BYTES => (Extent::Nothing, Vec::new()),
        _ => (Extent::All, text),
    }
}

/// Returns the part of the record of an ended task that is kept. The record contains the props.
fn kept_of_ended(kv: &KeyValue) -> (Extent, Vec<u8>) {
    let long = |envelope: &Envelope| {
        let props = envelope.props.as_ref();
        props.is_some_and(|props| props.len() > MOST_PROPS)
    };
    let cut = Envelope::read(kv).ok().filter(long).and_then(|envelope| {
        let props = None;
        write("task", &Envelope { props, ..envelope }).ok()
    });
    let (extent, text) = match cut {
        Some(text) => (Extent::ButProps, text.into_bytes()),
        None => (Extent::All, kv.value().to_vec()),
    };
    match text.len() <= MOST_BYTES + MOST_PROPS {
        true => (extent, text),
        false => (Extent::Nothing, Vec::new()),
    }
}

/// Returns whether this key contains props that cannot be read.
fn is_damaged(of: TaskKey, kv: &KeyValue) -> bool {
    matches!(of, TaskKey::Props | TaskKey::PropsApart)
        && !text_of(kv).is_ok_and(|text| Json::parse("props", text).is_ok())
}

impl Value {
    fn new(of: TaskKey, kv: &KeyValue, short: Option<String>) -> Self {
        let (extent, text) = kept_of(of, kv, short);
        let is_damaged = is_damaged(of, kv);
        Self {
            of,
            // Damaged props determine the state that a list shows.
            extent: match extent {
                Extent::ButProps if is_damaged => Extent::Nothing,
                extent => extent,
            },
            is_damaged,
            created: kv.create_revision(),
            written: kv.mod_revision(),
            text: text.into(),
        }
    }

    /// Returns whether a list has to read the key.
    fn is_missing(&self, without_props: bool) -> bool {
        match self.extent {
            Extent::All => false,
            Extent::ButProps => !without_props,
            Extent::Nothing => true,
        }
    }

    fn kv(&self) -> KeyValue {
        KeyValue {
            key: Vec::new(),
            value: self.text.to_vec(),
            created: self.created,
            written: self.written,
            lease: 0,
        }
    }
}

impl Kept {
    /// Applies a key; `None` for a deleted one. `short` stands for its value, if a list needs no more of it.
    pub(super) fn set(&mut self, of: TaskKey, kv: Option<&KeyValue>, short: Option<String>) {
        let value = kv.map(|kv| Value::new(of, kv, short));
        match (self.0.binary_search_by_key(&of, |value| value.of), value) {
            (Ok(at), Some(value)) => self.0[at] = value,
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(value)) => {
                self.0.reserve_exact(1);
                self.0.insert(at, value);
            }
            (Err(_), None) => {}
        }
    }

    fn get(&self, of: TaskKey) -> Option<&Value> {
        self.0.iter().find(|value| value.of == of)
    }

    pub(super) fn has(&self, of: TaskKey) -> bool {
        self.get(of).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key with the props of a live task, by the rule of [`Snapshot::whole_task`].
    fn props(&self) -> Option<&Value> {
        let task = self.get(TaskKey::Task)?;
        let apart = self.get(TaskKey::PropsApart);
        let apart = apart.filter(|apart| apart.written >= task.created);
        let stored = self.get(TaskKey::Props).into_iter().chain(apart);
        stored.max_by_key(|value| value.written)
    }

    /// Returns whether the props of the live task cannot be read.
    pub(super) fn has_damaged_props(&self) -> bool {
        self.props().is_some_and(|value| value.is_damaged)
    }

    /// Returns the kept values as a read returns them, and the keys that a list has to read.
    pub(super) fn snapshot(&self, without_props: bool) -> (Snapshot, KeySet) {
        let (mut found, mut missing) = (Snapshot::default(), KeySet::default());
        let is_live = self.has(TaskKey::Task);
        for value in &self.0 {
            if !value.is_missing(without_props) {
                found.put(value.of, Some(value.kv()));
            } else if is_live || !matches!(value.of, TaskKey::Props | TaskKey::PropsApart) {
                missing.set(keys_of(value.of), true);
            }
        }
        (found, missing)
    }
}

/// Returns the set of keys with which a read returns this one.
fn keys_of(of: TaskKey) -> KeySet {
    match of {
        TaskKey::Task => KeySet::TASK,
        TaskKey::Finished => KeySet::FINISHED,
        TaskKey::TaskState => KeySet::STATE,
        TaskKey::Parked => KeySet::PARKED,
        TaskKey::Owner | TaskKey::Props => KeySet::PARTS,
        TaskKey::PropsApart => KeySet::PROPS_APART,
    }
}
