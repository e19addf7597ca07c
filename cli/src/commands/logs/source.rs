//! [`Source`]: the location of a task's output: files of this machine, or the store.

use windlass::{StateKind, statemachine::text::of_io, store::TaskRecord};

use super::{printer::Printer, select::Wanted, stored::Stored};
use crate::{
    exit::Failure,
    hint::Hint,
    logs::{Bytes, Logs, Run, Stream},
    output::Output,
};

/// Where the output of a task is, and which part to print.
pub(super) struct Source {
    pub(super) logs: Option<Logs>,
    pub(super) wanted: Wanted,
    pub(super) hint: Hint,
}

impl Source {
    /// Returns the runs of a task that have a log on this machine.
    pub(super) fn local(&self, record: &TaskRecord) -> Result<Vec<Run>, Failure> {
        let Some(logs) = &self.logs else {
            return Ok(Vec::new());
        };
        logs.runs(&record.task.id, record.order).map_err(|e| {
            Failure::Store(format!(
                "could not read the logs of the task: {}",
                of_io(&e)
            ))
        })
    }

    /// Returns the runs of the wanted attempt that have output here or in the store.
    pub(super) fn chosen(&self, local: &[Run], stored: Option<&Stored>) -> Vec<Run> {
        let mut all = local.to_vec();
        all.extend(elsewhere(local, stored));
        self.wanted.choose(all)
    }

    /// Prints the output so far. A task whose handler has logged lines may have no other output.
    pub(super) fn print(
        &self,
        mut to: Printer,
        out: &Output,
        record: &TaskRecord,
        has_lines: bool,
    ) -> Result<(), Failure> {
        let local = self.local(record)?;
        let stored = Stored::of(record);
        let chosen = self.chosen(&local, stored.as_ref());
        let named = self.wanted.attempt.is_some() || self.wanted.incarnation.is_some();
        for run in &chosen {
            to.begin(Some(*run))?;
            match (&self.logs, &stored) {
                (Some(logs), _) if local.contains(run) => {
                    let mut reader = logs.reader(&record.task.id, record.order, *run);
                    reader.finish(&mut |event| to.event(event))?;
                }
                (_, Some(stored)) => {
                    note_stored(out, stored);
                    print_stored(&mut to, stored, None)?;
                }
                _ => {}
            }
        }
        if chosen.is_empty() {
            match stored.filter(|stored| stored.run.is_none() && !named) {
                Some(stored) => {
                    if stored.truncated {
                        out.note("note: the store keeps only the end of the output");
                    }
                    print_stored(&mut to, &stored, None)?;
                }
                None if has_lines => {}
                None if named => return Err(no_such(record, &local)),
                None => out.note(self.nothing(record)),
            }
        }
        to.finish(state(record))
    }

    /// Says why there is no output.
    fn nothing(&self, record: &TaskRecord) -> String {
        let id = &record.task.id;
        let has_not_run = record.state.as_ref().is_ok_and(|state| state.claims == 0);
        let (what, command, shows) = match (has_not_run, state(record)) {
            (true, Some(code)) if code.is_terminal() => {
                ("has ended without a run", "get", "shows how")
            }
            (true, _) => ("has not run yet", "why", "says why"),
            (false, _) => ("keeps no output", "get", "shows what there is"),
        };
        format!(
            "task '{id}' {what}; `{}` {shows}",
            self.hint.on_task(command, id)
        )
    }
}

pub(super) fn state(record: &TaskRecord) -> Option<StateKind> {
    record.state.as_ref().map(windlass::TaskState::code).ok()
}

/// Returns the run in the store, if it has output and no log on this machine.
pub(super) fn elsewhere(local: &[Run], stored: Option<&Stored>) -> Option<Run> {
    let stored = stored?;
    let run = stored.run?;
    let printed = Stream::ALL.iter().any(|s| stored.total(*s) > 0);
    (printed && !local.contains(&run)).then_some(run)
}

/// Notes that the output is from the store, and how much of it is kept.
fn note_stored(out: &Output, stored: &Stored) {
    let attempt = stored.run.map_or(0, |run| run.attempt);
    let parts: Vec<String> = Stream::ALL
        .into_iter()
        .filter(|stream| stored.since(None, *stream).0 > 0)
        .map(|stream| {
            let (kept, total) = (stored.text(stream).len(), stored.total(stream));
            format!("the last {kept} of {total} bytes of {}", stream.name())
        })
        .collect();
    let kept = match parts.is_empty() {
        true => "all of it".to_owned(),
        false => parts.join(" and "),
    };
    out.note(format_args!(
        "note: this machine has no log of attempt {attempt}; the store keeps {kept}"
    ));
}

/// Prints the output that the store got since `before`.
pub(super) fn print_stored(
    to: &mut Printer,
    stored: &Stored,
    before: Option<&Stored>,
) -> Result<(), Failure> {
    for stream in Stream::ALL {
        let (missing, text) = stored.since(before, stream);
        to.gap(Bytes::of(stream, missing))?;
        to.piece(
            stream,
            jiff::Timestamp::now().as_millisecond(),
            text.as_bytes(),
        )?;
    }
    Ok(())
}

/// Returns the failure for an attempt without output.
fn no_such(record: &TaskRecord, local: &[Run]) -> Failure {
    let id = &record.task.id;
    let mut here: Vec<String> = local
        .iter()
        .map(|run| format!("{} of incarnation {}", run.attempt, run.incarnation))
        .collect();
    here.dedup();
    let here = match here.is_empty() {
        true => "none".to_owned(),
        false => here.join(", "),
    };
    let kind = &record.task.kind;
    let why = match kind.is_command() {
        true => "the store keeps only the last attempt",
        false => {
            "the handler of another kind than those of commands has a log of the attempts in which it logs lines"
        }
    };
    Failure::NotFound(format!(
        "task '{id}' has no output of that attempt; attempts with a log on this machine: {here}; {why}"
    ))
}
