//! The log of a run, at the level TRACE, within its trace.

use std::{cell::RefCell, fmt::Write as _};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{self, DefaultGuard},
};

use crate::trace::Trace;

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::default();
}

/// Returns the trace of the run on this thread.
pub(crate) fn trace(most: usize) -> Trace {
    TRACE.with_borrow_mut(|trace| {
        *trace = Trace::keeping(most);
        trace.clone()
    })
}

/// Writes what this thread logs into its trace.
pub(crate) fn record(most: usize) -> DefaultGuard {
    trace(most);
    subscriber::set_default(Recorder)
}

struct Recorder;

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::TRACE && metadata.target().starts_with("windlass")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        TRACE.with_borrow(|trace| {
            trace.say(|| {
                let (level, target) = (metadata.level(), metadata.target());
                format!(
                    "pid={} {level} {target}:{}",
                    windlass_robustness::time::pid(),
                    text.0
                )
            });
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
