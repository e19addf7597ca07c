//! [`Report`]: progress, failures and the summary of a run.

use std::{
    collections::HashMap,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use windlass::{Client, Code, State, Status, TaskId, store::Error};

use crate::{
    exec::Output as Captured,
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
    print_output: bool,
    batch: String,
    total: Option<u64>,
    counts: Counts,
    failures: Vec<Failed>,
    started: Instant,
    told: Instant,
}

impl Report {
    pub(super) fn new(
        global: &Global,
        print_output: bool,
        batch: &str,
        total: Option<u64>,
    ) -> Self {
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
        Self {
            out: global.out(),
            bar,
            print_output,
            batch: batch.to_owned(),
            total,
            counts: Counts::default(),
            failures: Vec::new(),
            started: Instant::now(),
            told: Instant::now(),
        }
    }

    /// Whether something did not complete.
    pub(super) fn has_failures(&self) -> bool {
        self.counts.failed > 0
    }

    /// Prints without the bar in the way.
    fn aside<T>(&self, print: impl FnOnce(&Output) -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(&self.out)),
            None => print(&self.out),
        }
    }

    /// A line is no task, and is left out.
    pub(super) fn wrong_line(&mut self, line: u64, reason: &str) {
        self.counts.wrong += 1;
        self.aside(|out| out.complain(format_args!("line {line}: {reason}")));
    }

    /// A task has completed.
    pub(super) fn completed(
        &mut self,
        id: &TaskId,
        state: &State,
        lines: u64,
    ) -> Result<(), Failure> {
        self.counts.completed += lines;
        self.print(id, state)
    }

    /// A task had completed when its line came.
    pub(super) async fn completed_before(
        &mut self,
        client: &Client,
        id: &TaskId,
    ) -> Result<(), Failure> {
        self.counts.completed += 1;
        self.counts.before += 1;
        if self.print_output
            && let Ok(state) = patiently(PATIENCE, || client.get(id)).await?.state
        {
            self.print(id, &state)?;
        }
        Ok(())
    }

    fn print(&mut self, id: &TaskId, state: &State) -> Result<(), Failure> {
        if !self.print_output {
            return Ok(());
        }
        match self.print_result(id, state) {
            // Nobody reads it any more. The tasks are to be done all the same.
            Err(Failure::Pipe) => {
                self.print_output = false;
                Ok(())
            }
            printed => printed,
        }
    }

    fn print_result(&self, id: &TaskId, state: &State) -> Result<(), Failure> {
        let Status::Completed { result } = &state.status else {
            return Ok(());
        };
        self.aside(|out| {
            if out.is_json() {
                return out.json(&json!({"id": id, "result": result}));
            }
            let captured: Option<Captured> = result.as_ref().and_then(|r| r.get("result").ok());
            match (captured, result) {
                (Some(captured), _) => out.bytes(captured.stdout.as_bytes()),
                // Of another kind than ours.
                (None, Some(result)) => out.line(result),
                (None, None) => Ok(()),
            }
        })
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
            self.out.note(format_args!(
                "{done}{of} lines done, {live} under way, {speed}"
            ));
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
        let all = counts.completed == lines && !interrupted;
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
