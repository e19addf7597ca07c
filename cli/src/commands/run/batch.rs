//! [`Batch`]: submits the tasks of the lines, a bounded number ahead, and follows each to its end.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use windlass::{
    Client, Kind, StateKind, Task, TaskId, TaskState,
    store::{Change, ChangeKind, ChangeStream, Error, Filter, Page, TaskRecord},
};

use super::{
    before::Before,
    changed::Changed,
    entry::BATCH,
    idle::Idle,
    live::Live,
    named_tasks::NamedTasks,
    printing::Stops,
    report::Report,
    same_work::is_of_older_version,
    settings::Settings,
    source::Lines,
    tally::{Failed, Unfinished},
};
use crate::{
    exit::{Exit, Failure},
    hint::Hint,
    order::Order,
    waiting::PATIENCE,
};

/// The largest number of tasks that are submitted and have not ended: enough to keep every worker
/// busy, and few enough to keep in memory.
const WINDOW: usize = 10_000;
/// The interval at which progress is updated.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait for a change before the tasks are read again, because a change may have been
/// missed.
const SILENCE: Duration = Duration::from_secs(20);
/// How long the store is retried after the node has stopped, when only the summary is left to read.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// The tasks of a run.
pub(super) struct Batch {
    pub(super) client: Client,
    pub(super) hint: Hint,
    pub(super) report: Report,
    pub(super) named: NamedTasks,
    pub(super) name: String,
    /// Whether every line of the input was read.
    read_all: bool,
    /// The order of the lines that wait for others.
    pub(super) order: Order,
    /// The lines that later lines may wait for.
    pub(super) before: Before,
    /// The lines that were changed after their task had ended.
    pub(super) changed: Changed,
    pub(super) settings: Settings,
    pub(super) started: Timestamp,
    pub(super) live: HashMap<TaskId, Live>,
    /// The kinds that had no live node at the last check.
    unhandled: HashSet<Kind>,
    received_at: Instant,
    /// How long a store that does not respond is retried.
    pub(super) patience: Duration,
    pub(super) idle: Idle,
}

impl Batch {
    pub(super) fn new(
        client: Client,
        report: Report,
        named: NamedTasks,
        name: &str,
        settings: Settings,
    ) -> Self {
        let hint = report.hint().clone();
        Self {
            started: client.store().clock().now(),
            client,
            report,
            named,
            name: name.to_owned(),
            read_all: false,
            order: Order::default(),
            before: Before::default(),
            changed: Changed::new(hint.clone(), settings),
            hint,
            settings,
            live: HashMap::new(),
            unhandled: HashSet::new(),
            received_at: Instant::now(),
            patience: PATIENCE,
            idle: Idle::new(Instant::now()),
        }
    }

    /// Reads which tasks of the batch are live before any line is read. They run only if a line
    /// names them.
    pub(super) async fn look_for_earlier(&self) -> Result<(), Failure> {
        let live = self.list_live(|_| true).await?;
        self.named.were_live(live);
        Ok(())
    }

    /// Returns these tasks of the batch that have not ended.
    async fn list_live(&self, which: impl Fn(&Task) -> bool) -> Result<Vec<TaskId>, Error> {
        let filter = Filter::new()
            .states(StateKind::ALL.into_iter().filter(|c| !c.is_terminal()))
            .labels([(BATCH.to_owned(), Some(self.name.clone()))]);
        let (mut ids, mut after) = (Vec::new(), 0);
        loop {
            let page = Page::new(1000).after(after);
            let records = self
                .report
                .screen()
                .ask(self.patience, || self.client.list(&filter, page))
                .await?;
            let Some(last) = records.last() else {
                return Ok(ids);
            };
            after = last.order;
            let tasks = records.into_iter().map(|record| record.task);
            ids.extend(tasks.filter(&which).map(|task| task.id));
        }
    }

    /// Submits the lines, and waits until every task has ended or waits for something that this run
    /// cannot provide.
    pub(super) async fn work(&mut self, mut lines: Lines) -> Result<(), Failure> {
        // The feed begins before the first submit, so that no end is missed.
        let mut changes = self.follow_changes().await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut open = true;
        // A waiting task may just have been resumed, so it counts only if it still waits at the next
        // check.
        let mut waiting = 0;
        loop {
            if (!open && self.live.is_empty()) || waiting > 2 {
                return Ok(());
            }
            if self.settings.fail_fast && self.report.has_failures() {
                return Ok(());
            }
            tokio::select! {
                chunk = lines.recv(), if open && self.live.len() < WINDOW => match chunk {
                    Some(Ok(chunk)) => self.submit(chunk).await?,
                    Some(Err(e)) => {
                        return Err(Failure::Usage(format!("the input cannot be read: {e}")));
                    }
                    None => {
                        open = false;
                        self.read_all = true;
                        self.report.input_ended();
                    }
                },
                batch = changes.next() => match batch {
                    Some(Ok(batch)) => {
                        self.received_at = Instant::now();
                        for change in batch {
                            self.change(change).await?;
                        }
                    }
                    Some(Err(_)) | None => {
                        sleep(Duration::from_millis(200)).await;
                        changes = self.follow_changes().await?;
                        // Reads what was missed in the meantime.
                        self.look_up().await?;
                    }
                },
                _ = tick.tick() => {
                    let running = self.live.values().filter(|live| live.runs()).count();
                    let running = running.min(self.settings.jobs);
                    self.report.tick(running, self.live.len() - running);
                    self.name_the_wait(running).await?;
                    if self.received_at.elapsed() > SILENCE {
                        self.received_at = Instant::now();
                        self.look_up().await?;
                    }
                    let full = self.live.len() >= WINDOW;
                    waiting = match (!open || full) && self.only_waiting().await? {
                        true => waiting + 1,
                        false => 0,
                    };
                }
            }
        }
    }

    async fn follow_changes(&self) -> Result<ChangeStream, Error> {
        self.report
            .screen()
            .ask(self.patience, || self.client.changes(None))
            .await
    }

    /// Reads a task.
    pub(super) async fn read(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        self.report
            .screen()
            .ask(self.patience, || self.client.get(id))
            .await
    }

    async fn change(&mut self, change: Change) -> Result<(), Failure> {
        let Some(live) = self.live.get_mut(&change.task) else {
            return Ok(());
        };
        self.idle.changed(Instant::now());
        match change.what {
            // The task has ended.
            ChangeKind::Moved {
                to: StateKind::Completed,
                ..
            } if !self.report.prints() => {
                let lines = live.lines;
                if self.before.any_failed(&live.after) {
                    self.report.ran_behind_a_failure(lines);
                }
                self.live.remove(&change.task);
                self.named.forget(&change.task);
                self.report.count_completed(lines);
            }
            ChangeKind::Moved { to, .. } if to.is_terminal() => {
                self.look_up_one(&change.task).await?;
            }
            // It may wait for a signal.
            ChangeKind::Moved {
                to: StateKind::Paused,
                ..
            } => self.look_up_one(&change.task).await?,
            ChangeKind::Moved { to, .. } | ChangeKind::Rescheduled { to, .. } => live.state = to,
            ChangeKind::Claimed { .. } => {
                live.claimed = true;
                if live.waits {
                    live.state = StateKind::Runnable;
                }
            }
            ChangeKind::Dropped { .. } | ChangeKind::Lost { .. } => live.claimed = false,
            ChangeKind::Retried => live.state = StateKind::Runnable,
            ChangeKind::Quarantined | ChangeKind::Deleted => self.look_up_one(&change.task).await?,
            _ => {}
        }
        Ok(())
    }

    /// Reads a task, and counts it if it has ended.
    async fn look_up_one(&mut self, id: &TaskId) -> Result<(), Failure> {
        let record = match self.read(id).await {
            Ok(record) => record,
            Err(e @ Error::NotFound { .. }) => {
                self.named.forget(id);
                let lines = self.live.remove(id).map_or(0, |l| l.lines);
                self.before.failed(id);
                self.report
                    .failed(Failed::quarantined(id, &e), lines, false);
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        let ended = |state: &TaskState| state.code().is_terminal();
        if let Ok(state) = &record.state
            && !ended(state)
        {
            if let Some(live) = self.live.get_mut(id) {
                live.state = state.code();
                live.claimed = record.node.is_some();
                live.awaits = state.awaits_signal().is_some();
            }
            return Ok(());
        }
        self.named.forget(id);
        let Some(live) = self.live.remove(id) else {
            return Ok(());
        };
        let completed = |state: &TaskState| state.code() == StateKind::Completed;
        let ran = (record.state.as_ref()).is_ok_and(|s| completed(s) || s.attempts > 0);
        if ran && self.before.any_failed(&live.after) {
            self.report.ran_behind_a_failure(live.lines);
        }
        if !record.state.as_ref().is_ok_and(completed) {
            self.before.failed(id);
        }
        match &record.state {
            Ok(state) if completed(state) => {
                self.report.completed(&record, live.lines);
            }
            Ok(state) => {
                self.report.print(&record, false);
                self.report.failed(Failed::of(id, state), live.lines, false);
            }
            Err(e) => {
                self.report
                    .failed(Failed::quarantined(id, e), live.lines, false);
            }
        }
        Ok(())
    }

    async fn look_up(&mut self) -> Result<(), Failure> {
        let ids: Vec<TaskId> = self.live.keys().cloned().collect();
        for id in ids {
            self.look_up_one(&id).await?;
        }
        Ok(())
    }

    /// Returns whether all remaining tasks wait for an operator or for a worker of another kind.
    async fn only_waiting(&mut self) -> Result<bool, Failure> {
        let foreign: HashSet<&Kind> = (self.live.values().map(|l| &l.kind))
            .filter(|kind| !kind.is_command())
            .collect();
        let mut unhandled = HashSet::new();
        for kind in foreign {
            if !self
                .report
                .screen()
                .ask(self.patience, || self.client.is_handled(kind))
                .await?
            {
                unhandled.insert(kind.clone());
            }
        }
        self.unhandled = unhandled;
        let mut live = self.live.values();
        // Tasks that wait for others continue when these do.
        Ok(live.any(|live| self.waits(live))
            && (self.live.values()).all(|live| self.waits(live) || live.is_blocked()))
    }

    fn waits(&self, live: &Live) -> bool {
        live.is_paused() || self.unhandled.contains(&live.kind)
    }

    /// Waits until the output is printed. Returns `false` when a signal came before that.
    pub(super) async fn finish_printing(&mut self, stops: &mut Stops<'_>) -> bool {
        self.report.finish_printing(stops).await
    }

    /// Prints the summary, once the node has stopped.
    pub(super) async fn conclude(
        mut self,
        interrupted: bool,
        stops: &mut Stops<'_>,
    ) -> Result<Exit, Failure> {
        // From here on signals have no effect.
        self.patience = LAST_PATIENCE;
        // Tasks that ended while the node stopped.
        self.look_up().await?;
        let mut waiting: HashMap<String, u64> = HashMap::new();
        let waits = |live: &&Live| self.waits(live) || live.is_blocked() || live.awaits;
        for live in self.live.values().filter(waits) {
            let why = if live.is_blocked() {
                "waiting for tasks that have not ended".to_owned()
            } else if live.awaits {
                let list = self.hint.command("list --waits signal");
                format!("waiting for signals; `{list}` lists them")
            } else if live.is_paused() {
                format!(
                    "paused; `{}` lets them continue",
                    self.hint.command("resume")
                )
            } else {
                format!("of kind '{}', for which no worker is there", live.kind)
            };
            *waiting.entry(why).or_default() += live.lines;
        }
        let left = self.live.values().map(|l| l.lines).sum();
        // Lines that were not read may name any task.
        let left_out = if self.read_all && self.named.leaves_some() {
            // Every worker runs the others, also those of other programs.
            let waits = |task: &Task| !is_of_older_version(task);
            self.named.left_out(&self.list_live(waits).await?)
        } else {
            0
        };
        let left = Unfinished {
            lines: left,
            waiting,
            left_out,
        };
        if !self.finish_printing(stops).await {
            return Ok(Exit::Interrupted);
        }
        let all = self.report.conclude(interrupted, left)?;
        Ok(match (interrupted, all) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Ok,
            (false, false) => Exit::No,
        })
    }
}
