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
        fmt,
        sync::{Arc, OnceLock},
        time::Duration,
    };

    use opentelemetry::{KeyValue, trace::TracerProvider};
    use opentelemetry_otlp::SpanExporter;
    use opentelemetry_sdk::{
        Resource,
        error::{OTelSdkError, OTelSdkResult},
        trace::{SdkTracerProvider, SpanData, SpanExporter as Export},
    };
    use tokio::runtime::Handle;
    use tracing_subscriber::{Layer, filter};

    use super::{Failure, PROTOCOLS, Spans, set};

    /// The export of this process.
    #[derive(Debug)]
    pub(crate) struct Traces {
        provider: SdkTracerProvider,
        resource: Resource,
        late: Late,
    }

    /// An exporter that is made once the async runtime exists, in which it then runs.
    #[derive(Clone)]
    struct Late(Arc<OnceLock<(Handle, Arc<SpanExporter>)>>);

    impl fmt::Debug for Late {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Late")
        }
    }

    impl Export for Late {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let Some((runtime, exporter)) = self.0.get().cloned() else {
                return Err(OTelSdkError::InternalFailure(
                    "the export has not begun".into(),
                ));
            };
            let exported = runtime.spawn(async move { exporter.export(batch).await });
            exported
                .await
                .unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())))
        }

        // The exporter gets the resource when it is made.
        fn set_resource(&mut self, _: &Resource) {}
    }

    impl Traces {
        /// Returns the export that the environment asks for, with the part of the subscriber that feeds it.
        ///
        /// # Errors
        ///
        /// [`Failure::Usage`] for another protocol than that of gRPC.
        pub(crate) fn prepare() -> Result<Option<(Self, Spans)>, Failure> {
            if super::wanted().is_none() {
                return Ok(None);
            }
            if let Some((name, protocol)) = set(&PROTOCOLS).filter(|(_, p)| p.trim() != "grpc") {
                return Err(Failure::Usage(format!(
                    "{name}: '{protocol}' is not supported; give grpc, and the endpoint for gRPC, whose port is usually 4317"
                )));
            }
            let late = Late(Arc::default());
            let named = std::env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty());
            let resource = Resource::builder();
            let resource = match named {
                true => resource,
                false => resource.with_attribute(KeyValue::new("service.name", "windlass")),
            };
            let resource = resource.build();
            let provider = SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(late.clone())
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
            let mut exporter = exporter.map_err(|error| {
                let (name, value) = super::wanted().unwrap_or_default();
                Failure::Usage(format!("{name}: '{value}' cannot be used: {error}"))
            })?;
            exporter.set_resource(&self.resource);
            let _ = self.late.0.set((Handle::current(), Arc::new(exporter)));
            Ok(())
        }

        /// Exports what is left.
        pub(crate) fn end(self) {
            if let Err(error) = self.provider.shutdown_with_timeout(Duration::from_secs(2)) {
                tracing::warn!(%error, "the last traces were not exported");
            }
        }
    }

    pub(crate) fn note_missing() {}
}

pub(crate) use export::{Traces, note_missing};
