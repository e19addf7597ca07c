//! The forms of tasks and commands without what is hidden.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use windlass::{
    AwaitedSignal, Bound, Command, ErrorEntry, Invalid, Json, Kind, Limit, Note, Outcome, Progress,
    Signal, TaskStatus,
    client::{Stats, WaitReason},
    statemachine::state::{EarlierData, LastCommand, Pause},
    store::{Change, ChangeKind, CommandRecord, LimitUse, LimitedBy, NodeRecord, TaskRecord},
    wire::RecordForm,
};

use super::{
    hiding::Hiding,
    path::{Document, hidden_texts},
    placeholder::HIDDEN,
};

/// A task without what is hidden, in the form that clients read.
pub(crate) struct Shown<'a> {
    record: &'a TaskRecord,
    /// When it was read, by the clock of the store.
    now: Timestamp,
    /// What is shown in place of the record's own; `None` when nothing is hidden.
    instead: Option<Instead>,
}

struct Instead {
    props: Json,
    data: Option<Json>,
    earlier_data: Vec<EarlierData>,
    /// Whether the length of earlier data is hidden: it tells a masked value.
    hides_lengths: bool,
    result: Option<Json>,
    limits: Vec<Limit>,
    limited_by: Option<LimitedBy>,
    errors: Option<Vec<ErrorEntry>>,
    last_command: Option<LastCommand>,
    paused_by: Option<Pause>,
    progress: Option<Progress>,
    awaits_signal: Option<AwaitedSignal>,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut form = RecordForm::at(self.record, self.now);
        if let Some(instead) = &self.instead {
            form.props = &instead.props;
            form.data = instead.data.as_ref();
            form.earlier_data = instead.earlier_data.iter().map(Into::into).collect();
            if instead.hides_lengths {
                form.earlier_data
                    .iter_mut()
                    .for_each(|one| one.bytes = None);
            }
            form.result = instead.result.as_ref();
            form.limits = &instead.limits;
            form.limited_by = instead.limited_by.as_ref();
            form.last_command = instead.last_command.as_ref();
            form.paused_by = instead.paused_by.as_ref();
            form.progress = instead.progress.as_ref();
            form.awaits_signal = instead.awaits_signal.as_ref();
            form.quarantined = form.quarantined.map(|_| HIDDEN.to_owned());
            if let Some(errors) = &instead.errors {
                form.errors = errors;
                form.fingerprint = None;
            }
            if self.record.state.is_err() {
                form.fingerprint = None;
            }
        }
        form.serialize(to)
    }
}

impl Hiding {
    /// Returns a task as it is shown at `now`.
    pub(crate) fn record<'a>(&self, record: &'a TaskRecord, now: Timestamp) -> Shown<'a> {
        let task = &record.task;
        let is_shown = !self.of(Some(&task.kind)).is_any() && task.kind.as_str() != Kind::SCHEDULE;
        let instead = match self.is_nothing() || is_shown {
            true => None,
            false => Some(self.instead(record)),
        };
        Shown {
            record,
            now,
            instead,
        }
    }

    fn instead(&self, record: &TaskRecord) -> Instead {
        let task = &record.task;
        let kind = Some(&task.kind);
        let (hidden, state) = (self.of(kind), record.state.as_ref().ok());
        let of = |document, json: Option<&Json>| Some(self.document(kind, document, json?));
        let result = state.and_then(|state| match &state.status {
            TaskStatus::Completed { result } => result.as_ref(),
            _ => None,
        });
        // The key of a limit may contain values of the props.
        let hides_keys = hidden.hides(Document::Props);
        let limit = |limit: &Limit| match hides_keys {
            true => unfilled(limit),
            false => Some(limit.clone()),
        };
        let errors = state.filter(|_| self.hides_errors_of(&task.kind));
        Instead {
            props: self.document(kind, Document::Props, &task.props),
            data: of(Document::Data, state.and_then(|state| state.data.as_ref())),
            earlier_data: state.map_or_else(Vec::new, |state| {
                let earlier = state.earlier_data.iter().cloned();
                let shown = |mut earlier: EarlierData| {
                    earlier.data = of(Document::Data, earlier.data.as_ref());
                    earlier
                };
                earlier.map(shown).collect()
            }),
            hides_lengths: hidden.hides(Document::Data),
            result: of(Document::Result, result),
            limits: task.limits.iter().filter_map(limit).collect(),
            limited_by: record.limited_by.clone().and_then(|mut by| {
                by.limit = match hides_keys {
                    true => known(&by.limit, &task.limits)?,
                    false => by.limit,
                };
                Some(by)
            }),
            errors: errors.map(|state| state.errors.entries().iter().map(without_text).collect()),
            last_command: state
                .and_then(|state| state.last_command.clone())
                .map(|mut last| {
                    last.outcome = self.outcome(kind, last.outcome);
                    last
                }),
            paused_by: state
                .and_then(|state| state.paused.as_deref().cloned())
                .map(|mut pause| {
                    pause.note = self.note(kind, pause.note);
                    pause
                }),
            progress: state
                .and_then(|state| state.progress.clone())
                .map(|mut progress| {
                    if hidden.log && !progress.text.is_empty() {
                        HIDDEN.clone_into(&mut progress.text);
                    }
                    progress
                }),
            awaits_signal: state
                .and_then(|state| state.awaits_signal())
                .map(|signal| self.awaited(&task.kind, signal.clone())),
        }
    }

    /// Returns the signal that a task waits for, as it is shown: its handler may have made the text and the schema of the
    /// props or the data.
    fn awaited(&self, kind: &Kind, signal: AwaitedSignal) -> AwaitedSignal {
        let hidden = self.of(Some(kind));
        if !hidden.hides(Document::Props) && !hidden.hides(Document::Data) {
            return signal;
        }
        let text = if signal.text().is_empty() { "" } else { HIDDEN };
        signal.with_text(text).with_schema(None)
    }

    /// Returns the note of a command as it is shown. It may quote what an error quotes.
    fn note(&self, kind: Option<&Kind>, note: Option<Note>) -> Option<Note> {
        let hides = match kind {
            Some(kind) => self.hides_errors_of(kind),
            None => self.of(None).errors,
        };
        note.and_then(|note| match hides {
            true => Note::new(HIDDEN).ok(),
            false => Some(note),
        })
    }

    /// Returns a command as it is shown; `None` is the kind of a task that no longer exists.
    pub(crate) fn command(&self, kind: Option<&Kind>, mut record: CommandRecord) -> CommandRecord {
        if self.is_nothing() {
            return record;
        }
        record.command = match record.command {
            Command::Complete { result } => Command::Complete {
                result: result.map(|json| self.document(kind, Document::Result, &json)),
            },
            Command::Signal(signal) => Command::Signal(match signal.payload_json() {
                Some(payload) => {
                    let payload = self.document(kind, Document::Payload, payload);
                    Signal::new(signal.name())
                        .with_json(payload)
                        .at(signal.order())
                }
                None => signal,
            }),
            command => command,
        };
        record.outcome = record.outcome.map(|outcome| self.outcome(kind, outcome));
        record.note = self.note(kind, record.note);
        record
    }

    /// Returns the outcome of a command as it is shown.
    pub(crate) fn outcome(&self, kind: Option<&Kind>, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Answered { reply } => Outcome::Answered {
                reply: self.document(kind, Document::Reply, &reply),
            },
            Outcome::Rejected { .. } if self.of(kind).errors => Outcome::Rejected {
                reason: HIDDEN.to_owned(),
            },
            outcome => outcome,
        }
    }

    /// Returns a line of the history as it is shown: without the text of a command that cannot be read, and its note.
    pub(crate) fn change(&self, kind: Option<&Kind>, mut change: Change) -> Change {
        if let ChangeKind::MalformedCommand { text, .. } = &mut change.what
            && self.of(kind).is_any()
        {
            HIDDEN.clone_into(text);
        }
        change.note = self.note(kind, change.note);
        change
    }

    /// Returns a limit in use as it is shown. Its key may contain values of masked props.
    pub(crate) fn limit(&self, mut used: LimitUse) -> LimitUse {
        if self.is_nothing() || !self.hides_props() {
            return used;
        }
        used.limit = used.limit.as_ref().and_then(unfilled);
        // Without a limit, whether the key was filled in is not known.
        used.key = match &used.limit {
            Some(limit) => limit.key().to_owned(),
            None => HIDDEN.to_owned(),
        };
        used
    }

    /// Returns why a task is not run, as it is shown.
    /// `limits` are those of its task.
    pub(crate) fn reason(
        &self,
        kind: &Kind,
        limits: &[Limit],
        mut reason: WaitReason,
    ) -> WaitReason {
        match &mut reason {
            WaitReason::Limit(by) if self.hides_props_of(kind) => {
                if let Some(limit) = known(&by.limit, limits) {
                    by.limit = limit;
                }
            }
            WaitReason::Signal(Some(signal)) => {
                **signal = self.awaited(kind, signal.as_ref().clone());
            }
            WaitReason::Fault { reason, .. } if self.hides_errors_of(kind) => {
                HIDDEN.clone_into(reason);
            }
            _ => {}
        }
        reason
    }

    /// Hides what is hidden in the counts of a namespace.
    pub(crate) fn stats(&self, stats: &mut Stats) {
        let used = std::mem::take(&mut stats.limits);
        // As the tasks declare them.
        let declared: Vec<Limit> = used.iter().filter_map(|used| used.limit.clone()).collect();
        stats.limits = used.into_iter().map(|limit| self.limit(limit)).collect();
        for of in &mut stats.kinds {
            for held in &mut of.held_back {
                held.reason = self.reason(&of.kind, &declared, held.reason.clone());
            }
        }
    }

    /// Returns a schedule as it is shown: the form of [`ScheduleForm`](windlass::wire::ScheduleForm).
    pub(crate) fn schedule(&self, form: &impl Serialize) -> Result<Json, Invalid> {
        let json = Json::new("schedule", form)?;
        if self.is_nothing() {
            return Ok(json);
        }
        // Its spec is where the data of the task have it.
        let kind = Kind::new(Kind::SCHEDULE)?;
        let json = self.document(Some(&kind), Document::Spec, &json);
        match self.hides_errors_of(&kind) || self.hides_errors_of_runs(&json) {
            true => Ok(without_texts(&json)),
            false => Ok(json),
        }
    }

    /// Returns a node as it is shown. A handler has written the reason of a fault.
    pub(crate) fn node(&self, mut node: NodeRecord) -> NodeRecord {
        for fault in &mut node.status.faults {
            if self.of(Some(&fault.kind)).errors {
                HIDDEN.clone_into(&mut fault.reason);
            }
        }
        node
    }
}

/// Returns a schedule without the texts that may quote an error: why its spec is wrong, and the error of its last run.
fn without_texts(json: &Json) -> Json {
    let places = [&["wrong"][..], &["last_run", "error"]].map(|place| {
        let place = place.iter().map(|part| (*part).to_owned());
        place.collect::<Vec<String>>()
    });
    let places: Vec<&[String]> = places.iter().map(Vec::as_slice).collect();
    hidden_texts(json, &places, HIDDEN)
}

/// Returns an error without its text. That a claim was abandoned is no text of a handler.
fn without_text(entry: &ErrorEntry) -> ErrorEntry {
    let mut entry = entry.clone();
    if !entry.is_abandonment() {
        HIDDEN.clone_into(&mut entry.error);
    }
    entry
}

/// Returns a limit with the key as it was given, before values of the props were filled in. It is one that a task declares: then
/// one without a template has no value of the props.
fn unfilled(limit: &Limit) -> Option<Limit> {
    with_key(limit, limit.template().unwrap_or(limit.key()))
}

/// Returns a limit with the key as a task declares it. The key of one that no task is known to declare is hidden.
fn known(limit: &Limit, declared: &[Limit]) -> Option<Limit> {
    match declared.iter().find(|one| *one == limit) {
        Some(one) => unfilled(one),
        None => with_key(limit, HIDDEN),
    }
}

fn with_key(limit: &Limit, key: &str) -> Option<Limit> {
    match limit.bound() {
        Bound::AtOnce(most) => Limit::at_once(key, most).ok(),
        Bound::Starts { most, within } => Limit::starts(key, most, within).ok(),
    }
}
