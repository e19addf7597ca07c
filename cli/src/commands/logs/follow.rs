//! [`Follow`]: prints the output of a task while its commands run.

use std::{ops::Bound, time::Duration};

use futures::StreamExt;
use tokio::time::{MissedTickBehavior, interval, sleep};
use windlass::{Client, store::TaskRecord};

use super::{
    lines::HandlerLines,
    printer::Printer,
    source::{Source, elsewhere, print_stored, state},
    stored::Stored,
};
use crate::{
    exit::Failure,
    logs::{Reader, Run},
    output::Output,
};

/// The interval at which the files are read.
const TICK: Duration = Duration::from_millis(50);
/// The interval at which the lines of the handler are read.
const LINES: Duration = Duration::from_millis(300);
/// The wait before the store's changes are followed again.
const PAUSE: Duration = Duration::from_millis(200);

/// Follows the output of a task, until the task has ended.
pub(super) struct Follow {
    client: Client,
    source: Source,
    lines: HandlerLines,
    to: Printer,
    out: Output,
    reader: Option<Reader>,
    /// The last run that was printed: the next one is after it.
    from: Bound<Run>,
    /// The output in the store at the last read.
    stored: Option<Stored>,
    /// The run about which a note said that it runs on another machine.
    noted: Option<Run>,
}

impl Follow {
    pub(super) fn new(
        client: Client,
        (source, lines): (Source, HandlerLines),
        to: Printer,
        out: Output,
    ) -> Self {
        Self {
            client,
            source,
            lines,
            to,
            out,
            reader: None,
            from: Bound::Unbounded,
            stored: None,
            noted: None,
        }
    }

    /// Prints until the task has ended.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or has no such task any more.
    pub(super) async fn run(mut self, record: TaskRecord) -> Result<(), Failure> {
        let id = record.task.id.clone();
        let is_exec = record.task.kind.is_command();
        let mut changes = self.client.changes(None).await?;
        // Earlier attempts are not printed.
        let local = self.source.local(&record)?;
        let chosen = self.source.chosen(&local, Stored::of(&record).as_ref());
        if let Some(first) = chosen.first() {
            self.from = Bound::Included(*first);
        }
        loop {
            // The changes are already followed, so none is missed.
            let record = match self.client.get(&id).await {
                Ok(record) => record,
                Err(e) => {
                    self.drain(&record)?;
                    self.to.finish(None)?;
                    return Err(e.into());
                }
            };
            let ended = state(&record).is_none_or(windlass::StateKind::is_terminal);
            match ended {
                true => self.drain(&record)?,
                false => self.read(&record)?,
            }
            self.read_stored(&record)?;
            self.to.logged(&self.lines.read().await?)?;
            if ended {
                return self.to.finish(state(&record));
            }
            let mut lines = interval(LINES);
            lines.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    batch = changes.next() => match batch {
                        Some(Ok(batch)) if batch.iter().any(|c| c.task == id) => break,
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => {
                            sleep(PAUSE).await;
                            changes = self.client.changes(None).await?;
                            break;
                        }
                    },
                    () = sleep(TICK) => self.read(&record)?,
                    // A handler may log without a change of its task. A command logs no lines.
                    _ = lines.tick(), if !is_exec => {
                        self.to.logged(&self.lines.read().await?)?;
                    }
                }
            }
        }
    }

    /// Prints the new part of the files.
    fn read(&mut self, record: &TaskRecord) -> Result<(), Failure> {
        loop {
            if let Some(reader) = &mut self.reader {
                reader.read(&mut |event| self.to.event(event))?;
            }
            let local = self.source.local(record)?;
            let Some(next) = self.source.wanted.next(&local, self.from) else {
                return Ok(());
            };
            // The previous run has ended, or was lost.
            self.leave()?;
            self.from = Bound::Excluded(next);
            self.to.begin(Some(next))?;
            let logs = self.source.logs.as_ref();
            self.reader = logs.map(|logs| logs.reader(&record.task.id, record.order, next));
        }
    }

    fn leave(&mut self) -> Result<(), Failure> {
        match self.reader.take() {
            Some(mut reader) => reader.finish(&mut |event| self.to.event(event)),
            None => Ok(()),
        }
    }

    /// Prints the rest of the files.
    fn drain(&mut self, record: &TaskRecord) -> Result<(), Failure> {
        self.read(record)?;
        self.leave()
    }

    /// Prints new output from the store, for a run without a log on this machine.
    fn read_stored(&mut self, record: &TaskRecord) -> Result<(), Failure> {
        let Some(stored) = Stored::of(record) else {
            return Ok(());
        };
        if let Some(run) = stored.run {
            let local = self.source.local(record)?;
            if elsewhere(&local, Some(&stored)).is_none()
                || self.source.wanted.next(&[run], self.from).is_none()
            {
                return Ok(());
            }
            if self.noted.replace(run) != Some(run) {
                self.out.note(format_args!(
                    "note: this machine has no log of attempt {}; following what the store keeps, \
                     which is updated every 5 s",
                    run.attempt
                ));
                self.leave()?;
                self.to.begin(Some(run))?;
            }
        } else if self.reader.is_some() {
            return Ok(());
        }
        print_stored(&mut self.to, &stored, self.stored.as_ref())?;
        self.stored = Some(stored);
        Ok(())
    }
}
