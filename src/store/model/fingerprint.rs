//! The fingerprint of a transaction, by which a store knows its operations again.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Command, Fence, Guard, IfExists, Invalid, Json, Kind, Require, Reschedule, StateKind, Task,
    TaskId,
};

use super::{operation::Operation, transaction::Transaction};
use crate::store::Error;

/// What the fingerprints of this form begin with. A fingerprint of another form is of another version, and
/// cannot be compared.
const FORM: &str = "2-";

impl Transaction {
    /// Returns a short text that stands for the guards and operations, with every field. A time counts as given,
    /// whatever it is; the ids of commands and the `meta` of tasks do not count: a program that repeats a transaction may compute both
    /// again.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::Transaction;
    ///
    /// let delete = |id: &str| Transaction::new().delete(id.parse().unwrap());
    /// assert_eq!(delete("a").fingerprint(), delete("a").fingerprint());
    /// assert_ne!(delete("a").fingerprint(), delete("b").fingerprint());
    /// ```
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv::default();
        self.holding_guards()
            .for_each(|guard| hash.form(&GuardForm::from(guard)));
        self.operations()
            .iter()
            .for_each(|operation| hash.form(&Form::from(operation)));
        format!("{FORM}{:016x}", hash.0)
    }

    /// Checks that this transaction is the one that was applied with its id: `applied` is the fingerprint of
    /// that one.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `transaction id`).
    pub fn check_repeats(&self, applied: &str) -> Result<(), Error> {
        if !applied.starts_with(FORM) || applied == self.fingerprint() {
            return Ok(());
        }
        let id = self.id().map_or("", |id| id.as_str());
        let reason = format!(
            "'{id}' was applied with other operations or guards; give each transaction an id of its own"
        );
        Err(Invalid::new("transaction id", reason).into())
    }
}

/// An operation as the fingerprint has it. The names are stored in every fingerprint: they never change.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
enum Form<'a> {
    Submit {
        task: Box<Task>,
        if_exists: IfExists,
    },
    Send {
        task: &'a TaskId,
        command: Command,
    },
    Delete {
        task: &'a TaskId,
    },
    Retry {
        task: &'a TaskId,
    },
    Reschedule {
        change: Reschedule,
    },
}

impl<'a> From<&'a Operation> for Form<'a> {
    fn from(operation: &'a Operation) -> Self {
        match operation {
            Operation::Submit(submit) => Self::Submit {
                task: Box::new(without_circumstances(submit.task.clone())),
                if_exists: submit.if_exists,
            },
            Operation::Send(send) => Self::Send {
                task: &send.task,
                command: match &send.command {
                    Command::Sleep { .. } => Command::Sleep { until: ANY_TIME },
                    other => other.clone(),
                },
            },
            Operation::Delete(task) => Self::Delete { task },
            Operation::Retry(task) => Self::Retry { task },
            Operation::Reschedule(change) => {
                let mut change = change.clone();
                any(&mut change.due);
                Self::Reschedule { change }
            }
        }
    }
}

/// The time that stands for every time.
const ANY_TIME: Timestamp = Timestamp::UNIX_EPOCH;

fn any(time: &mut Option<Timestamp>) {
    *time = time.map(|_| ANY_TIME);
}

fn without_circumstances(mut task: Task) -> Task {
    any(&mut task.start_at);
    any(&mut task.start_by);
    any(&mut task.end_by);
    // Text of the request that submits it, such as a trace.
    task.meta.clear();
    if let Some(waits) = &mut task.waits {
        any(&mut waits.deadline);
    }
    task
}

/// A guard as the fingerprint has it.
#[derive(Serialize)]
struct GuardForm<'a> {
    task: &'a TaskId,
    require: RequireForm<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum RequireForm<'a> {
    Exists,
    Absent,
    State(StateKind),
    Version(u64),
    Fence(Fence),
    Kind(&'a Kind),
    Unclaimed,
    /// The data as a list, so that no data is not the data `null`.
    Data(Vec<&'a Json>),
}

impl<'a> From<&'a Guard> for GuardForm<'a> {
    fn from(guard: &'a Guard) -> Self {
        let require = match &guard.require {
            Require::Exists => RequireForm::Exists,
            Require::Absent => RequireForm::Absent,
            Require::State(state) => RequireForm::State(*state),
            Require::Version(version) => RequireForm::Version(*version),
            Require::Fence(fence) => RequireForm::Fence(*fence),
            Require::Kind(kind) => RequireForm::Kind(kind),
            Require::Unclaimed => RequireForm::Unclaimed,
            Require::Data(data) => RequireForm::Data(data.iter().collect()),
        };
        let task = &guard.task;
        Self { task, require }
    }
}

/// The hash FNV-1a: the same in every version of the program.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds the one text of a form and its end.
    fn form(&mut self, form: &impl Serialize) {
        // Each of the types has a JSON form.
        let text = Json::new("transaction", form).map(|json| json.canonical());
        for byte in text.unwrap_or_default().bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
