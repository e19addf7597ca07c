//! [`Report`]: progress, failures and the summary of a run.

use std::{
    collections::HashMap,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use windlass::{
    Client, Code, State, Status, TaskId,
    store::{Error, TaskRecord},
};

use super::{
    batch::Stops,
    printing::{Ended, Job, Printing},
};
use crate::{
    exec::{KIND, Output as Captured},
    exit::Failure,
    global::Global,
    output::Output,
    text::one_line,
    waiting::{PATIENCE, patiently},
};

/// How many failures are remembered for the summary.
const KEPT: usize = 10_000;
/// How many of them the summary for people shows.
const SHOWN: usize = 10;
/// How often the progress is told where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// A task that did not complete.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Failed {
    id: TaskId,
    /// Failed, killed, deleted or set aside.
    state: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    error: Option<String>,
    attempts: u32,
    /// It was so before this run began.
    before: bool,
}

impl Failed {
    /// From the state it ended in.
    pub(super) fn of(id: &TaskId, state: &State) -> Self {
        let captured: Option<Captured> = state.data.as_ref().and_then(|d| d.get("data").ok());
        let captured = captured.filter(|_| state.code() == Code::Failed);
        Self {
            id: id.clone(),
            state: state.code().to_string(),
            exit_code: captured.as_ref().and_then(|c| c.exit_code),
            signal: captured.as_ref().and_then(|c| c.signal),
            error: state.errors.last().map(|e| e.error.clone()),
            attempts: state.attempts,
            before: false,
        }
    }

    /// From what the store says instead of a state.
    pub(super) fn set_aside(id: &TaskId, error: &Error) -> Self {
        let state = match error {
            Error::NotFound { .. } => "deleted",
            _ => "set aside",
        };
        Self {
            id: id.clone(),
            state: state.to_owned(),
            exit_code: None,
            signal: None,
            error: Some(error.to_string()),
            attempts: 0,
            before: false,
        }
    }
}

/// How many lines came to what.
#[derive(Debug, Default, Clone, Serialize)]
struct Counts {
    completed: u64,
    /// Of those that completed: in an earlier run, or for an earlier line.
    before: u64,
    failed: u64,
    /// Lines that are no task.
    wrong: u64,
}

impl Counts {
    fn settled(&self) -> u64 {
        self.completed + self.failed + self.wrong
    }
}

/// What a run leaves.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Lines whose tasks have not ended.
    pub(super) lines: u64,
    /// How many of them wait, by what they wait for.
    pub(super) waiting: HashMap<String, u64>,
    /// Live tasks of the batch that are of an earlier input, and that no line of this one names.
    pub(super) left_out: u64,
}

/// Tells a person or a program how a run goes.
pub(super) struct Report {
    out: Output,
    bar: Option<ProgressBar>,
    /// Prints what the commands print, if that was asked for.
    printing: Option<Printing>,
    batch: String,
    total: Option<u64>,
    counts: Counts,
    failures: Vec<Failed>,
    /// Tasks whose output was not printed whole.
    incomplete: u64,
    started: Instant,
    told: Instant,
}

impl Report {
    pub(super) fn new(
        global: &Global,
        batch: &str,
        total: Option<u64>,
        printing: impl FnOnce(Option<ProgressBar>) -> Result<Option<Printing>, Failure>,
    ) -> Result<Self, Failure> {
        let bar = (!global.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let template = match total {
                Some(_) => "{wide_bar} {human_pos}/{human_len} {msg}",
                None => "{spinner} {human_pos} {msg}",
            };
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Ok(Self {
            out: global.out(),
            printing: printing(bar.clone())?,
            bar,
            batch: batch.to_owned(),
            total,
            counts: Counts::default(),
            failures: Vec::new(),
            incomplete: 0,
            started: Instant::now(),
            told: Instant::now(),
        })
    }

    /// Whether something did not complete.
    pub(super) fn has_failures(&self) -> bool {
        self.counts.failed > 0
    }

    /// Says something on standard error, without the bar in the way. What the commands print may have
    /// the same reader: it is said in the order of that.
    fn say(&self, say: impl FnOnce(&Output) + Send + 'static) {
        let bar = self.bar.clone();
        let say = move |out: &Output| match bar {
            Some(bar) => bar.suspend(|| say(out)),
            None => say(out),
        };
        match &self.printing {
            Some(printing) => printing.print(Job::Say(Box::new(say))),
            None => say(&self.out),
        }
    }

    /// A line is no task, and is left out.
    pub(super) fn wrong_line(&mut self, line: u64, reason: &str) {
        self.counts.wrong += 1;
        let text = format!("line {line}: {reason}");
        self.say(move |out| out.complain(text));
    }

    /// A task has completed.
    pub(super) fn completed(&mut self, record: &TaskRecord, lines: u64) {
        self.counts.completed += lines;
        self.print(record);
    }

    /// A task had completed when its line came.
    pub(super) async fn completed_before(
        &mut self,
        client: &Client,
        id: &TaskId,
    ) -> Result<(), Failure> {
        self.counts.completed += 1;
        self.counts.before += 1;
        if self.printing.is_some() {
            let record = patiently(PATIENCE, || client.get(id)).await?;
            self.print(&record);
        }
        Ok(())
    }

    /// Prints what the command of a task that has ended has printed.
    pub(super) fn print(&self, record: &TaskRecord) {
        let (Some(printing), Ok(state)) = (&self.printing, &record.state) else {
            return;
        };
        let id = &record.task.id;
        let result = match &state.status {
            Status::Completed { result } => result.as_ref(),
            // The document is of tasks that completed; the summary has the others.
            _ if self.out.is_json() => return,
            _ => state.data.as_ref(),
        };
        let ours = result.filter(|_| record.task.kind.as_str() == KIND);
        let kept = ours.and_then(|r| r.get::<Captured>("result").ok());
        printing.print(match (kept, result) {
            _ if self.out.is_json() => Job::Json(json!({"id": id, "result": result})),
            (Some(kept), _) => Job::Ended(Ended {
                id: id.clone(),
                order: record.order,
                kept,
            }),
            // Of another kind than ours.
            (None, Some(result)) if state.code() == Code::Completed => {
                Job::Line(result.to_string())
            }
            (None, _) => return,
        });
    }

    /// Waits until all output is printed. Returns `false` when a signal came before that.
    pub(super) async fn finish_printing(&mut self, stops: &mut Stops<'_>) -> bool {
        let Some(printing) = self.printing.take() else {
            return true;
        };
        match printing.finish(stops).await {
            Some(printed) => {
                self.incomplete = printed.incomplete;
                true
            }
            None => false,
        }
    }

    /// A task has not completed, and will not.
    pub(super) fn failed(&mut self, failed: Failed, lines: u64, before: bool) {
        self.counts.failed += lines;
        if self.failures.len() < KEPT {
            self.failures.push(Failed { before, ..failed });
        }
    }

    /// Every line was read.
    pub(super) fn input_ended(&mut self) {
        self.tell_bar();
    }

    fn speed(&self) -> String {
        let done = self.counts.settled() - self.counts.before;
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        let mut text = format!("{rate:.1}/s");
        if let Some(total) = self.total.filter(|_| done > 0) {
            let left = total.saturating_sub(self.counts.settled()) as f64 / rate;
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
            text.push_str(&format!(", {} left", HumanDuration(left)));
        }
        if self.counts.failed > 0 {
            text.push_str(&format!(", {} failed", self.counts.failed));
        }
        text
    }

    fn tell_bar(&self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.counts.settled());
            bar.set_message(self.speed());
        }
    }

    /// Shows how far it is.
    pub(super) fn tick(&mut self, live: usize) {
        self.tell_bar();
        if self.bar.is_none() && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let of = self.total.map_or_else(String::new, |t| format!(" of {t}"));
            let (done, speed) = (self.counts.settled(), self.speed());
            let text = format!("{done}{of} lines done, {live} under way, {speed}");
            self.say(move |out| out.note(text));
        }
    }

    /// Prints the summary; answers whether everything completed.
    pub(super) fn conclude(self, interrupted: bool, left: Left) -> Result<bool, Failure> {
        let Left {
            lines: left,
            waiting,
            left_out,
        } = left;
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let counts = &self.counts;
        // Where the lines were counted, those that were not read yet are left too.
        let unread = self.total.map_or(0, |t| t.saturating_sub(counts.settled()));
        let left = left.max(unread);
        let lines = counts.settled() + left;
        let seconds = self.started.elapsed().as_secs_f64();
        let all = counts.completed == lines && !interrupted && self.incomplete == 0;
        if self.incomplete > 0 {
            let tasks = self.incomplete;
            self.out.complain(format_args!(
                "the output of {tasks} tasks was not printed whole; see the lines above that say 'missing here'"
            ));
        }
        if self.out.is_json() {
            self.out.json(&json!({
                "batch": self.batch,
                "lines": lines,
                "completed": counts.completed,
                "completed_before": counts.before,
                "failed": counts.failed,
                "wrong": counts.wrong,
                "left": left,
                "waiting": waiting,
                "left_out": left_out,
                "interrupted": interrupted,
                "seconds": (seconds * 1000.0).round() / 1000.0,
                "failures": self.failures,
            }))?;
            return Ok(all);
        }
        for failed in self.failures.iter().take(SHOWN) {
            let before = if failed.before { " before" } else { "" };
            let error = one_line(failed.error.as_deref().unwrap_or("no error is kept"));
            let (id, state) = (&failed.id, &failed.state);
            self.out
                .complain(format_args!("{id} {state}{before}: {error}"));
        }
        if self.failures.len() > SHOWN {
            let more = counts.failed - SHOWN as u64;
            self.out.complain(format_args!(
                "and {more} more; `windlass list --state failed --label batch={}` shows them",
                self.batch
            ));
        }
        for (why, lines) in &waiting {
            self.out.complain(format_args!("{lines} are {why}"));
        }
        if left_out > 0 {
            let batch = shell_words::quote(&self.batch);
            self.out.note(format_args!(
                "note: {left_out} tasks of this batch are from an earlier input and were not run; \
                 `windlass worker --until-idle --select batch={batch}` runs them, and \
                 `windlass delete --label batch={batch} --state runnable,sleeping,paused,fault` deletes them"
            ));
        }
        let mut text = format!("{lines} lines: {} completed", counts.completed);
        for (number, what) in [
            (counts.before, "of them before"),
            (counts.failed, "failed"),
            (counts.wrong, "wrong"),
            (left, "left for another run"),
        ] {
            if number > 0 {
                text.push_str(&format!(", {number} {what}"));
            }
        }
        let failed_before = self.failures.iter().any(|f| f.before);
        let batch = &self.batch;
        self.out
            .note(format_args!("{text}; in {seconds:.1} s, as batch {batch}"));
        if failed_before {
            self.out
                .note("--retry-failed runs again what failed before");
        }
        Ok(all)
    }
}
