//! Every metric and every tracing span of the library, in one place.
//!
//! The library records its metrics with the facade [`metrics`](https://docs.rs/metrics): install a recorder (an
//! exporter for Prometheus, say) before you start a node. Counters begin with 0: a node registers its metrics, and those of
//! its kinds, when it starts, and a server those of a remote worker's kinds when the worker registers. Without a recorder
//! the metrics do nothing. `docs/reference/metrics.md` is generated from [`METRICS`].
//!
//! No metric has a task id as a label, so the number of series grows only with the number of kinds. The first 200 kinds have
//! series of their own; those of all others have the kind [`OTHER`].
//!
//! # Example
//!
//! ```
//! use windlass::telemetry::{self, METRICS};
//!
//! // After the recorder is installed: names each metric with its unit and its help text.
//! telemetry::describe();
//! assert!(METRICS.iter().all(|metric| metric.name.starts_with("windlass_")));
//! ```

mod commits;
mod counters;
mod gauges;
mod http;
mod kind_metrics;
mod kinds;
mod leases;
mod remote;
mod sdks;
pub(crate) mod traces;

use std::{fmt::Write as _, time::Duration};

pub use http::{answered, in_work};
pub(crate) use kinds::MOST as MOST_KINDS;
pub use kinds::OTHER;
#[doc(hidden)]
pub(crate) use remote::RemoteMetrics;

pub(crate) use commits::CommitMetrics;
pub(crate) use counters::{schedule_times, store_error};
pub(crate) use gauges::{NamespaceGauges, OldestGauges, SlotGauges, SlotsOfKind, has_recorder};
pub(crate) use kind_metrics::{FirstStart, KindMetrics, Moved, NodeMetrics, RunOutcome};
pub(crate) use leases::{joined, lease_lost, not_renewed, renewed};

use metrics::Unit;
use windlass_statemachine::ActionKind;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// The distribution of a value.
    Histogram,
}

impl MetricKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The unit: `seconds` or `count`.
    pub unit: &'static str,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// What the metric means.
    pub help: &'static str,
}

const CLAIMS: &str = "windlass_claims_total";
const ABANDONED: &str = "windlass_claims_abandoned_total";
const LATENESS: &str = "windlass_start_lateness_seconds";
const RUNNING: &str = "windlass_handlers_running";
const RUN_DURATION: &str = "windlass_run_duration_seconds";
const ATTEMPTS: &str = "windlass_attempts_total";
const TRANSITIONS: &str = "windlass_transitions_total";
const FENCED: &str = "windlass_fenced_writes_total";
const COMMIT_DURATION: &str = "windlass_commit_duration_seconds";
const COMMIT_BATCH: &str = "windlass_commit_batch_size";
const RENEWALS: &str = "windlass_lease_renewals_total";
const MARGIN: &str = "windlass_lease_margin_seconds";
const JOINED: &str = "windlass_node_joined_timestamp_seconds";
const TTL: &str = "windlass_lease_ttl_seconds";
const STORE_ERRORS: &str = "windlass_store_errors_total";
const COMMAND_STOP: &str = "windlass_command_stop_seconds";
const SCHEDULE_TIMES: &str = "windlass_schedule_times_total";
const SKEW: &str = "windlass_clock_skew_seconds";
const SLOTS: &str = "windlass_slots";
const TASKS: &str = "windlass_tasks";
const OLDEST_DUE: &str = "windlass_oldest_due_age_seconds";
const WAITING: &str = "windlass_waiting_tasks";
const AVAILABLE: &str = "windlass_available_tasks";
const REFUSED_ROWS: &str = "windlass_inbox_refused_rows";
const WORKERS: &str = "windlass_workers";
const REQUESTS: &str = "windlass_http_requests_total";
const REQUEST_DURATION: &str = "windlass_http_request_duration_seconds";
const IN_WORK: &str = "windlass_http_requests_in_work";

const fn metric(
    name: &'static str,
    kind: MetricKind,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        unit,
        labels,
        help,
    }
}

/// Every metric that the library records.
#[rustfmt::skip]
pub const METRICS: [Metric; 28] = [
    metric(CLAIMS, MetricKind::Counter, "count", &["kind"], "Claims of tasks under which a handler has started: not those that only carry out a command of an operator, or end a task that has missed a deadline"),
    metric(ABANDONED, MetricKind::Counter, "count", &["kind"], "Claimed tasks whose previous claim was lost with its node or its lease; each costs an attempt"),
    metric(LATENESS, MetricKind::Histogram, "seconds", &["kind"], "The time from when a task could be claimed (its due time, the end of its last claim, or the end of the last task that it waited for) until a node claimed it and started its handler; claims that start none, for a command of an operator, are not in it"),
    metric(RUNNING, MetricKind::Gauge, "count", &["kind"], "Handlers that run in this process"),
    metric(RUN_DURATION, MetricKind::Histogram, "seconds", &["kind"], "The duration of one run of a handler"),
    metric(ATTEMPTS, MetricKind::Counter, "count", &["kind", "outcome"], "Runs of handlers that have ended; `outcome` is `returned`, `failed` (an error or a panic) or `aborted`"),
    metric(TRANSITIONS, MetricKind::Counter, "count", &["kind", "to"], "Durable transitions; `to` is the state, `fault` counts failed attempts and `failed` tasks without a further retry"),
    metric(FENCED, MetricKind::Counter, "count", &[], "Writes that the store refused because the claim had ended"),
    metric(COMMIT_DURATION, MetricKind::Histogram, "seconds", &[], "The duration of one call that writes transitions"),
    metric(COMMIT_BATCH, MetricKind::Histogram, "count", &[], "The number of writes in one such call"),
    metric(RENEWALS, MetricKind::Counter, "count", &["outcome"], "Renewals of leases; `outcome` is `renewed` or `failed`"),
    metric(MARGIN, MetricKind::Gauge, "seconds", &[], "How long the node would still have trusted its lease when the last renewal or the join was answered; 0 while it has no lease"),
    metric(TTL, MetricKind::Gauge, "seconds", &[], "The length of the lease of the node (`--lease-ttl`, `Builder::lease_ttl`)"),
    metric(JOINED, MetricKind::Gauge, "seconds", &[], "When the node joined the namespace last, as a Unix time; it joins again after a restart and after it has lost its lease, so frequent changes are a node that comes and goes"),
    metric(STORE_ERRORS, MetricKind::Counter, "count", &["operation", "class"], "Errors of the store; `operation` is `claim`, `commit`, `join` or `renew`, `class` is `fenced`, `superseded`, `unavailable`, `corrupt`, `too_large`, `invalid` or `other`"),
    metric(COMMAND_STOP, MetricKind::Histogram, "seconds", &["command"], "The time from when a node received a command that stops a running handler until the handler ended; `command` is `sleep`, `pause`, `release`, `complete` or `kill`"),
    metric(SCHEDULE_TIMES, MetricKind::Counter, "count", &["outcome"], "Times of schedules that were decided; `outcome` is `fired`, `missed`, `skipped`, `overlapped` or `refused`. A decision whose write is repeated is counted again"),
    metric(SKEW, MetricKind::Gauge, "seconds", &[], "How far other clocks are ahead of the clock of this node, at least: from the times in the tasks that the node has claimed since the last interval; 0 when none is ahead"),
    metric(SLOTS, MetricKind::Gauge, "count", &["kind", "used"], "Slots of this node by kind; `used` is `true` for those in use, `false` for how many more tasks of the kind it could start now. Kinds share the slots of the node, so do not add up the free ones of several kinds"),
    metric(TASKS, MetricKind::Gauge, "count", &["kind", "state"], "Tasks of the namespace; `state` is a state or `quarantined`"),
    metric(OLDEST_DUE, MetricKind::Gauge, "seconds", &["kind"], "How long the first task of the namespace is due that no node has claimed; 0 when there is none: the figure to scale by"),
    metric(WAITING, MetricKind::Gauge, "count", &["kind", "reason"], "Tasks of the namespace that are not run, by the reason: `no_node`, `data_version`, `labels`, `not_claiming`, `fault`, `full`, `limit`, `tasks`, `signal`, `lost` or `copied`"),
    metric(AVAILABLE, MetricKind::Gauge, "count", &["kind"], "Tasks of the namespace that are due and that no node has claimed; a node will claim those that `windlass_waiting_tasks` gives no reason for"),
    metric(REFUSED_ROWS, MetricKind::Gauge, "count", &[], "Refused rows of the inbox (the table `windlass_inbox` of SQLite), which have no effect until they are corrected; at most 1,000 rows are read. 0 on other stores"),
    metric(WORKERS, MetricKind::Gauge, "count", &["kind", "sdk"], "Live nodes of the namespace with a handler of the kind; `kind` is `any` for those with a default handler, `sdk` is `rust` for a node, and for a remote worker the name of its client library without the version; `other` without a name, and beyond 20 names"),
    metric(REQUESTS, MetricKind::Counter, "count", &["request", "status"], "Requests that the server has answered; `request` is the method with the path of the API, or `none` for a path that it does not have"),
    metric(REQUEST_DURATION, MetricKind::Histogram, "seconds", &["request"], "The time until the server began its answer; waits last as long as they were asked for"),
    metric(IN_WORK, MetricKind::Gauge, "count", &[], "Requests that the server works on, without exchanges of workers; a wait and a stream count until their end"),
];

/// Describes every metric to the recorder of the process.
pub fn describe() {
    for metric in METRICS {
        let unit = match metric.unit {
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, unit, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, unit, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, unit, metric.help),
        }
    }
}

/// Returns the text of `docs/reference/metrics.md`.
#[doc(hidden)]
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\nThe library records its metrics with the facade [`metrics`](https://docs.rs/metrics). Install a recorder \
         before you start a node, then call `windlass::telemetry::describe()`. Without a recorder the metrics do \
         nothing. A Rust program that runs a node installs one, such as that of \
         [`metrics-exporter-prometheus`](https://docs.rs/metrics-exporter-prometheus). `windlass serve` and \
         `windlass worker --serve` show them at `/metrics`, for Prometheus, to a token with the role `read` and without \
         a scope.\n\n\
         The gauges of the namespace (`windlass_tasks`, `windlass_oldest_due_age_seconds`, `windlass_waiting_tasks`, \
         `windlass_available_tasks`, `windlass_inbox_refused_rows`, `windlass_workers`) are set by each node and server, 15 s apart (`Builder::gauges_every`), and have the same values on \
         all of them: take the maximum over the nodes, not the sum. Each node sets \
         `windlass_oldest_due_age_seconds` of the kinds that it runs, and that of kinds which no node runs. The former counts a task \
         whose claim has ended from its due time before that claim, the latter from the end of the claim, as lists do. On a store \
         that keeps no counts (etcd without `memory-index=true`) there is no `windlass_tasks`, no `windlass_waiting_tasks`, no `windlass_available_tasks`, and no age of a kind \
         that no node runs.\n\n\
         Counters begin with 0, so that `increase()` includes the first event: those of a kind when a node with a handler of the \
         kind starts, or a remote worker for it registers (for a default handler, when the first task of the kind is claimed), the \
         others when a node starts. Only `windlass_http_requests_total` has a series from the first request on.\n\n\
         No metric has a task id as a label. The first 200 kinds that a process sees have series of their own until it ends, and all \
         others are the kind `other` together, so that kinds with numbers in their names do not fill the memory. With more than 200 \
         kinds, two processes may name different ones: then take the figures of one server, not the maximum. This page is generated from the table in `src/telemetry.rs`: \
         `cargo test --all-features --test telemetry -- --ignored write_the_page` writes it.\n\n\
         | metric | type | unit | labels | what |\n|---|---|---|---|---|\n",
    );
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            metric.name,
            metric.kind.as_str(),
            metric.unit,
            labels.join(", "),
            metric.help
        );
    }
    page
}

/// Records how long after a command its handler ended.
pub(crate) fn command_stopped(command: ActionKind, took: Duration) {
    metrics::histogram!(COMMAND_STOP, "command" => command.as_str()).record(took);
}

/// Records how far the clock of another process was ahead.
pub(crate) fn clock_skew(ahead: Duration) {
    metrics::gauge!(SKEW).set(ahead.as_secs_f64());
}
