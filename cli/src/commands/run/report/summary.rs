//! The summary of a run.

use std::{
    collections::{BTreeMap, HashMap},
    io::IsTerminal,
};

use jiff::Timestamp;
use serde::Serialize;
use windlass::TaskId;

use super::{Report, SHOWN};
use crate::{
    commands::{
        run::tally::{Failed, Span, Unfinished},
        serve::encoded,
    },
    exit::Failure,
    hint::quoted,
    text::{counted, one_line},
};

/// The outcome of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Summary<'a> {
    /// The batch: the label of its tasks.
    batch: &'a str,
    /// The number of lines.
    lines: u64,
    /// The lines whose task has completed.
    completed: u64,
    /// The lines of `completed` whose task this run did not execute.
    completed_before: u64,
    /// The lines of `completed` whose task completed in an earlier run.
    from_earlier_run: u64,
    /// When the tasks of earlier runs ended.
    earlier_run: Span,
    /// The lines whose task did not complete.
    failed: u64,
    /// The lines of `failed` whose command did not run, because a task that it waited for did not
    /// complete.
    not_run: u64,
    /// The invalid lines.
    wrong: u64,
    /// The lines whose task has not ended.
    left: u64,
    /// How many lines wait, by the reason.
    waiting: BTreeMap<&'a str, u64>,
    /// The tasks of this batch that no line of this input names, and that were not run.
    left_out: u64,
    /// Whether a signal ended the run.
    interrupted: bool,
    /// How long the run took.
    seconds: f64,
    /// The tasks that did not complete; only the first ones if there are many.
    failures: &'a [Failed],
}

impl Report {
    /// Prints the summary. Returns whether everything completed.
    pub(in crate::commands::run) fn conclude(
        self,
        interrupted: bool,
        left: Unfinished,
    ) -> Result<bool, Failure> {
        let Unfinished {
            lines: left,
            waiting,
            left_out,
        } = left;
        self.screen.clear();
        let counts = &self.counts;
        // If the lines were counted, those that were not read yet are also left.
        let unread = self.total.map_or(0, |t| t.saturating_sub(counts.settled()));
        let left = left.max(unread);
        let lines = counts.settled() + left;
        let seconds = self.started.elapsed().as_secs_f64();
        let all = counts.completed == lines && !interrupted && self.incomplete == 0;
        if self.incomplete > 0 {
            let tasks = counted(self.incomplete, "task");
            self.out.complain(format_args!(
                "the output of {tasks} was not printed whole; see the lines above that say 'missing here'"
            ));
        }
        if let Some(text) = self.behind_refused.text() {
            self.out.complain(text);
        }
        if self.out.is_json() {
            self.out.json(&Summary {
                batch: &self.batch,
                lines,
                completed: counts.completed,
                completed_before: counts.before(),
                from_earlier_run: counts.earlier,
                earlier_run: self.earlier,
                failed: counts.failed,
                not_run: counts.not_run,
                wrong: counts.wrong,
                left,
                waiting: waiting
                    .iter()
                    .map(|(why, lines)| (why.as_str(), *lines))
                    .collect(),
                left_out,
                interrupted,
                seconds: (seconds * 1000.0).round() / 1000.0,
                failures: &self.failures,
            })?;
            return self.end(all);
        }
        let by_id = self.failures.iter().map(|failed| (&failed.id, failed));
        let by_id: HashMap<&TaskId, &Failed> = by_id.collect();
        for failed in self.failures.iter().take(SHOWN) {
            let before = if failed.before { " before" } else { "" };
            let error = match root(failed, &by_id) {
                Some(root) => format!(
                    "not run: task '{}' before it {}; after_ok requires that it completes",
                    root.id,
                    root.outcome()
                ),
                None => one_line(failed.error.as_deref().unwrap_or("no error is kept")),
            };
            let (id, state) = (&failed.id, &failed.state);
            self.out
                .complain(format_args!("{id} {state}{before}: {error}"));
        }
        if self.failures.len() > SHOWN {
            let more = counts.failed - SHOWN as u64;
            self.out.complain(format_args!(
                "and {more} more; `{}` shows them",
                self.on_batch("list --state failed --label")
            ));
        }
        for (why, lines) in &waiting {
            let are = if *lines == 1 { "line is" } else { "lines are" };
            self.out.complain(format_args!("{lines} {are} {why}"));
        }
        if left_out > 0 {
            let (are, were, them) = match left_out {
                1 => ("is", "was", "it"),
                _ => ("are", "were", "them"),
            };
            let tasks = counted(left_out, "task");
            self.out.note(format_args!(
                "note: {tasks} of this batch {are} from an earlier input and {were} not run; `{}` runs {them}, and \
                 `{}` deletes {them}",
                self.on_batch("worker --take-runs --until-idle --select"),
                self.on_batch("delete --state runnable,sleeping,paused,fault --label")
            ));
        }
        if self.other_options > 1 {
            self.out.note(format_args!(
                "note: {} lines equal an earlier one but for labels, priority or retry policy; their tasks have \
                 those of the earlier line",
                self.other_options
            ));
        }
        let plural = if lines == 1 { "" } else { "s" };
        let mut text = format!("{lines} line{plural}: {} completed", counts.completed);
        if counts.earlier > 0 {
            let when = self.earlier.text(Timestamp::now());
            text.push_str(&format!(
                ", {} from an earlier run ({when})",
                counts.earlier
            ));
        }
        for (number, what) in [
            (counts.repeated, "for an equal line"),
            (counts.failed, "failed"),
            (
                counts.not_run,
                "of them not run (a task before them did not complete)",
            ),
            (counts.wrong, "wrong"),
            (left, "left for another run"),
        ] {
            if number > 0 {
                text.push_str(&format!(", {number} {what}"));
            }
        }
        let batch = &self.batch;
        self.out
            .note(format_args!("{text}; in {seconds:.1} s, as batch {batch}"));
        if counts.earlier > 0 && counts.before() == counts.completed {
            self.out
                .note("to run lines again that completed in an earlier run, give --again");
        }
        match self.ran_behind_failed {
            0 => {}
            1 => (self.out)
                .note("1 line ran although a line before it failed (after); after_ok stops it"),
            many => self.out.note(format_args!(
                "{many} lines ran although a line before them failed (after); after_ok stops them"
            )),
        }
        if counts.failed > 0 && self.is_kept {
            self.out
                .note("`windlass run … --retry-failed` runs again what failed");
        }
        if self.is_kept && std::io::stderr().is_terminal() {
            let label = encoded(&format!("batch={}", self.batch));
            let page = format!("/tasks?label={label}");
            let serve = self
                .hint
                .command(&format!("serve --page {}", quoted(&page)));
            self.out
                .note(format_args!("see the tasks in a browser: {serve}"));
        }
        self.end(all)
    }

    /// Returns a command line whose last option takes the label of the batch.
    fn on_batch(&self, words: &str) -> String {
        let batch = quoted(&self.batch);
        self.hint.command(&format!("{words} batch={batch}"))
    }

    /// Returns whether everything completed. Returns an error if output is missing.
    fn end(&self, all: bool) -> Result<bool, Failure> {
        match self.unwritten {
            0 => Ok(all),
            tasks => Err(Failure::Store(format!(
                "the output of {} could not be written; `{}` prints it, and so does the same run again",
                counted(tasks, "task"),
                self.hint.command("logs ID")
            ))),
        }
    }
}

/// Returns the first task of the chain because of which a task was not run, if it is known.
fn root<'a>(failed: &Failed, by_id: &HashMap<&TaskId, &'a Failed>) -> Option<&'a Failed> {
    let mut root = *by_id.get(failed.unmet.as_ref()?)?;
    // A task waits only for earlier lines; the bound is for tasks that other programs submitted.
    for _ in 0..by_id.len() {
        match &root.unmet {
            None => return Some(root),
            Some(id) => root = by_id.get(id)?,
        }
    }
    None
}
