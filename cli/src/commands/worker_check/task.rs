//! [`Task`]: a task of the stand-in store, and what its handler has done.

use std::{
    collections::BTreeMap,
    fs, mem,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use serde_json::{Value, json};

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// The handler returned this message.
    Returned(Value),
    /// The worker has aborted the handler.
    Aborted,
    /// The claim was lost.
    Lost,
}

/// A stop that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    pub(super) reason: &'static str,
    pub(super) grace: Duration,
    /// When the answer was sent that has it.
    pub(super) sent: Option<Instant>,
}

/// A run that a greater one has replaced.
#[derive(Debug)]
pub(super) struct Earlier {
    start: Value,
    trace: PathBuf,
    /// Whether its start is to be sent once more.
    pub(super) is_due: bool,
}

impl Earlier {
    /// Returns its start once, when it is to be sent again.
    pub(super) fn take_start(&mut self) -> Option<Value> {
        mem::take(&mut self.is_due).then(|| self.start.clone())
    }

    /// Returns how often its handler has started.
    pub(super) fn starts(&self) -> usize {
        starts(&self.trace)
    }

    /// Returns whether its handler has gone on after this moment.
    pub(super) fn goes_on_after(&self, moment: Instant) -> bool {
        goes_on_after(&self.trace, moment)
    }
}

fn starts(trace: &Path) -> usize {
    let text = fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| *line == "start").count()
}

fn goes_on_after(trace: &Path, moment: Instant) -> bool {
    let written = fs::metadata(trace).and_then(|file| file.modified());
    let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
    age.is_ok_and(|age| age < moment.elapsed())
}

/// A task of the stand-in store.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) fence: u64,
    /// The run that goes on or is to start.
    pub(super) run: u64,
    /// Every run that was to start.
    pub(super) runs: usize,
    pub(super) props: Value,
    pub(super) data: Option<Value>,
    /// The outcomes of the tasks that it has waited for.
    pub(super) waited: Option<Value>,
    /// The payload of a signal that the handler has from its start, if the client takes signals.
    pub(super) signals_at_start: Option<Value>,
    /// The payload of a signal that comes while the handler runs, and whether an answer has had it.
    pub(super) signal: Option<(Value, bool)>,
    /// The file in which the handler notes that it has started and that it goes on.
    trace: PathBuf,
    /// The run that the present one has replaced.
    pub(super) earlier: Option<Earlier>,
    /// The number of the last report that was applied.
    pub(super) n: u64,
    /// Reports whose answer was lost, or was none, by their numbers.
    pub(super) unanswered: BTreeMap<u64, Value>,
    /// The request whose answer has the run, and whether the client has got that answer.
    pub(super) sent: Option<(u64, bool)>,
    /// When the run was first sent.
    pub(super) since: Option<Instant>,
    pub(super) stop: Option<Stopped>,
    /// When the client learned that the claim is over.
    pub(super) over_sent: Option<Instant>,
    /// Whether the run may be sent.
    pub(super) is_ready: bool,
    pub(super) end: Option<End>,
}

impl Task {
    pub(super) fn new(id: String, props: Value, trace: PathBuf) -> Self {
        let mut props = props;
        props["trace"] = json!(trace);
        Self {
            id,
            fence: 40,
            run: 3,
            runs: 1,
            props,
            data: None,
            waited: None,
            signals_at_start: None,
            signal: None,
            trace,
            earlier: None,
            n: 0,
            unanswered: BTreeMap::new(),
            sent: None,
            since: None,
            stop: None,
            over_sent: None,
            is_ready: true,
            end: None,
        }
    }

    /// Returns whether the claim goes on.
    pub(super) fn is_live(&self) -> bool {
        self.end.is_none()
    }

    /// Returns whether the handler is known to run.
    pub(super) fn is_running(&self) -> bool {
        self.is_live() && self.starts() > 0
    }

    /// Replaces the run by a greater one of the claim, whose handler has a file of its own.
    pub(super) fn replace(&mut self) {
        let start = self.start();
        let trace = self.trace.with_extension("next");
        self.props["trace"] = json!(trace);
        let trace = mem::replace(&mut self.trace, trace);
        self.earlier = Some(Earlier {
            start,
            trace,
            is_due: false,
        });
        self.run += 2;
        (self.sent, self.since) = (None, None);
    }

    /// Returns the start of the run, as an answer has it.
    pub(super) fn start(&self) -> Value {
        let mut start = json!({
            "id": self.id, "fence": self.fence, "run": self.run, "kind": "", "props": self.props, "data": self.data,
            "data_version": 1, "attempt": 1, "incarnation": 0, "n": self.n + 1, "grace_ms": 30_000,
            "now": Timestamp::now(),
        });
        if let Some(waited) = &self.waited {
            start["waited"] = waited.clone();
        }
        start
    }

    /// Returns a signal to the run, as an answer has it.
    pub(super) fn signalled(&self, payload: &Value) -> Value {
        json!({
            "id": self.id, "fence": self.fence, "run": self.run, "order": 1,
            "command": {"message": "signal", "name": "check", "payload": payload},
        })
    }

    /// Returns how often a handler has started.
    pub(super) fn starts(&self) -> usize {
        starts(&self.trace)
    }

    /// Returns whether the handler has gone on after this moment.
    pub(super) fn goes_on_after(&self, moment: Instant) -> bool {
        goes_on_after(&self.trace, moment)
    }

    /// Returns the message with which the handler has ended.
    pub(super) fn returned(&self) -> Option<&str> {
        match &self.end {
            Some(End::Returned(message)) => message["message"].as_str(),
            _ => None,
        }
    }

    /// Returns what a client may have to tell apart from another report of the same number.
    pub(super) fn content(item: &Value) -> Value {
        json!([
            item["checkpoint"],
            item["return"],
            item["answer"],
            item["aborted"] == json!(true)
        ])
    }
}
