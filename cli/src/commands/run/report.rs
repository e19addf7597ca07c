//! [`Report`]: progress, failures and the summary of a run.

pub(crate) mod summary;

use std::time::{Duration, Instant};

use indicatif::HumanDuration;
use jiff::Timestamp;
use windlass::{StateKind, TaskId, TaskStatus, store::TaskRecord};

use super::{
    printing::{Ended, Job, Printing, Ran, Stops},
    screen::Screen,
    tally::{Counts, Failed, Span},
};
use crate::{exec::Output as Captured, global::Global, hint::Hint, output::Output, view::age};

/// How many failures are remembered for the summary.
const KEPT: usize = 10_000;
/// How many of them the summary for people shows.
const SHOWN: usize = 10;
/// The interval of progress lines without a terminal.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Lines that were not submitted because they wait for a refused line.
#[derive(Debug, Default)]
struct Behind {
    lines: usize,
    /// The numbers of the first of them.
    first: Vec<u64>,
}

impl Behind {
    fn add(&mut self, line: u64) {
        self.lines += 1;
        if self.first.len() < SHOWN {
            self.first.push(line);
        }
    }

    /// Returns a single error for all these lines.
    fn text(&self) -> Option<String> {
        let first: Vec<String> = self.first.iter().map(u64::to_string).collect();
        let first = first.join(", ");
        let more = if self.lines > SHOWN { ", …" } else { "" };
        match self.lines {
            0 => None,
            1 => Some(format!(
                "1 line ({first}) was not submitted: it waits for a line that has an error"
            )),
            many => Some(format!(
                "{many} lines ({first}{more}) were not submitted: they wait for lines that have errors"
            )),
        }
    }
}

/// Reports the progress of a run to a person or a program.
pub(super) struct Report {
    out: Output,
    screen: Screen,
    /// Prints what the commands print, if that was asked for.
    printing: Option<Printing>,
    batch: String,
    total: Option<u64>,
    counts: Counts,
    /// When the tasks that completed in an earlier run ended.
    earlier: Span,
    /// Whether to report each line whose task completed in an earlier run.
    verbose: bool,
    failures: Vec<Failed>,
    /// Lines that ran although a task named in their `after` had not completed.
    ran_behind_failed: u64,
    behind_refused: Behind,
    hint: Hint,
    /// Whether a later run can find the tasks; false for the store in memory.
    is_kept: bool,
    /// Lines that equal an earlier one except for their options.
    other_options: u64,
    /// Whether a task that keeps the options of an earlier run was reported, and one that does not.
    keeps_options: bool,
    takes_options: bool,
    /// Tasks whose output was not printed whole.
    incomplete: u64,
    /// Tasks whose output could not be written.
    unwritten: u64,
    started: Instant,
    reported: Instant,
}

impl Report {
    pub(super) fn new(
        global: &Global,
        screen: Screen,
        batch: &str,
        total: Option<u64>,
        printing: Option<Printing>,
    ) -> Self {
        Self {
            out: global.out(),
            screen,
            printing,
            batch: batch.to_owned(),
            total,
            counts: Counts::default(),
            earlier: Span::default(),
            verbose: global.verbose > 0,
            failures: Vec::new(),
            ran_behind_failed: 0,
            behind_refused: Behind::default(),
            hint: global.hint(),
            is_kept: global.store_url().is_ok_and(|url| url != "memory:"),
            other_options: 0,
            keeps_options: false,
            takes_options: false,
            incomplete: 0,
            unwritten: 0,
            started: Instant::now(),
            reported: Instant::now(),
        }
    }

    /// Returns what standard error shows.
    pub(super) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the maker of command lines for messages.
    pub(super) fn hint(&self) -> &Hint {
        &self.hint
    }

    /// Returns whether any line did not complete.
    pub(super) fn has_failures(&self) -> bool {
        self.counts.failed > 0
    }

    /// Prints a message on standard error, without interference of the bar. Keeps the order with the
    /// output of the commands, which may have the same reader.
    fn say(&self, say: impl FnOnce(&Output) + Send + 'static) {
        let bar = self.screen.bar().cloned();
        let say = move |out: &Output| match bar {
            Some(bar) => bar.suspend(|| say(out)),
            None => say(out),
        };
        match &self.printing {
            Some(printing) => printing.print(Job::Say(Box::new(say))),
            None => say(&self.out),
        }
    }

    /// Reports a line that is not a task, and leaves it out.
    pub(super) fn wrong_line(&mut self, line: u64, reason: &str) {
        self.counts.wrong += 1;
        let text = format!("line {line}: {reason}");
        self.say(move |out| out.complain(text));
    }

    /// Counts a line that waits for a refused line, and leaves it out. The end reports all such lines
    /// together.
    pub(super) fn behind_refused(&mut self, line: u64) {
        self.counts.wrong += 1;
        self.behind_refused.add(line);
    }

    /// Reports a line that equals an earlier one except for its options. Only the first such line is
    /// named; the summary counts the others.
    pub(super) fn other_options(&mut self, text: String) {
        self.other_options += 1;
        if self.other_options == 1 {
            self.say(move |out| out.note(text));
        }
    }

    /// Reports a task that keeps the options of an earlier run. Only the first one is reported.
    pub(super) fn keeps_options(&mut self, text: String) {
        if !std::mem::replace(&mut self.keeps_options, true) {
            self.say(move |out| out.note(text));
        }
    }

    /// Reports a task that runs again with other options than in an earlier run. Only the first one
    /// is reported.
    pub(super) fn takes_options(&mut self, text: String) {
        if !std::mem::replace(&mut self.takes_options, true) {
            self.say(move |out| out.note(text));
        }
    }

    /// Counts a task that has completed.
    pub(super) fn completed(&mut self, record: &TaskRecord, lines: u64) {
        self.count_completed(lines);
        self.print(record, false);
    }

    /// Counts a completed task whose output is not printed.
    pub(super) fn count_completed(&mut self, lines: u64) {
        self.counts.completed += lines;
    }

    /// Returns whether output is printed.
    pub(super) fn prints(&self) -> bool {
        self.printing.is_some()
    }

    /// Counts a task that had completed before its line was read: in an earlier run, or for an equal
    /// line of this one.
    pub(super) fn completed_before(&mut self, record: &TaskRecord, earlier: bool) {
        self.counts.completed += 1;
        let Some(ended) = record.state.as_ref().ok().filter(|_| earlier) else {
            self.counts.repeated += 1;
            return self.print(record, false);
        };
        self.counts.earlier += 1;
        self.earlier.add(ended.since);
        if self.verbose {
            let age = age(ended.since, Timestamp::now());
            let text = format!("{} is from an earlier run ({age} ago)", record.task.id);
            self.say(move |out| out.note(text));
        }
        self.print(record, true);
    }

    /// Prints the output of the command of a task that has ended.
    pub(super) fn print(&self, record: &TaskRecord, earlier: bool) {
        let (Some(printing), Ok(state)) = (&self.printing, &record.state) else {
            return;
        };
        let id = &record.task.id;
        let result = match &state.status {
            TaskStatus::Completed { result } => result.as_ref(),
            // A document is printed for completed tasks; the summary has the others.
            _ if self.out.is_json() => return,
            _ => state.data.as_ref(),
        };
        let ours = result.filter(|_| record.task.kind.is_command());
        let kept = ours.and_then(|r| r.get::<Captured>("result").ok());
        printing.print(match (kept, result) {
            _ if self.out.is_json() => Job::Json(Ran {
                id: id.clone(),
                result: result.cloned(),
                from_earlier_run: earlier,
                ended: state.since,
            }),
            (Some(kept), _) => Job::Ended(Ended {
                id: id.clone(),
                order: record.order,
                kept,
            }),
            // The result of another kind.
            (None, Some(result)) if state.code() == StateKind::Completed => {
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
        match printing.finish(stops, self.hint.command("logs ID")).await {
            Some(printed) => {
                self.incomplete = printed.incomplete;
                self.unwritten = printed.unwritten;
                true
            }
            None => false,
        }
    }

    /// Counts a task that did not complete, and will not.
    pub(super) fn failed(&mut self, failed: Failed, lines: u64, before: bool) {
        self.counts.failed += lines;
        self.counts.not_run += if failed.not_run { lines } else { 0 };
        if self.failures.len() < KEPT {
            self.failures.push(Failed { before, ..failed });
        }
    }

    /// Counts lines that ran although a task named in their `after` had not completed.
    pub(super) fn ran_behind_a_failure(&mut self, lines: u64) {
        self.ran_behind_failed += lines;
    }

    /// Notes that every line was read.
    pub(super) fn input_ended(&mut self) {
        self.tell_bar();
    }

    fn speed(&self) -> String {
        let done = self.counts.settled() - self.counts.before();
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
        if let Some(bar) = self.screen.bar()
            && !self.screen.is_out()
        {
            bar.set_position(self.counts.settled());
            bar.set_message(self.speed());
        }
    }

    /// Shows the progress: how many tasks run, and how many wait.
    pub(super) fn tick(&mut self, running: usize, waiting: usize) {
        self.tell_bar();
        let due = self.screen.bar().is_none() && self.reported.elapsed() >= REPORT_EVERY;
        if due && !self.screen.is_out() {
            self.reported = Instant::now();
            let of = self.total.map_or_else(String::new, |t| format!(" of {t}"));
            let (done, speed) = (self.counts.settled(), self.speed());
            let text =
                format!("{done}{of} lines done, {running} running, {waiting} waiting, {speed}");
            self.say(move |out| out.note(text));
        }
    }

    /// Reports what the run waits for while nothing runs: the reason of one of its tasks.
    pub(super) fn idle(&self, tasks: usize, (line, id): (u64, &TaskId), reason: &str) {
        let tasks = match tasks {
            1 => "1 task waits".to_owned(),
            many => format!("{many} tasks wait"),
        };
        let text = format!("nothing runs, {tasks}: line {line} ({id}): {reason}");
        self.say(move |out| out.note(text));
    }
}
