//! Changes of a schedule: reads it, decides, and writes if nothing has changed since.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{
    Command, Invalid, Json, Note, StateKind, Task, TaskId, message::SendCommand,
};

use super::{Schedules, name, record::data_of};
use crate::{
    schedule::{
        data::Data,
        handler::spec_of,
        passed::{Passed, skip_passed},
        spec::Schedule,
        times::{Times, before},
    },
    store::{
        Done, Error, IfExists, Reason, Require, Reschedule, Submit, Submitted, TaskRecord,
        Transaction,
    },
};

/// How often a change is retried because a node decided a time in the meantime.
pub(super) const TRIES: u32 = 100;

/// The pause before a change is retried.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A schedule as it was read.
pub(super) struct Read {
    pub(super) id: TaskId,
    pub(super) code: StateKind,
    json: Option<Json>,
    pub(super) data: Data,
    pub(super) times: Times,
    /// Whether the spec is invalid: the times are then those of another spec.
    pub(super) is_wrong: bool,
    /// How many commands wait for the schedule.
    commands: u64,
}

/// A change of a schedule, with the other operations of the same write.
pub(super) struct Change {
    pub(super) data: Data,
    pub(super) submit: Vec<Submit>,
    pub(super) send: Vec<SendCommand>,
    /// When the schedule is due next; `None` leaves the due time as it is.
    pub(super) due: Option<Timestamp>,
}

impl From<Data> for Change {
    fn from(data: Data) -> Self {
        Self {
            data,
            submit: Vec::new(),
            send: Vec::new(),
            due: None,
        }
    }
}

pub(super) fn skipping(task: Task) -> Submit {
    let if_exists = IfExists::Skip;
    Submit { task, if_exists }
}

impl Schedules {
    pub(super) fn now(&self) -> Timestamp {
        self.client.store().clock().now()
    }

    /// Reads a live schedule.
    pub(super) async fn read(&self, id: TaskId) -> Result<Read, Error> {
        let record = self.client.get(&id).await?;
        self.is_schedule(&record)?;
        Self::read_of(record, None)
    }

    /// Converts a record into a live schedule. A schedule with an invalid spec has decided no time: it gets
    /// the times of `instead`.
    pub(super) fn read_of(record: TaskRecord, instead: Option<&Schedule>) -> Result<Read, Error> {
        let id = record.task.id;
        let state = record.state?;
        let code = state.code();
        if code.is_terminal() {
            return Err(Error::ScheduleEnded(id));
        }
        let data = data_of(state.data.as_ref(), &record.task.props)?;
        let spec = spec_of(&data, &record.task.props);
        let times = spec.and_then(|spec| Times::new(id.as_str(), &spec));
        let is_wrong = times.is_err();
        let times = match (times, instead) {
            (Err(_), Some(spec)) => Times::new(id.as_str(), spec),
            (times, _) => times,
        };
        Ok(Read {
            commands: record.commands,
            times: times?,
            json: state.data,
            is_wrong,
            data,
            code,
            id,
        })
    }

    /// Writes a change if the schedule has not changed since it was read, and returns the results of its
    /// submits. `None` when it has changed, or when a node is deciding a time.
    pub(super) async fn write(
        &self,
        read: &Read,
        change: Change,
    ) -> Result<Option<Vec<Submitted>>, Error> {
        let id = &read.id;
        let data = Json::new("data", &change.data)?;
        let mut reschedule = Reschedule::new(id.clone()).data(data);
        if let Some(due) = change.due
            && matches!(read.code, StateKind::Runnable | StateKind::Sleeping)
        {
            reschedule = reschedule.due(due);
        }
        let mut transaction = Transaction::new()
            .of_schedules()
            .require(id.clone(), Require::Data(read.json.clone()))
            .reschedule(reschedule);
        for submit in change.submit {
            transaction = transaction.submit(submit);
        }
        for send in change.send {
            transaction = transaction.send(send);
        }
        let mut answers = self.client.apply(vec![transaction]).await;
        match answers.pop() {
            Some(Ok(applied)) => {
                let submitted = applied.done().iter().filter_map(|done| match done {
                    Done::Submitted(submitted) => Some(submitted.clone()),
                    _ => None,
                });
                Ok(Some(submitted.collect()))
            }
            Some(Err(Error::Refused(refusals)))
                if refusals
                    .iter()
                    .any(|one| one.task == *id && is_passing(&one.reason)) =>
            {
                Ok(None)
            }
            Some(Err(error)) => Err(error),
            None => Err(Error::Unusable("the store returned no result".to_owned())),
        }
    }

    /// Computes and writes a change, and retries when a node has changed the schedule in the
    /// meantime.
    pub(super) async fn change<T>(
        &self,
        id: TaskId,
        decide: impl Fn(&Read, Timestamp) -> Result<(Change, T), Error>,
    ) -> Result<(Vec<Submitted>, T), Error> {
        for _ in 0..TRIES {
            let read = self.read(id.clone()).await?;
            let (change, result) = decide(&read, self.now())?;
            if let Some(submitted) = self.write(&read, change).await? {
                return Ok((submitted, result));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(busy(&id))
    }

    /// Pauses a schedule, with a note that [`get`](Self::get) returns. The command has the note too.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), [`Error::ScheduleEnded`], and [`Error::Invalid`] (field `note`) for a text that
    /// is no [`Note`].
    pub async fn pause(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        note: Option<String>,
    ) -> Result<(), Error> {
        let id = name(id)?;
        let note = note.map(Note::new).transpose()?;
        let noted = |read: &Read, _| {
            let data = Data {
                note: note.as_ref().map(ToString::to_string),
                ..read.data.clone()
            };
            // A resume that waits would end the pause.
            let is_paused = read.code == StateKind::Paused && read.commands == 0;
            Ok((data.into(), is_paused))
        };
        let (_, is_paused) = self.change(id.clone(), noted).await?;
        // The state of a paused task has the note of the last pause.
        if !is_paused || note.is_some() {
            let client = self.client.clone().with_note(note);
            client.command(&id, Command::Pause).await?;
        }
        Ok(())
    }

    /// Resumes a paused schedule. The times that have passed during the pause count as skipped; if `catch_up` is
    /// set, they count as missed, and may be made up for. The command [`Run`](Command::Run) resumes without
    /// catching up.
    ///
    /// If a clock that was ahead has decided times of the schedule
    /// ([`ScheduleRecord::ahead`](super::ScheduleRecord::ahead)), the schedule continues from the present.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::Invalid`] (field `state`) when the schedule is neither
    /// paused nor about to be.
    pub async fn resume(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        catch_up: bool,
    ) -> Result<(), Error> {
        let id = name(id)?;
        // The pause is still in the queue: the run command behind it undoes it.
        let is_asked = self.client.get(&id).await?.commands > 0;
        let resumed = |read: &Read, now| {
            let is_ahead = read.data.ahead(read.times.spec(), now).is_some();
            if read.code != StateKind::Paused && !is_asked && !is_ahead {
                let reason = format!(
                    "of '{}' is {}; only a paused schedule is resumed",
                    read.id, read.code
                );
                return Err(Invalid::new("state", reason).into());
            }
            let mut data = read.data.clone();
            if !catch_up {
                skip_passed(&mut data, &read.times, now, Passed::Due);
            }
            // The handler sets the same for a plain command `run`.
            data.catches_up = catch_up;
            data.note = None;
            Ok((data.into(), ()))
        };
        self.change(id.clone(), resumed).await?;
        self.client.command(&id, Command::Run).await?;
        Ok(())
    }

    /// Skips one future time.
    ///
    /// # Errors
    ///
    /// The errors of [`get`](Self::get), and [`Error::Invalid`] (field `time`) if the schedule has
    /// no such future time.
    pub async fn skip(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        time: Timestamp,
    ) -> Result<(), Error> {
        let skipped = |read: &Read, now| {
            let last = read.data.cursor(read.times.spec(), now);
            let is_time = read.times.next(before(time).into()) == Some(time);
            if !is_time || time <= last.last {
                let next = read
                    .times
                    .next(last)
                    .map(|at| format!("; the next is {at}"));
                let reason = format!(
                    "{time} is not a future time of '{}'{}",
                    read.id,
                    next.unwrap_or_default()
                );
                return Err(Invalid::new("time", reason).into());
            }
            let mut data = read.data.clone();
            data.skip.push(time);
            data.skip.sort_unstable();
            data.skip.dedup();
            Ok((data.into(), ()))
        };
        self.change(name(id)?, skipped).await.map(drop)
    }
}

/// Returns whether a refusal is temporary: a node is deciding a time, or has just decided one.
fn is_passing(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Data | Reason::Claimed | Reason::State { .. }
    )
}

pub(super) fn busy(id: &TaskId) -> Error {
    let reason = format!(
        "of schedule '{id}' changes all the time: a node decides its times without a pause; try again"
    );
    Invalid::new("data", reason).into()
}
