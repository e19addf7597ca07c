//! [`Entry`]: the index's view of one task, made from the keys of the task.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskState, TaskStatus};

use crate::store::{
    Filter,
    etcd::{
        read::KeySet,
        schema::{Envelope, Fences, KeyValue, Parked, Part, json::parse, records::read_state},
    },
};

/// A task, as its envelope describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Life {
    kind: Kind,
    order: u64,
    has_limits: bool,
    /// `None` when the envelope cannot be read.
    first: Option<Stage>,
}

/// The part of a state that lists and counts need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stage {
    code: StateKind,
    since: Timestamp,
    until: Option<Timestamp>,
    waits: bool,
    data_version: u32,
}

impl Stage {
    fn of(state: &TaskState) -> Self {
        Self {
            code: state.code(),
            since: state.since,
            until: match state.status {
                TaskStatus::Sleeping { until } => Some(until),
                _ => None,
            },
            waits: state.is_waiting(),
            data_version: state.data_version,
        }
    }
}

/// The content of a task's keys. Each key sets its own part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    live: Option<Life>,
    ended: Option<Life>,
    /// The state; the inner `None` is a state that cannot be read.
    state: Option<Option<Stage>>,
    claimed: bool,
    quarantined: bool,
    /// The keys that exist, without the parts.
    keys: KeySet,
    has_props: bool,
    /// The keys of commands that exist, by name; `None` for the single slot of Metafora.
    commands: BTreeSet<Option<String>>,
}

/// A key of a task in the index.
pub(super) enum Of<'a> {
    /// A part of a live task.
    Part(Part<'a>),
    Finished,
    State,
    Parked,
    PropsApart,
}

/// A task, as lists and counts see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) order: u64,
    /// The state; `None` for a quarantined task, or an unreadable state.
    pub(super) state: Option<StateKind>,
    pub(super) since: Timestamp,
    /// Until when the task sleeps.
    pub(super) until: Option<Timestamp>,
    pub(super) data_version: u32,
    pub(super) is_live: bool,
    pub(super) is_claimed: bool,
    /// Whether it waits for other tasks.
    pub(super) is_waiting: bool,
    pub(super) has_limits: bool,
}

impl Life {
    fn read(kv: &KeyValue) -> Option<Self> {
        let read = Envelope::read(kv);
        let is_sound = read.is_ok();
        let envelope = read.or_else(|_| Envelope::foreign()).ok()?;
        let first = is_sound.then(|| Stage::of(&envelope.first_state()));
        let order = envelope.order(kv);
        let terms = envelope.terms.as_deref();
        Some(Self {
            has_limits: terms.is_some_and(|terms| !terms.limits.is_empty()),
            kind: envelope.kind,
            order,
            first,
        })
    }
}

impl Entry {
    /// Applies a key; `None` for a deleted one.
    pub(super) fn take(&mut self, of: &Of<'_>, kv: Option<&KeyValue>, fences: &Fences) {
        let exists = kv.is_some();
        match of {
            Of::Part(Part::Task) => {
                self.live = kv.and_then(Life::read);
                self.keys.set(KeySet::TASK, exists);
            }
            Of::Part(Part::Owner) => self.claimed = exists,
            Of::Part(Part::Props) => self.has_props = exists,
            Of::Part(Part::Slot) => self.command(None, exists),
            Of::Part(Part::Command(name)) => self.command(Some((*name).to_owned()), exists),
            Of::Finished => {
                self.ended = kv.and_then(Life::read);
                self.keys.set(KeySet::FINISHED, exists);
            }
            Of::State => {
                let read = |kv| read_state(kv, fences).ok();
                self.state = kv.map(|kv| read(kv).map(|(state, _)| Stage::of(&state)));
                self.keys.set(KeySet::STATE, exists);
            }
            Of::Parked => {
                let parked: Option<Parked> = kv.and_then(|kv| parse(kv).ok());
                self.quarantined = parked.is_some_and(|parked| parked.quarantined.is_some());
                self.keys.set(KeySet::PARKED, exists);
            }
            Of::PropsApart => self.keys.set(KeySet::PROPS_APART, exists),
        }
    }

    fn command(&mut self, name: Option<String>, exists: bool) {
        match exists {
            true => self.commands.insert(name),
            false => self.commands.remove(&name),
        };
    }

    /// Returns the keys that exist.
    pub(super) fn keys(&self) -> KeySet {
        let mut keys = self.keys;
        let has_parts = self.claimed || self.has_props || !self.commands.is_empty();
        keys.set(KeySet::PARTS, has_parts);
        keys
    }

    /// Returns whether no key of the task is left.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the task; `None` while it does not exist.
    pub(super) fn row(&self) -> Option<Row> {
        let life = self.live.as_ref().or(self.ended.as_ref())?;
        let stage = match (life.first, self.state) {
            (None, _) => None,
            (first, None) => first,
            (_, Some(stored)) => stored,
        };
        let stage = stage.filter(|_| !self.quarantined);
        Some(Row {
            kind: life.kind.clone(),
            order: life.order,
            state: stage.map(|stage| stage.code),
            since: stage.map_or(Timestamp::UNIX_EPOCH, |stage| stage.since),
            until: stage.and_then(|stage| stage.until),
            data_version: stage.map_or(0, |stage| stage.data_version),
            is_live: self.live.is_some(),
            is_claimed: self.claimed,
            is_waiting: stage.is_some_and(|stage| stage.waits),
            has_limits: life.has_limits,
        })
    }
}

impl Row {
    /// Returns whether the task may match a filter, as far as the index knows.
    pub(super) fn may_match(&self, id: &str, filter: &Filter) -> bool {
        let is_of = |wanted: &[StateKind]| self.state.is_some_and(|code| wanted.contains(&code));
        (filter.states.is_empty() || is_of(&filter.states))
            && (!filter.quarantined || self.state.is_none())
            && filter.is_of_kind(&self.kind)
            && (!filter.claimed || self.is_claimed)
            && (filter.node.is_none() || self.is_claimed)
            && filter
                .id_prefix
                .as_ref()
                .is_none_or(|prefix| id.starts_with(prefix.as_str()))
    }
}
