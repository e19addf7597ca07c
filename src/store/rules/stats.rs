//! Decides whether tasks are available, and adds up counts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskState};

use crate::store::{
    Availability, HeldGroup, LimitForm, TaskCount, TaskGroup, TaskRecord, TaskStats,
};

/// What a parked task waits for, besides a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// A signal that its handler has declared.
    Signal,
    Nothing,
    /// Other tasks.
    Tasks,
}

impl Wait {
    pub(crate) fn of(state: &TaskState) -> Self {
        match state.is_waiting() {
            true => Self::Tasks,
            false if state.awaits_signal().is_some() => Self::Signal,
            false => Self::Nothing,
        }
    }
}

/// The facts that decide the availability of the tasks of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// The state; `None` for quarantined tasks.
    pub(crate) state: Option<StateKind>,
    pub(crate) is_claimed: bool,
    pub(crate) waits: Wait,
    /// Whether the due time of sleeping tasks has come.
    pub(crate) is_due: bool,
}

/// Returns whether a node can claim such tasks.
pub(crate) fn availability(facts: Facts) -> Availability {
    match facts.state {
        None => Availability::Quarantined,
        Some(state) if state.is_terminal() => Availability::Ended,
        Some(_) if facts.is_claimed => Availability::Claimed,
        Some(StateKind::Paused) => match facts.waits {
            Wait::Signal => Availability::AwaitsSignal,
            Wait::Nothing | Wait::Tasks => Availability::Paused,
        },
        Some(StateKind::Sleeping) if !facts.is_due => match facts.waits {
            Wait::Signal => Availability::AwaitsSignal,
            Wait::Nothing => Availability::Future,
            Wait::Tasks => Availability::Waiting,
        },
        Some(_) => Availability::Available,
    }
}

/// Adds up groups of tasks by kind and state. Each group has a kind, a state, the number of its tasks, and whether nodes
/// have claimed them.
pub(crate) fn by_state<'a>(
    groups: impl IntoIterator<Item = (&'a Kind, Option<StateKind>, u64, bool)>,
) -> Vec<TaskCount> {
    let mut counts = BTreeMap::<(&Kind, Option<StateKind>), (u64, u64)>::new();
    for (kind, state, more, is_claimed) in groups {
        let (tasks, claimed) = counts.entry((kind, state)).or_default();
        *tasks += more;
        *claimed += if is_claimed { more } else { 0 };
    }
    let count = |((kind, state), (tasks, claimed)): ((&Kind, _), _)| TaskCount {
        kind: kind.clone(),
        state,
        tasks,
        claimed,
    };
    counts.into_iter().map(count).collect()
}

/// What a group of tasks has in common.
type Group = (Kind, Option<StateKind>, u32, Availability);

/// Counts tasks.
#[derive(Debug)]
pub(crate) struct Counter {
    at: Timestamp,
    groups: BTreeMap<Group, (u64, Option<Timestamp>)>,
    held: BTreeMap<(Kind, String, bool), u64>,
}

impl Counter {
    /// Returns a counter of tasks as they are at this time.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            at,
            groups: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Adds tasks. `oldest` is the first due time of the available ones.
    pub(crate) fn add(
        &mut self,
        kind: &Kind,
        data_version: u32,
        facts: Facts,
        (tasks, oldest): (u64, Option<Timestamp>),
    ) {
        if tasks == 0 {
            return;
        }
        let availability = availability(facts);
        let key = (kind.clone(), facts.state, data_version, availability);
        let (counted, first) = self.groups.entry(key).or_default();
        *counted = counted.saturating_add(tasks);
        if availability == Availability::Available {
            let before: Option<Timestamp> = *first;
            *first = before.into_iter().chain(oldest).min();
        }
    }

    /// Notes since when an available task of a group is due. The group was added before.
    #[cfg(any(feature = "sqlite-system", feature = "etcd"))]
    pub(crate) fn due_since(
        &mut self,
        kind: &Kind,
        state: Option<StateKind>,
        data_version: u32,
        due: Timestamp,
    ) {
        let key = (kind.clone(), state, data_version, Availability::Available);
        if let Some((_, first)) = self.groups.get_mut(&key) {
            let before: Option<Timestamp> = *first;
            *first = before.into_iter().chain([due]).min();
        }
    }

    /// Adds tasks that a limit holds back.
    pub(crate) fn hold(&mut self, kind: &Kind, key: &str, form: LimitForm, tasks: u64) {
        let line = (kind.clone(), key.to_owned(), form == LimitForm::Starts);
        *self.held.entry(line).or_default() += tasks;
    }

    /// Adds one task.
    pub(crate) fn take(&mut self, record: &TaskRecord) {
        let kind = &record.task.kind;
        let Ok(state) = &record.state else {
            let facts = Facts {
                state: None,
                is_claimed: record.node.is_some(),
                waits: Wait::Nothing,
                is_due: false,
            };
            return self.add(kind, 0, facts, (1, None));
        };
        let facts = Facts {
            state: Some(state.code()),
            is_claimed: record.node.is_some(),
            waits: Wait::of(state),
            is_due: state.is_due(self.at),
        };
        self.add(kind, state.data_version, facts, (1, state.ready()));
        self.hold_back(record);
    }

    /// Counts one task under the limit that holds it back, if one does.
    pub(crate) fn hold_back(&mut self, record: &TaskRecord) {
        if let Some(limited) = &record.limited_by {
            let form = LimitForm::of(limited.limit.bound());
            self.hold(&record.task.kind, limited.limit.key(), form, 1);
        }
    }

    /// Returns the counts.
    pub(crate) fn into_stats(self, held_is_complete: bool) -> TaskStats {
        let group = |((kind, state, data_version, availability), (tasks, oldest_due))| TaskGroup {
            kind,
            state,
            data_version,
            availability,
            tasks,
            oldest_due,
        };
        let held = |((kind, key, starts), tasks)| HeldGroup {
            kind,
            key,
            form: match starts {
                true => LimitForm::Starts,
                false => LimitForm::AtOnce,
            },
            tasks,
        };
        TaskStats {
            at: self.at,
            groups: self.groups.into_iter().map(group).collect(),
            held: self.held.into_iter().map(held).collect(),
            held_is_complete,
            oldest_is_complete: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(state: StateKind) -> Facts {
        Facts {
            state: Some(state),
            is_claimed: false,
            waits: Wait::Nothing,
            is_due: false,
        }
    }

    #[test]
    fn a_task_is_available_when_a_node_can_claim_it() {
        use Availability as A;
        for (state, expected) in [
            (StateKind::Runnable, A::Available),
            (StateKind::Fault, A::Available),
            (StateKind::Sleeping, A::Future),
            (StateKind::Paused, A::Paused),
            (StateKind::Completed, A::Ended),
            (StateKind::Failed, A::Ended),
            (StateKind::Killed, A::Ended),
        ] {
            assert_eq!(availability(facts(state)), expected, "{state}");
            let mut claimed = facts(state);
            claimed.is_claimed = true;
            let live = [A::Claimed, A::Ended][usize::from(state.is_terminal())];
            assert_eq!(availability(claimed), live, "{state}, claimed");
        }
        let mut sleeper = facts(StateKind::Sleeping);
        sleeper.waits = Wait::Tasks;
        assert_eq!(availability(sleeper), A::Waiting);
        sleeper.waits = Wait::Signal;
        assert_eq!(availability(sleeper), A::AwaitsSignal);
        let mut paused = facts(StateKind::Paused);
        paused.waits = Wait::Signal;
        assert_eq!(availability(paused), A::AwaitsSignal);
        sleeper.is_due = true;
        assert_eq!(availability(sleeper), A::Available);
        sleeper.state = None;
        assert_eq!(availability(sleeper), A::Quarantined);
    }

    #[test]
    fn tasks_are_counted_by_group_with_the_oldest_that_is_available() {
        let kind: Kind = "k".parse().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut counter = Counter::new(at(9));
        let runnable = facts(StateKind::Runnable);
        counter.add(&kind, 1, runnable, (2, Some(at(7))));
        counter.add(&kind, 1, runnable, (3, Some(at(5))));
        counter.add(&kind, 2, runnable, (1, None));
        counter.add(&kind, 1, facts(StateKind::Sleeping), (4, Some(at(20))));
        counter.add(&kind, 1, facts(StateKind::Paused), (0, None));
        let stats = counter.into_stats(true);
        let groups: Vec<_> = stats
            .groups
            .iter()
            .map(|g| (g.data_version, g.tasks, g.oldest_due))
            .collect();
        assert_eq!(groups, [(1, 5, Some(at(5))), (2, 1, None), (1, 4, None)]);
    }
}
