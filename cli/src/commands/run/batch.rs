//! [`Batch`]: submits the tasks of the lines, no further ahead than there is use for, and follows
//! what becomes of them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use windlass::{
    Client, Code, Kind, State, TaskId,
    client::Handle,
    store::{Change, ChangeStream, Error, Filter, Page, TaskRecord, What},
};

use super::{
    entry::{BATCH, Entry},
    named::Named,
    report::{Failed, Left, Report},
    source::{Lines, Numbered},
};
use crate::{
    exec::KIND,
    exit::{Exit, Failure},
    waiting::{PATIENCE, patiently},
};

/// How many tasks are submitted and have not ended, at the most: enough for every worker to be
/// busy, and little enough to be kept in memory.
const WINDOW: usize = 10_000;
/// How often the progress is shown, and looked after.
const TICK: Duration = Duration::from_millis(250);
/// When nothing was heard for so long, the tasks are looked up: something may have been missed.
const SILENCE: Duration = Duration::from_secs(20);
/// How long it is asked again once the node has stopped: what is left to read is the summary.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// The reasons to stop: signals.
pub(super) type Stops<'a> = dyn Stream<Item = &'static str> + Unpin + 'a;

/// A task that has not ended.
struct Live {
    state: Code,
    /// How many lines it is the task of.
    lines: u64,
    kind: Kind,
}

/// The tasks of a run.
pub(super) struct Batch {
    client: Client,
    report: Report,
    named: Named,
    name: String,
    /// Every line of the input was read.
    read_all: bool,
    retry_failed: bool,
    fail_fast: bool,
    started: Timestamp,
    live: HashMap<TaskId, Live>,
    /// The kinds that no live node has a handler for, as of the last look.
    unhandled: HashSet<Kind>,
    heard: Instant,
    /// How long a store that does not answer is asked again.
    patience: Duration,
}

impl Batch {
    pub(super) fn new(
        client: Client,
        report: Report,
        named: Named,
        name: &str,
        retry_failed: bool,
        fail_fast: bool,
    ) -> Self {
        Self {
            started: client.store().clock().now(),
            client,
            report,
            named,
            name: name.to_owned(),
            read_all: false,
            retry_failed,
            fail_fast,
            live: HashMap::new(),
            unhandled: HashSet::new(),
            heard: Instant::now(),
            patience: PATIENCE,
        }
    }

    /// Looks which tasks of the batch are live before any line is read: they are run only if a line
    /// names them.
    pub(super) async fn look_for_earlier(&self) -> Result<(), Failure> {
        self.named.were_live(self.list_live().await?);
        Ok(())
    }

    /// The tasks of the batch that have not ended.
    async fn list_live(&self) -> Result<Vec<TaskId>, Error> {
        let filter = Filter {
            states: Code::ALL.into_iter().filter(|c| !c.is_terminal()).collect(),
            labels: vec![(BATCH.to_owned(), Some(self.name.clone()))],
            ..Filter::default()
        };
        let (mut ids, mut after) = (Vec::new(), 0);
        loop {
            let page = Page { after, limit: 1000 };
            let records = patiently(self.patience, || self.client.list(&filter, page)).await?;
            let Some(last) = records.last() else {
                return Ok(ids);
            };
            after = last.order;
            ids.extend(records.into_iter().map(|record| record.task.id));
        }
    }

    /// Submits the lines and waits until every task has ended, or waits for something that this
    /// run cannot give it.
    pub(super) async fn work(&mut self, mut lines: Lines) -> Result<(), Failure> {
        // From before the first submit, so that no end is missed.
        let mut changes = self.follow_changes().await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut open = true;
        // What waits may just have been told to go on: it has to wait for two looks.
        let mut waiting = 0;
        loop {
            if (!open && self.live.is_empty()) || waiting > 2 {
                return Ok(());
            }
            if self.fail_fast && self.report.has_failures() {
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
                        self.heard = Instant::now();
                        for change in batch {
                            self.change(change).await?;
                        }
                    }
                    Some(Err(_)) | None => {
                        sleep(Duration::from_millis(200)).await;
                        changes = self.follow_changes().await?;
                        // What was missed meanwhile.
                        self.look_up().await?;
                    }
                },
                _ = tick.tick() => {
                    self.report.tick(self.live.len());
                    if self.heard.elapsed() > SILENCE {
                        self.heard = Instant::now();
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
        patiently(self.patience, || self.client.changes(None)).await
    }

    /// Reads a task.
    async fn read(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        patiently(self.patience, || self.client.get(id)).await
    }

    async fn submit(&mut self, chunk: Vec<Numbered>) -> Result<(), Failure> {
        let mut entries = Vec::with_capacity(chunk.len());
        for Numbered { line, entry } in chunk {
            match entry {
                Ok(entry) => entries.push((line, entry)),
                Err(reason) => self.report.wrong_line(line, &reason),
            }
        }
        let deadline = Instant::now() + self.patience;
        let mut pause = Duration::from_millis(20);
        while !entries.is_empty() {
            for (_, entry) in &entries {
                self.named.allow_new(&entry.submit.task.id);
            }
            let tasks = entries.iter().map(|(_, e)| e.submit.clone());
            let answers = self.client.submit_many(tasks).await;
            let mut again = Vec::new();
            for ((line, entry), answer) in entries.into_iter().zip(answers) {
                match answer {
                    // Submitting it again is the same submit.
                    Err(e) if e.is_retryable() => {
                        if Instant::now() > deadline {
                            return Err(e.into());
                        }
                        again.push((line, entry));
                    }
                    answer => {
                        let id = entry.submit.task.id.clone();
                        self.submitted(line, entry, answer).await?;
                        if !self.live.contains_key(&id) {
                            self.named.forget(&id);
                        }
                    }
                }
            }
            entries = again;
            if !entries.is_empty() {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
        Ok(())
    }

    async fn submitted(
        &mut self,
        line: u64,
        entry: Entry,
        answer: Result<Handle, Error>,
    ) -> Result<(), Failure> {
        let task = &entry.submit.task;
        let id = task.id.clone();
        match answer {
            Ok(new) if new.is_new() => {
                self.follow(id, Code::Runnable, task.kind.clone());
                return Ok(());
            }
            // What completed is completed, whoever ran it.
            Ok(found) if found.existing() == Some(Code::Completed) => {
                return self.report.completed_before(&self.client, &id).await;
            }
            Ok(_) => {}
            // The same work with other options: the task is as it was submitted first.
            Err(Error::AlreadyExists { .. } | Error::AlreadyFinished(_)) if entry.derived => {}
            Err(e @ (Error::AlreadyExists { .. } | Error::AlreadyFinished(_))) => {
                let reason = format!("{e}, with another kind or other props");
                self.report.wrong_line(line, &reason);
                return Ok(());
            }
            Err(e) => {
                self.report.wrong_line(line, &e.to_string());
                return Ok(());
            }
        }
        let record = self.read(&id).await?;
        let batch = record.task.labels.get(BATCH);
        if batch != Some(&self.name) {
            let reason = match batch {
                Some(other) => {
                    format!("task '{id}' is of the batch '{other}'; give --batch {other}")
                }
                None => format!("task '{id}' was not submitted by run; choose another id"),
            };
            self.report.wrong_line(line, &reason);
            return Ok(());
        }
        self.met(id, record).await
    }

    /// A task of an earlier run, or of an earlier line.
    async fn met(&mut self, id: TaskId, record: TaskRecord) -> Result<(), Failure> {
        let kind = record.task.kind.clone();
        let state = match &record.state {
            Ok(state) => state,
            Err(_) if self.retry_failed => return self.start_anew(id, kind).await,
            Err(e) => {
                self.report.failed(Failed::set_aside(&id, e), 1, true);
                return Ok(());
            }
        };
        let earlier = state.since < self.started;
        match state.code() {
            Code::Completed => self.report.completed_before(&self.client, &id).await?,
            Code::Failed | Code::Killed if self.retry_failed && earlier => {
                self.start_anew(id, kind).await?;
            }
            Code::Failed | Code::Killed => {
                self.report.failed(Failed::of(&id, state), 1, earlier);
            }
            code => self.follow(id, code, kind),
        }
        Ok(())
    }

    async fn start_anew(&mut self, id: TaskId, kind: Kind) -> Result<(), Failure> {
        self.named.allow(&id);
        match patiently(self.patience, || self.client.retry(&id)).await {
            // Somebody else was faster, or the answer to us was lost: it is live again.
            Ok(()) | Err(Error::Invalid(_)) => self.follow(id, Code::Runnable, kind),
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    fn follow(&mut self, id: TaskId, state: Code, kind: Kind) {
        self.named.allow(&id);
        let live = self.live.entry(id).or_insert(Live {
            state,
            lines: 0,
            kind,
        });
        live.lines += 1;
    }

    async fn change(&mut self, change: Change) -> Result<(), Failure> {
        let Some(live) = self.live.get_mut(&change.task) else {
            return Ok(());
        };
        match change.what {
            What::Moved { to, .. } if to.is_terminal() => self.look_up_one(&change.task).await?,
            What::Moved { to, .. } => live.state = to,
            What::Retried => live.state = Code::Runnable,
            What::Quarantined | What::Deleted => self.look_up_one(&change.task).await?,
            _ => {}
        }
        Ok(())
    }

    /// Reads what a task is now, and counts it if it has ended.
    async fn look_up_one(&mut self, id: &TaskId) -> Result<(), Failure> {
        let record = match self.read(id).await {
            Ok(record) => record,
            Err(e @ Error::NotFound { .. }) => {
                self.named.forget(id);
                let lines = self.live.remove(id).map_or(0, |l| l.lines);
                self.report.failed(Failed::set_aside(id, &e), lines, false);
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        let ended = |state: &State| state.code().is_terminal();
        if let Ok(state) = &record.state
            && !ended(state)
        {
            if let Some(live) = self.live.get_mut(id) {
                live.state = state.code();
            }
            return Ok(());
        }
        self.named.forget(id);
        let Some(live) = self.live.remove(id) else {
            return Ok(());
        };
        match &record.state {
            Ok(state) if state.code() == Code::Completed => {
                self.report.completed(&record, live.lines);
            }
            Ok(state) => {
                self.report.print(&record);
                self.report.failed(Failed::of(id, state), live.lines, false);
            }
            Err(e) => {
                self.report
                    .failed(Failed::set_aside(id, e), live.lines, false);
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

    /// Whether everything that is left waits for something that does not come by itself: an
    /// operator, or a worker of another kind.
    async fn only_waiting(&mut self) -> Result<bool, Failure> {
        let foreign: HashSet<&Kind> = (self.live.values().map(|l| &l.kind))
            .filter(|kind| kind.as_str() != KIND)
            .collect();
        let mut unhandled = HashSet::new();
        for kind in foreign {
            if !patiently(self.patience, || self.client.is_handled(kind)).await? {
                unhandled.insert(kind.clone());
            }
        }
        self.unhandled = unhandled;
        Ok(!self.live.is_empty() && self.live.values().all(|live| self.waits(live)))
    }

    fn waits(&self, live: &Live) -> bool {
        live.state == Code::Paused || self.unhandled.contains(&live.kind)
    }

    /// Waits until the output is printed. Returns `false` when a signal came before that.
    pub(super) async fn finish_printing(&mut self, stops: &mut Stops<'_>) -> bool {
        self.report.finish_printing(stops).await
    }

    /// Tells how it went, once the node has stopped.
    pub(super) async fn conclude(
        mut self,
        interrupted: bool,
        stops: &mut Stops<'_>,
    ) -> Result<Exit, Failure> {
        // A signal is not heard here any more.
        self.patience = LAST_PATIENCE;
        // What ended while the node stopped.
        self.look_up().await?;
        let mut waiting: HashMap<String, u64> = HashMap::new();
        for live in self.live.values().filter(|l| self.waits(l)) {
            let why = if live.state == Code::Paused {
                "paused; `windlass resume` lets them go on".to_owned()
            } else {
                format!("of kind '{}', for which no worker is there", live.kind)
            };
            *waiting.entry(why).or_default() += live.lines;
        }
        let left = self.live.values().map(|l| l.lines).sum();
        // Of lines that were not read nobody knows what they name.
        let left_out = if self.read_all && self.named.leaves_some() {
            self.named.left_out(&self.list_live().await?)
        } else {
            0
        };
        let left = Left {
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
