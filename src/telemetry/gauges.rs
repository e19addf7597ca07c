//! The gauges that a node sets at an interval.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use metrics::Gauge;
use windlass_statemachine::Kind;

use super::{
    AVAILABLE, OLDEST_DUE, REFUSED_ROWS, SLOTS, TASKS, WAITING, WORKERS, kinds::label, sdks,
};

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
    tasks: Series<(String, &'static str)>,
    oldest: OldestGauges,
    waiting: Series<(String, &'static str)>,
    available: Series<String>,
    workers: Series<(String, String)>,
}

impl NamespaceGauges {
    /// Sets the number of tasks by kind and state.
    pub(crate) fn set_tasks(&mut self, tasks: impl Iterator<Item = ((Kind, &'static str), u64)>) {
        self.tasks.set(
            sums(tasks),
            |(kind, state)| metrics::gauge!(TASKS, "kind" => kind.clone(), "state" => *state),
        );
    }

    /// Sets how long the oldest task of each kind is due that no node runs.
    pub(crate) fn set_oldest(&mut self, ages: impl Iterator<Item = (Kind, SignedDuration)>) {
        self.oldest.set(ages);
    }

    /// Sets the number of tasks that are not run, by kind and reason. A reason may come several times.
    pub(crate) fn set_waiting(&mut self, tasks: impl Iterator<Item = ((Kind, &'static str), u64)>) {
        self.waiting.set(
            sums(tasks),
            |(kind, reason)| metrics::gauge!(WAITING, "kind" => kind.clone(), "reason" => *reason),
        );
    }

    /// Sets the number of tasks that are due and that no node has claimed.
    pub(crate) fn set_available(&mut self, tasks: impl Iterator<Item = (Kind, u64)>) {
        let mut all = BTreeMap::<_, f64>::new();
        for (kind, tasks) in tasks {
            *all.entry(label(&kind)).or_default() += tasks as f64;
        }
        self.available.set(
            all,
            |kind| metrics::gauge!(AVAILABLE, "kind" => kind.clone()),
        );
    }

    /// Sets the number of refused rows of the inbox.
    pub(crate) fn set_refused_rows(&mut self, rows: u64) {
        metrics::gauge!(REFUSED_ROWS).set(rows as f64);
    }

    /// Sets the number of live nodes. Each comes with the kinds that it runs, `None` for any, and a remote worker with its
    /// client library.
    pub(crate) fn set_nodes<'n>(
        &mut self,
        nodes: impl Iterator<Item = (Option<&'n [Kind]>, Option<&'n str>)>,
    ) {
        let mut workers = BTreeMap::<_, f64>::new();
        for (kinds, sdk) in nodes {
            let sdk = sdks::label(sdk);
            let kinds = match kinds {
                Some(kinds) => kinds.iter().map(label).collect::<BTreeSet<_>>(),
                None => [ANY.to_owned()].into(),
            };
            for kind in kinds {
                *workers.entry((kind, sdk.clone())).or_default() += 1.0;
            }
        }
        self.workers.set(
            workers,
            |(kind, sdk)| metrics::gauge!(WORKERS, "kind" => kind.clone(), "sdk" => sdk.clone()),
        );
    }
}

/// Adds up numbers of tasks by the label of their kind.
fn sums(
    tasks: impl Iterator<Item = ((Kind, &'static str), u64)>,
) -> BTreeMap<(String, &'static str), f64> {
    let mut sums = BTreeMap::<_, f64>::new();
    for ((kind, other), tasks) in tasks {
        *sums.entry((label(&kind), other)).or_default() += tasks as f64;
    }
    sums
}

/// How long the oldest task of each kind is due.
#[derive(Default)]
pub(crate) struct OldestGauges(Series<String>);

impl OldestGauges {
    pub(crate) fn set(&mut self, ages: impl Iterator<Item = (Kind, SignedDuration)>) {
        let mut oldest = BTreeMap::<_, f64>::new();
        for (kind, age) in ages {
            let of_label = oldest.entry(label(&kind)).or_default();
            *of_label = of_label.max(age.as_secs_f64());
        }
        self.0.set(
            oldest,
            |kind| metrics::gauge!(OLDEST_DUE, "kind" => kind.clone()),
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
pub(crate) struct SlotGauges(Series<(String, bool)>);

impl SlotGauges {
    pub(crate) fn set(&mut self, slots: impl Iterator<Item = SlotsOfKind>) {
        let mut all = BTreeMap::<_, f64>::new();
        for of in slots {
            let kind = label(&of.kind);
            *all.entry((kind.clone(), true)).or_default() += f64::from(of.used);
            *all.entry((kind, false)).or_default() += f64::from(of.free);
        }
        self.0.set(all, |(kind, used)| {
            let used = if *used { "true" } else { "false" };
            metrics::gauge!(SLOTS, "kind" => kind.clone(), "used" => used)
        });
    }
}
