//! Connects runs and submits with distributed traces. Without the feature `opentelemetry` only the texts in the `meta` of
//! tasks are left.

use tracing::Span;
use windlass_statemachine::{Fence, NodeName, Task, Trace};

/// Returns the span of one run of a handler: a trace of its own, because one that lasts as long as a task would be of no use.
/// It has a link to the place from which the task was submitted.
pub(crate) fn task_span(task: &Task, node: &NodeName, fence: Fence, attempt: u32) -> Span {
    #[cfg(feature = "opentelemetry")]
    let span = tracing::info_span!(
        parent: None, "task", "otel.name" = %task.kind, "otel.kind" = "consumer",
        task = %task.id, kind = %task.kind, node = %node, fence = fence.0, attempt
    );
    #[cfg(not(feature = "opentelemetry"))]
    let span = tracing::info_span!(
        parent: None, "task", task = %task.id, kind = %task.kind, node = %node, fence = fence.0, attempt
    );
    if let Some(from) = Trace::of(&task.meta) {
        exported::link(&span, &from);
    }
    span
}

/// Returns the place of the current span in its trace, if the process exports traces.
pub(crate) fn current() -> Option<Trace> {
    exported::place(&Span::current())
}

/// Returns the place of a span in its trace, if the process exports traces.
pub(crate) fn place(span: &Span) -> Option<Trace> {
    exported::place(span)
}

/// Records that a run has failed.
pub(crate) fn failed(span: &Span, error: &str) {
    exported::failed(span, error);
}

#[cfg(not(feature = "opentelemetry"))]
mod exported {
    use tracing::Span;
    use windlass_statemachine::Trace;

    pub(super) fn link(_: &Span, _: &Trace) {}

    pub(super) fn place(_: &Span) -> Option<Trace> {
        None
    }

    pub(super) fn failed(_: &Span, _: &str) {}
}

#[cfg(feature = "opentelemetry")]
mod exported {
    use opentelemetry::trace::{
        SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
    };
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use windlass_statemachine::Trace;

    pub(super) fn link(span: &Span, to: &Trace) {
        let (Ok(trace), Ok(of_span)) = (
            TraceId::from_hex(to.trace_id()),
            SpanId::from_hex(to.span_id()),
        ) else {
            return;
        };
        let flags = match to.is_sampled() {
            true => TraceFlags::SAMPLED,
            false => TraceFlags::default(),
        };
        let state: TraceState = to.state().and_then(|s| s.parse().ok()).unwrap_or_default();
        span.add_link(SpanContext::new(trace, of_span, flags, true, state));
    }

    pub(super) fn place(span: &Span) -> Option<Trace> {
        let context = span.context();
        let span = context.span();
        let place = span.span_context();
        if !place.is_valid() {
            return None;
        }
        let (trace, of_span) = (place.trace_id(), place.span_id());
        let parent = format!("00-{trace}-{of_span}-{:02x}", place.trace_flags());
        Trace::new(&parent, Some(&place.trace_state().header())).ok()
    }

    pub(super) fn failed(span: &Span, error: &str) {
        span.set_status(Status::error(error.to_owned()));
    }
}
