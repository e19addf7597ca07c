//! The metrics of a process that serves, as text for Prometheus.

use std::{sync::Arc, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{task::JoinHandle, time::sleep};
use windlass::{Client, runner, telemetry};

use crate::exit::Failure;

/// The bounds of histograms of times, in seconds: from a quick commit to a run of hours.
const SECONDS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0,
];
/// The bounds of histograms of numbers.
const COUNTS: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0];
/// How often the exporter tidies up, so that histograms that nobody reads do not grow.
const UPKEEP: Duration = Duration::from_secs(5);
/// How often the gauges of the namespace are set.
const GAUGES: Duration = Duration::from_secs(15);

/// The metrics of this process.
pub(crate) struct Exporter {
    handle: PrometheusHandle,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Exporter {
    /// Records the metrics of the process from now on.
    ///
    /// # Errors
    ///
    /// When the process has recorded them elsewhere.
    pub(crate) fn install() -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::Store(format!("metrics cannot be recorded: {error}"))
        };
        let suffix = |text: &str| Matcher::Suffix(text.to_owned());
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(suffix("_seconds"), &SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(suffix("_size"), &COUNTS));
        let recorder = builder.map_err(|error| unusable(&error))?.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| unusable(&error))?;
        telemetry::describe();
        let upkeep = handle.clone();
        let upkeep = tokio::spawn(async move {
            loop {
                sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        Ok(Self {
            handle,
            tasks: vec![upkeep],
        })
    }

    /// Sets the gauges of the namespace, too: for a process without a node.
    pub(crate) fn namespace(mut self, client: &Client) -> Self {
        let gauges = runner::namespace_gauges(client.store().clone(), GAUGES);
        self.tasks.push(tokio::spawn(gauges));
        self
    }

    /// Returns what makes the text.
    pub(crate) fn render(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let handle = Arc::new(self.handle.clone());
        move || handle.render()
    }
}
