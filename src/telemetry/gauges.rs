//! The gauges that a node sets at an interval.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use metrics::Gauge;
use windlass_statemachine::Kind;

use super::{OLDEST_DUE, SLOTS, TASKS, WAITING, WORKERS};
use crate::{client::Stats, store::NodeRecord};

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
        for (key, known) in &self.0 {
            if !values.contains_key(key) {
                known.set(0.0);
            }
        }
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
    /// Sets what the store has counted.
    pub(crate) fn set_stats(&mut self, stats: &Stats) {
        let state = |state: Option<windlass_statemachine::StateKind>| match state {
            Some(state) => state.as_str(),
            None => "quarantined",
        };
        let tasks = stats.counts.iter();
        let tasks = tasks.map(|c| ((c.kind.clone(), state(c.state)), c.tasks as f64));
        self.tasks.set(
            tasks.collect(),
            |(kind, state)| metrics::gauge!(TASKS, "kind" => kind.to_string(), "state" => *state),
        );
        let oldest = stats.kinds.iter().map(|of| {
            let age = of.oldest_due.map(|due| stats.at.duration_since(due));
            (of.kind.clone(), age.unwrap_or_default())
        });
        self.oldest.set(oldest);
        let mut waiting = BTreeMap::<_, f64>::new();
        for of in &stats.kinds {
            for held in &of.held_back {
                let key = (of.kind.clone(), held.reason.name());
                *waiting.entry(key).or_default() += held.tasks as f64;
            }
        }
        self.waiting.set(waiting, |(kind, reason)| {
            metrics::gauge!(WAITING, "kind" => kind.to_string(), "reason" => *reason)
        });
    }

    /// Sets the number of live nodes.
    pub(crate) fn set_nodes(&mut self, nodes: &[NodeRecord]) {
        let mut workers = BTreeMap::<String, f64>::new();
        for node in nodes {
            let kinds = match &node.spec.kinds {
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
