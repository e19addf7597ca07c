//! [`Entry`]: the index's view of one task, made from the keys of the task.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskState, TaskStatus};

use super::kept::Kept;
use crate::store::{
    Filter,
    etcd::{
        read::KeySet,
        schema::{
            self, Envelope, Fences, KeyValue, Parked, Part, Snapshot,
            json::parse,
            ranges::is_pointer,
            records::{read_state, write_state},
        },
    },
    rules::{failures, stats::Wait},
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
    /// Since when a task without a claim waits for one.
    ready: Timestamp,
    until: Option<Timestamp>,
    waits: Wait,
    data_version: u32,
    failure: Option<u64>,
}

impl Stage {
    fn of(state: &TaskState) -> Self {
        Self {
            code: state.code(),
            since: state.since,
            ready: state.ready().unwrap_or(state.since),
            until: match state.status {
                TaskStatus::Sleeping { until } => Some(until),
                _ => None,
            },
            waits: Wait::of(state),
            data_version: state.data_version,
            failure: failures::of(state).and_then(|print| u64::from_str_radix(&print, 16).ok()),
        }
    }
}

/// The content of a task's keys. Each key sets its own part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    live: Option<Box<Life>>,
    ended: Option<Box<Life>>,
    /// The state; the inner `None` is a state that cannot be read.
    state: Option<Box<Option<Stage>>>,
    quarantined: bool,
    kept: Kept,
    /// The keys of commands that exist, by name; `None` for the single slot of Metafora.
    commands: BTreeSet<Option<Box<str>>>,
}

/// A key of a task in the index.
pub(super) enum IndexKey<'a> {
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
    /// Since when a runnable task without a claim waits for one.
    pub(super) ready: Timestamp,
    /// Until when the task sleeps.
    pub(super) until: Option<Timestamp>,
    pub(super) data_version: u32,
    pub(super) is_live: bool,
    pub(super) is_claimed: bool,
    pub(super) waits: Wait,
    pub(super) has_limits: bool,
    /// The fingerprint of the error with which it has failed.
    pub(super) failure: Option<u64>,
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

impl IndexKey<'_> {
    /// Returns the key of a task that this is; `None` for a command.
    fn key(&self) -> Option<schema::TaskKey> {
        Some(match self {
            Self::Part(Part::Task) => schema::TaskKey::Task,
            Self::Part(Part::Owner) => schema::TaskKey::Owner,
            Self::Part(Part::Props) => schema::TaskKey::Props,
            Self::Part(Part::Slot | Part::Command(_)) => return None,
            Self::Finished => schema::TaskKey::Finished,
            Self::State => schema::TaskKey::TaskState,
            Self::Parked => schema::TaskKey::Parked,
            Self::PropsApart => schema::TaskKey::PropsApart,
        })
    }
}

impl Entry {
    /// Applies a key; `None` for a deleted one.
    pub(super) fn take(&mut self, of: &IndexKey<'_>, kv: Option<&KeyValue>, fences: &Fences) {
        let (mut kept, mut short) = (kv, None);
        match of {
            IndexKey::Part(Part::Task) => self.live = kv.and_then(Life::read).map(Box::new),
            IndexKey::Finished => self.ended = kv.and_then(Life::read).map(Box::new),
            IndexKey::Part(Part::Slot) => self.command(None, kv),
            IndexKey::Part(Part::Command(name)) => self.command(Some((*name).into()), kv),
            IndexKey::State => {
                let read = kv.and_then(|kv| read_state(kv, fences).ok());
                let stage = read.as_ref().map(|(state, _)| Stage::of(state));
                self.state = kv.map(|_| Box::new(stage));
                // Without the lines of the history.
                short = read.and_then(|(state, hold)| write_state(&state, &hold).ok());
            }
            IndexKey::Parked => {
                let parked: Option<Parked> = kv.and_then(|kv| parse(kv).ok());
                self.quarantined = parked.is_some_and(|parked| parked.quarantined.is_some());
                kept = kv.filter(|_| self.quarantined);
            }
            IndexKey::Part(Part::Owner | Part::Props) | IndexKey::PropsApart => {}
        }
        if let Some(key) = of.key() {
            self.kept.set(key, kept, short);
        }
    }

    fn command(&mut self, name: Option<Box<str>>, kv: Option<&KeyValue>) {
        // A key with a name may also be a pointer of an inner namespace.
        match kv.is_some_and(|kv| name.is_none() || !is_pointer(kv)) {
            true => self.commands.insert(name),
            false => self.commands.remove(&name),
        };
    }

    /// Returns whether no key of the task is left.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.commands.is_empty()
    }

    /// Returns the task as a read returns it, without the keys that a list has to read.
    pub(super) fn snapshot(&self, without_props: bool) -> (Snapshot, KeySet) {
        self.kept.snapshot(without_props)
    }

    /// Returns how many commands are queued.
    pub(super) fn commands(&self) -> u64 {
        self.commands.len() as u64
    }

    /// Returns the task; `None` while it does not exist.
    pub(super) fn row(&self) -> Option<Row> {
        let life = self.live.as_ref().or(self.ended.as_ref())?;
        let stage = match (life.first, self.state.as_deref()) {
            (None, _) => None,
            (first, None) => first,
            (_, Some(stored)) => *stored,
        };
        let is_readable = !self.quarantined && !self.kept.has_damaged_props();
        let stage = stage.filter(|_| is_readable);
        Some(Row {
            kind: life.kind.clone(),
            order: life.order,
            state: stage.map(|stage| stage.code),
            since: stage.map_or(Timestamp::UNIX_EPOCH, |stage| stage.since),
            ready: stage.map_or(Timestamp::UNIX_EPOCH, |stage| stage.ready),
            until: stage.and_then(|stage| stage.until),
            data_version: stage.map_or(0, |stage| stage.data_version),
            is_live: self.live.is_some(),
            is_claimed: self.kept.has(schema::TaskKey::Owner),
            waits: stage.map_or(Wait::Nothing, |stage| stage.waits),
            has_limits: life.has_limits,
            failure: stage.and_then(|stage| stage.failure),
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
            && filter.running.is_none_or(|running| {
                self.state != Some(StateKind::Runnable) || self.is_claimed == running
            })
            && (!filter.awaits_signal || self.waits == Wait::Signal)
            && (filter.node.is_none() || self.is_claimed)
            && filter
                .id_prefix
                .as_ref()
                .is_none_or(|prefix| id.starts_with(prefix.as_str()))
    }
}
