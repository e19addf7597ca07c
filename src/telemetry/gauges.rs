//! The gauges that a node sets at an interval.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use metrics::Gauge;
use windlass_statemachine::Kind;

use super::{OLDEST_DUE, SLOTS, TASKS, WAITING, WORKERS};

/// The label of the nodes of this library.
const SDK: &str = "rust";
/// The kind of a node with a default handler.
const ANY: &str = "any";

/// Returns whether the program has installed a recorder. A recorder without a field counts as none, as that of
/// the facade is.
pub(crate) fn has_recorder() -> bool {
    metrics::with_recorder(|recorder| size_of_val(recorder) > 0)
}

/// Gauges that keep their series: one whose value is gone is set to 0.
struct Series<K>(BTreeMap<K, Gauge>);

impl<K> Default for Series<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Series<K> {
    fn set(&mut self, values: BTreeMap<K, f64>, gauge: impl Fn(&K) -> Gauge) {
        // Once: another part of the process may set the series from then on.
        self.0.retain(|key, known| {
            let stays = values.contains_key(key);
            if !stays {
                known.set(0.0);
            }
            stays
        });
        for (key, value) in values {
            let made = gauge(&key);
            self.0.entry(key).or_insert(made).set(value);
        }
    }
}

/// The gauges of the namespace.
#[derive(Default)]
pub(crate) struct NamespaceGauges {
    tasks: Series<(Kind, &'static str)>,
    oldest: OldestGauges,
    waiting: Series<(Kind, &'static str)>,
    workers: Series<String>,
}

impl NamespaceGauges {
    /// Sets the number of tasks by kind and state.
    pub(crate) fn set_tasks(&mut self, tasks: impl Iterator<Item = ((Kind, &'static str), u64)>) {
        let tasks = tasks.map(|(of, tasks)| (of, tasks as f64));
        self.tasks.set(
            tasks.collect(),
            |(kind, state)| metrics::gauge!(TASKS, "kind" => kind.to_string(), "state" => *state),
        );
    }

    /// Sets how long the oldest task of each kind is due that no node runs.
    pub(crate) fn set_oldest(&mut self, ages: impl Iterator<Item = (Kind, SignedDuration)>) {
        self.oldest.set(ages);
    }

    /// Sets the number of tasks that are not run, by kind and reason. A reason may come several times.
    pub(crate) fn set_waiting(&mut self, tasks: impl Iterator<Item = ((Kind, &'static str), u64)>) {
        let mut waiting = BTreeMap::<_, f64>::new();
        for (of, tasks) in tasks {
            *waiting.entry(of).or_default() += tasks as f64;
        }
        self.waiting.set(waiting, |(kind, reason)| {
            metrics::gauge!(WAITING, "kind" => kind.to_string(), "reason" => *reason)
        });
    }

    /// Sets the number of live nodes. Each comes with the kinds that it runs; `None` for any.
    pub(crate) fn set_nodes<'n>(&mut self, nodes: impl Iterator<Item = Option<&'n [Kind]>>) {
        let mut workers = BTreeMap::<String, f64>::new();
        for kinds in nodes {
            let kinds = match kinds {
                Some(kinds) => kinds.iter().map(Kind::to_string).collect(),
                None => vec![ANY.to_owned()],
            };
            for kind in kinds {
                *workers.entry(kind).or_default() += 1.0;
            }
        }
        self.workers.set(
            workers,
            |kind| metrics::gauge!(WORKERS, "kind" => kind.clone(), "sdk" => SDK),
        );
    }
}

/// How long the oldest task of each kind is due.
#[derive(Default)]
pub(crate) struct OldestGauges(Series<Kind>);

impl OldestGauges {
    pub(crate) fn set(&mut self, ages: impl Iterator<Item = (Kind, SignedDuration)>) {
        let seconds = ages.map(|(kind, age)| (kind, age.as_secs_f64().max(0.0)));
        self.0.set(
            seconds.collect(),
            |kind| metrics::gauge!(OLDEST_DUE, "kind" => kind.to_string()),
        );
    }
}

/// The slots of a kind on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotsOfKind {
    pub(crate) kind: Kind,
    pub(crate) used: u32,
    /// How many more tasks of the kind the node could start.
    pub(crate) free: u32,
}

/// The slots of this node.
#[derive(Default)]
pub(crate) struct SlotGauges(Series<(Kind, bool)>);

impl SlotGauges {
    pub(crate) fn set(&mut self, slots: impl Iterator<Item = SlotsOfKind>) {
        let of = |slots: SlotsOfKind| {
            let used = ((slots.kind.clone(), true), f64::from(slots.used));
            [used, ((slots.kind, false), f64::from(slots.free))]
        };
        self.0.set(slots.flat_map(of).collect(), |(kind, used)| {
            let used = if *used { "true" } else { "false" };
            metrics::gauge!(SLOTS, "kind" => kind.to_string(), "used" => used)
        });
    }
}
