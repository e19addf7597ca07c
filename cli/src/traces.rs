//! The export of runs as traces, by OTLP. The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT` turns the
//! export on.

use tracing_subscriber::Registry;

use crate::exit::Failure;

/// The variables that name the collector.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
/// The variables that name the protocol.
#[cfg(feature = "otlp")]
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];

/// Returns the first of these variables that is set, with its value.
fn set<'a>(names: &[&'a str]) -> Option<(&'a str, String)> {
    let value = |name: &&'a str| Some((*name, std::env::var(name).ok()?));
    let mut values = names.iter().filter_map(value);
    values.find(|(_, value)| !value.trim().is_empty())
}

/// Returns the variable that asks for an export, with its value.
fn wanted() -> Option<(&'static str, String)> {
    let off =
        std::env::var("OTEL_SDK_DISABLED").is_ok_and(|v| v.trim().eq_ignore_ascii_case("true"));
    let none = std::env::var("OTEL_TRACES_EXPORTER").is_ok_and(|v| v.trim() == "none");
    set(&ENDPOINTS).filter(|_| !off && !none)
}

/// Refuses a sampler that the export does not have; it would export every span instead. `share` is the argument of a sampler
/// that takes a part of the traces.
#[cfg(any(feature = "otlp", test))]
fn check_sampler(sampler: &str, share: &str) -> Result<(), Failure> {
    match sampler {
        "" | "always_on" | "always_off" | "parentbased_always_on" | "parentbased_always_off" => {
            Ok(())
        }
        "traceidratio" | "parentbased_traceidratio" => match share.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(()),
            _ => Err(Failure::Usage(format!(
                "OTEL_TRACES_SAMPLER_ARG: '{share}' is not the share of the traces that {sampler} takes; give a number from 0 to 1"
            ))),
        },
        _ => Err(Failure::Usage(format!(
            "OTEL_TRACES_SAMPLER: '{sampler}' is not supported; give always_on, always_off or traceidratio, or one of them after \
             parentbased_"
        ))),
    }
}

/// A part of the subscriber that takes the spans of runs.
pub(crate) type Spans = Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>;

#[cfg(not(feature = "otlp"))]
mod export {
    use super::{Failure, Spans};

    /// No traces are exported.
    #[derive(Debug)]
    pub(crate) struct Traces;

    impl Traces {
        pub(crate) fn prepare() -> Result<Option<(Self, Spans)>, Failure> {
            Ok(None)
        }

        pub(crate) fn begin(&self) -> Result<(), Failure> {
            Ok(())
        }

        pub(crate) fn end(self) {}
    }

    /// Says that the environment asks for what this build does not have.
    pub(crate) fn note_missing() {
        if let Some((name, _)) = super::wanted() {
            tracing::info!(
                variable = name,
                "this build exports no traces: build it with the feature otlp"
            );
        }
    }
}

#[cfg(feature = "otlp")]
mod export {
    use std::{
        sync::{Arc, OnceLock},
        time::Duration,
    };

    use opentelemetry::{Context, KeyValue, trace::TracerProvider};
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::{
        Resource,
        error::{OTelSdkError, OTelSdkResult},
        trace::{
            BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanExporter as Export,
            SpanProcessor,
        },
    };
    use tokio::runtime::Handle;
    use tracing_subscriber::{Layer, filter};

    use super::{Failure, PROTOCOLS, Spans, check_sampler, set};

    /// How long the end of the process waits for the last export.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The export of this process.
    #[derive(Debug)]
    pub(crate) struct Traces {
        provider: SdkTracerProvider,
        resource: Resource,
        late: Late,
    }

    /// Passes spans to a processor that is made once the process runs tasks. The thread of the processor would take the signals of a
    /// supervisor.
    #[derive(Debug, Clone, Default)]
    struct Late(Arc<OnceLock<BatchSpanProcessor>>);

    impl SpanProcessor for Late {
        fn on_start(&self, span: &mut Span, context: &Context) {
            if let Some(processor) = self.0.get() {
                processor.on_start(span, context);
            }
        }

        fn on_end(&self, span: SpanData) {
            if let Some(processor) = self.0.get() {
                processor.on_end(span);
            }
        }

        fn force_flush(&self) -> OTelSdkResult {
            self.0.get().map_or(Ok(()), SpanProcessor::force_flush)
        }

        fn shutdown_with_timeout(&self, time: Duration) -> OTelSdkResult {
            let processor = self.0.get();
            processor.map_or(Ok(()), |processor| processor.shutdown_with_timeout(time))
        }
    }

    /// An exporter that runs in the async runtime.
    #[derive(Debug)]
    struct InRuntime {
        runtime: Handle,
        exporter: Arc<SpanExporter>,
    }

    impl Export for InRuntime {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let exporter = self.exporter.clone();
            let exported = self
                .runtime
                .spawn(async move { exporter.export(batch).await });
            exported
                .await
                .unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())))
        }

        fn set_resource(&mut self, resource: &Resource) {
            if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
                exporter.set_resource(resource);
            }
        }
    }

    impl Traces {
        /// Returns the export that the environment asks for, with the part of the subscriber that feeds it.
        ///
        /// # Errors
        ///
        /// [`Failure::Usage`] for another protocol than that of gRPC, and for a sampler that does not exist.
        pub(crate) fn prepare() -> Result<Option<(Self, Spans)>, Failure> {
            if super::wanted().is_none() {
                return Ok(None);
            }
            if let Some((name, protocol)) = set(&PROTOCOLS).filter(|(_, p)| p.trim() != "grpc") {
                return Err(Failure::Usage(format!(
                    "{name}: '{protocol}' is not supported; give grpc, and the endpoint for gRPC, whose port is usually 4317"
                )));
            }
            let [sampler, share] = ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"]
                .map(|name| std::env::var(name).unwrap_or_default());
            check_sampler(&sampler, &share)?;
            let late = Late::default();
            let named = std::env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty());
            let resource = Resource::builder();
            let resource = match named {
                true => resource,
                false => resource.with_attribute(KeyValue::new("service.name", "windlass")),
            };
            let resource = resource.build();
            let provider = SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_span_processor(late.clone())
                .build();
            let layer = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("windlass"))
                .with_location(false)
                .with_threads(false);
            let runs = filter::filter_fn(|of| of.is_span() && of.target().starts_with("windlass"));
            let spans: Spans = Box::new(layer.with_filter(runs));
            let traces = Self {
                provider,
                resource,
                late,
            };
            Ok(Some((traces, spans)))
        }

        /// Begins to export. Call it in the async runtime.
        ///
        /// # Errors
        ///
        /// [`Failure::Usage`] for an endpoint that cannot be used.
        pub(crate) fn begin(&self) -> Result<(), Failure> {
            let exporter = SpanExporter::builder().with_tonic().build();
            let exporter = exporter.map_err(|error| {
                let (name, value) = super::wanted().unwrap_or_default();
                Failure::Usage(format!("{name}: '{value}' cannot be used: {error}"))
            })?;
            let exporter = InRuntime {
                runtime: Handle::current(),
                exporter: Arc::new(exporter),
            };
            let mut processor = BatchSpanProcessor::builder(exporter).build();
            processor.set_resource(&self.resource);
            let _ = self.late.0.set(processor);
            Ok(())
        }

        /// Exports what is left, for two seconds at most: the exporter itself waits longer for a collector that is away.
        pub(crate) fn end(self) {
            let (done, ended) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let ended = self.provider.shutdown_with_timeout(PATIENCE);
                let _ = done.send(ended);
            });
            match ended.recv_timeout(PATIENCE + PATIENCE / 4) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the last traces were not exported"),
                Err(_) => tracing::warn!(
                    "the last traces were not exported: the collector does not answer"
                ),
            }
        }
    }

    pub(crate) fn note_missing() {}
}

pub(crate) use export::{Traces, note_missing};

#[cfg(test)]
mod tests {
    use super::check_sampler;

    #[test]
    fn a_sampler_that_does_not_exist_is_refused_with_the_choices() {
        for (sampler, share) in [
            ("", ""),
            ("always_on", "x"),
            ("parentbased_always_off", ""),
            ("traceidratio", "0.25"),
            ("parentbased_traceidratio", "1"),
        ] {
            assert!(check_sampler(sampler, share).is_ok(), "{sampler} {share}");
        }
        for (sampler, share, says) in [
            (
                "bogus",
                "",
                "OTEL_TRACES_SAMPLER: 'bogus' is not supported; give always_on",
            ),
            ("jaeger_remote", "", "'jaeger_remote' is not supported"),
            ("traceidratio", "", "OTEL_TRACES_SAMPLER_ARG: '' is not"),
            ("traceidratio", "1.5", "give a number from 0 to 1"),
            (
                "parentbased_traceidratio",
                "NaN",
                "give a number from 0 to 1",
            ),
        ] {
            let error = check_sampler(sampler, share).unwrap_err().to_string();
            assert!(error.contains(says), "{sampler} {share}: {error}");
        }
    }
}
