//! Decides which tasks of an earlier run run again for their lines.

use serde_json::{Map, Value};
use windlass::{StateKind, Task, store::TaskRecord};

use super::{
    batch::Batch,
    entry::{BATCH, Entry},
    input_files,
    same_work::is_same_kind,
};

impl Batch {
    /// Returns whether a task of an earlier run has to run again for its line.
    pub(super) fn is_outdated(&self, entry: &Entry, record: &TaskRecord) -> bool {
        let Ok(state) = &record.state else {
            return false;
        };
        let of_earlier_run = record.submitted_at < self.started
            && state.since < self.started
            && record.task.labels.get(BATCH) == Some(&self.name);
        if entry.has_stand_in || !of_earlier_run || !state.code().is_terminal() {
            return false;
        }
        let task = &entry.submit.task;
        let has_failed = state.code() != StateKind::Completed;
        if has_failed && self.settings.retry_failed {
            // A retry keeps the task; the line may have been corrected, or have other options.
            return self.settings.again || !different_options(task, &record.task).is_empty();
        }
        self.settings.again
            || self.before.is_newer(task, state.since)
            || (entry.stamp.as_ref()).is_some_and(|stamp| stamp.differs(record, state))
    }

    /// Returns whether a task of an earlier run never ran, and has other options than its line. A
    /// task with an id that the line gives stays, because another task may wait for it.
    pub(super) fn waits_with_other_options(&self, entry: &Entry, record: &TaskRecord) -> bool {
        let Ok(state) = &record.state else {
            return false;
        };
        self.settings.retry_failed
            && entry.derived
            && !entry.has_stand_in
            && never_ran(record)
            && matches!(state.code(), StateKind::Runnable | StateKind::Sleeping)
            && !state.is_waiting()
            && record.submitted_at < self.started
            && record.task.labels.get(BATCH) == Some(&self.name)
            && !different_options(&entry.submit.task, &record.task).is_empty()
    }

    /// Reports a line whose task of an earlier run continues with the options of that run.
    pub(super) fn keeps_options(&mut self, line: u64, entry: &Entry, record: &TaskRecord) {
        if record.submitted_at >= self.started {
            return;
        }
        let options = different_options(&entry.submit.task, &record.task);
        if options.is_empty() {
            return;
        }
        let id = &record.task.id;
        let remedy = match entry.derived && never_ran(record) && !self.settings.retry_failed {
            true => "--retry-failed gives it those of this run".to_owned(),
            false => format!(
                "`{}` and then a run with --retry-failed give it those of this run",
                self.hint.on_task("kill", id)
            ),
        };
        self.report.keeps_options(format!(
            "note: line {line}: task '{id}' has not ended, and keeps the options of the earlier run ({}); {remedy}",
            options.join(", ")
        ));
    }

    /// Reports a line whose task starts as a new one, with changed options.
    pub(super) fn takes_options(&mut self, line: u64, entry: &Entry, record: &TaskRecord) {
        let options = different_options(&entry.submit.task, &record.task);
        if self.settings.again || !entry.derived || options.is_empty() {
            return;
        }
        self.report.takes_options(format!(
            "note: line {line}: runs with other options than in the earlier run ({}): as a new task, with an empty \
             folder",
            options.join(", ")
        ));
    }

    /// Returns whether a task of an earlier run has begun, or waited, before a task that runs again
    /// and that its line waits for. A paused task is left to the operator.
    pub(super) fn began_too_early(&self, entry: &Entry, record: &TaskRecord) -> bool {
        let Ok(state) = &record.state else {
            return false;
        };
        !entry.has_stand_in
            && !state.code().is_terminal()
            && state.code() != StateKind::Paused
            && !state.is_waiting()
            && record.submitted_at < self.started
            && record.task.labels.get(BATCH) == Some(&self.name)
            && self.before.runs_again(&entry.submit.task)
    }
}

/// Returns whether the command of a task has never run. A node may have claimed the task in advance
/// and released it; a stopped command leaves its output.
fn never_ran(record: &TaskRecord) -> bool {
    let fresh = |state: &windlass::TaskState| {
        state.attempts == 0
            && state.incarnation == 0
            && state.data.is_none()
            && state.errors.last().is_none()
    };
    record.node.is_none() && record.state.as_ref().is_ok_and(fresh)
}

/// Returns the options in which the task of a line differs from an existing task with its id:
/// fields of its props, and others, without the labels that `run` itself sets.
pub(super) fn different_options(line: &Task, task: &Task) -> Vec<String> {
    let labels = |task: &Task| -> Vec<(String, String)> {
        let own = task.labels.iter();
        let own = own.filter(|(name, _)| ![BATCH, input_files::LABEL].contains(&name.as_str()));
        own.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let options = [
        ("labels", labels(line) != labels(task)),
        ("priority", line.priority != task.priority),
        ("retry policy", line.retry != task.retry),
        ("limits", line.limits != task.limits),
        ("kind", !is_same_kind(&line.kind, &task.kind)),
    ];
    let different = options.into_iter().filter(|(_, differs)| *differs);
    let mut names: Vec<String> = different.map(|(name, _)| name.to_owned()).collect();
    if !line.props.same_value(&task.props) {
        let fields = |task: &Task| task.props.get::<Map<String, Value>>("props");
        match (fields(line), fields(task)) {
            (Ok(line), Ok(task)) => {
                let all = line
                    .keys()
                    .chain(task.keys().filter(|name| !line.contains_key(*name)));
                let differs = |name: &&String| line.get(*name) != task.get(*name);
                names.extend(all.filter(differs).cloned());
            }
            _ => names.push("props".to_owned()),
        }
    }
    names
}
