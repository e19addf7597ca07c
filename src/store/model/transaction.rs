//! [`Transaction`]: the changes that a client asks for in one atomic step.

use windlass_statemachine::{
    Author, Effects, Fence, Guard, IfExists, Operation, Require, Reschedule, Submit, TaskId, Trace,
    TransactionId, Unique, message::SendCommand,
};

/// No claim has this fence.
const NEVER: Require = Require::Fence(Fence(u64::MAX));

/// Changes that a client makes in one atomic step: either every operation is applied, or none.
///
/// A transaction made by [`new`](Self::new) has an id. A store applies an id once: a repeat returns the
/// same result and changes nothing, for at least one hour. A transaction made [`From`] one operation has
/// no id: the store keeps no record of it, and its error is that of the operation alone.
///
/// # Example
///
/// ```
/// use windlass::{StateKind, store::{Error, Require, Store, Transaction}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = Store::open("memory:").await?;
/// let swap = Transaction::new()
///     .require("old".parse()?, Require::State(StateKind::Failed))
///     .delete("old".parse()?);
/// let refused = store.registry().apply(vec![swap]).await.remove(0).unwrap_err();
/// let Error::Refused(refusals) = refused else { panic!("the task does not exist") };
/// assert_eq!(refusals.iter().count(), 2, "the guard and the operation");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    id: Option<TransactionId>,
    guards: Vec<Guard>,
    /// The places of the guards that are not part of the fingerprint.
    compared: Box<[usize]>,
    operations: Vec<Operation>,
    by: Option<Author>,
    is_of_schedules: bool,
    /// Stands for the request from which it was made; empty for none.
    request: Box<str>,
}

impl From<Operation> for Transaction {
    fn from(operation: Operation) -> Self {
        Self {
            id: None,
            guards: Vec::new(),
            compared: Box::default(),
            operations: vec![operation],
            by: None,
            is_of_schedules: false,
            request: Box::default(),
        }
    }
}

impl From<Effects> for Transaction {
    /// Returns a transaction without an id that contains the submits, the commands, the deletions, the
    /// retries and the reschedules, in this order.
    fn from(effects: Effects) -> Self {
        let Effects {
            submit,
            send,
            delete,
            retry,
            reschedule,
            require,
        } = effects;
        let operations = submit.into_iter().map(Operation::Submit);
        let operations = operations.chain(send.into_iter().map(Operation::Send));
        let operations = operations.chain(delete.into_iter().map(Operation::Delete));
        let operations = operations.chain(retry.into_iter().map(Operation::Retry));
        Self {
            id: None,
            guards: require,
            compared: Box::default(),
            operations: operations
                .chain(reschedule.into_iter().map(Operation::Reschedule))
                .collect(),
            by: None,
            is_of_schedules: false,
            request: Box::default(),
        }
    }
}

impl Default for Transaction {
    fn default() -> Self {
        Self::new()
    }
}

impl Transaction {
    /// Returns a transaction without operations, with its own id: a UUIDv7.
    pub fn new() -> Self {
        Self {
            // The text of a UUID is always a valid name.
            id: TransactionId::new(crate::unique_id::new().to_string()).ok(),
            guards: Vec::new(),
            compared: Box::default(),
            operations: Vec::new(),
            by: None,
            is_of_schedules: false,
            request: Box::default(),
        }
    }

    /// Replaces the id, so that another process can repeat the transaction.
    #[must_use]
    pub fn with_id(mut self, id: TransactionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Makes a text a part of the [fingerprint](Self::fingerprint) that stands for the request from which the transaction was
    /// made, such as a hash of its bytes. Another request with the same id is then refused, also when only its times differ.
    #[must_use]
    pub fn of_request(mut self, text: impl Into<String>) -> Self {
        self.request = text.into().into_boxed_str();
        self
    }

    /// Returns the text that stands for the request from which it was made; empty for none.
    pub(crate) fn request(&self) -> &str {
        &self.request
    }

    /// Marks a transaction of the operations of schedules: only these change the data and the time of a schedule.
    #[must_use]
    pub(crate) fn of_schedules(mut self) -> Self {
        self.is_of_schedules = true;
        self
    }

    /// Returns whether it is a transaction of the operations of schedules.
    pub(crate) fn is_of_schedules(&self) -> bool {
        self.is_of_schedules
    }

    /// Sets the author of the changes, which the history names; `None` by default. It is not part of the
    /// [fingerprint](Self::fingerprint).
    #[must_use]
    pub fn by(mut self, author: impl Into<Option<Author>>) -> Self {
        self.by = author.into();
        self
    }

    /// Gives the tasks that it submits a place in a trace, unless they have one ([`Trace::add_to`]). It is not part of the
    /// [fingerprint](Self::fingerprint).
    #[must_use]
    pub fn in_trace(mut self, trace: &Trace) -> Self {
        for operation in &mut self.operations {
            if let Operation::Submit(submit) = operation {
                trace.add_to(&mut submit.task.meta);
            }
        }
        self
    }

    /// Returns the author of the changes.
    pub fn author(&self) -> Option<&Author> {
        self.by.as_ref()
    }

    /// Adds a guard.
    #[must_use]
    pub fn require(mut self, task: TaskId, require: Require) -> Self {
        self.guards.push(Guard { task, require });
        self
    }

    /// Adds a guard for what the transaction was compared with before, such as the rights of its author. It is not part of
    /// the [fingerprint](Self::fingerprint): a repetition may be compared with another state.
    #[must_use]
    pub fn compared(mut self, task: TaskId, require: Require) -> Self {
        let mut places = std::mem::take(&mut self.compared).into_vec();
        places.push(self.guards.len());
        self.compared = places.into_boxed_slice();
        self.require(task, require)
    }

    /// Returns the guards that are part of the [fingerprint](Self::fingerprint).
    pub(super) fn own_guards(&self) -> impl Iterator<Item = &Guard> {
        let guards = self.guards.iter().enumerate();
        let own = guards.filter(|(place, _)| !self.compared.contains(place));
        own.map(|(_, guard)| guard)
            .filter(|guard| guard.require != NEVER)
    }

    /// Adds an operation. Each task has at most one operation in a transaction.
    #[must_use]
    pub fn with(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Adds a submit.
    #[must_use]
    pub fn submit(self, submit: Submit) -> Self {
        self.with(Operation::Submit(submit))
    }

    /// Adds a command.
    #[must_use]
    pub fn send(self, send: SendCommand) -> Self {
        self.with(Operation::Send(send))
    }

    /// Adds the deletion of a task that no node has claimed.
    #[must_use]
    pub fn delete(self, task: TaskId) -> Self {
        self.with(Operation::Delete(task.into()))
    }

    /// Adds the retry of a task.
    #[must_use]
    pub fn retry(self, task: TaskId) -> Self {
        self.with(Operation::Retry(task.into()))
    }

    /// Adds a change of an unclaimed task.
    #[must_use]
    pub fn reschedule(self, change: Reschedule) -> Self {
        self.with(Operation::Reschedule(change))
    }

    /// Adds a guard that never holds: a store then decides everything and changes nothing. The guard counts
    /// neither against the limit of operations nor for the [fingerprint](Self::fingerprint).
    pub(crate) fn never(mut self) -> Self {
        let task = self.tasks().next().cloned();
        self.guards.extend(task.map(|task| Guard {
            task,
            require: NEVER,
        }));
        self
    }

    /// Returns whether it has a guard that never holds.
    pub(crate) fn is_never(&self) -> bool {
        self.guards.iter().any(|guard| guard.require == NEVER)
    }

    /// Returns the transaction without guards that never hold.
    #[cfg(feature = "etcd")]
    pub(crate) fn without_never(mut self) -> Self {
        self.guards.retain(|guard| guard.require != NEVER);
        self
    }

    /// Returns its guards, except those that never hold.
    pub(crate) fn holding_guards(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().filter(|guard| guard.require != NEVER)
    }

    /// Returns its id; `None` for a transaction that a store does not remember.
    pub fn id(&self) -> Option<&TransactionId> {
        self.id.as_ref()
    }

    /// Returns its guards, in their order.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns its operations, in their order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the tasks of its guards and operations. A task may occur more than once.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        let guarded = self.guards.iter().map(|guard| &guard.task);
        guarded.chain(self.operations.iter().map(Operation::task))
    }

    /// Returns the operation of a transaction that has nothing else: no id, no guards, no further
    /// operation. A store refuses it with the error of the operation.
    ///
    /// # Errors
    ///
    /// The transaction itself, when it has anything else.
    pub fn into_single(mut self) -> Result<Operation, Self> {
        if self.id.is_some() || !self.guards.is_empty() || self.operations.len() != 1 {
            return Err(self);
        }
        match self.operations.pop() {
            Some(operation) => Ok(operation),
            None => Err(self),
        }
    }

    /// Returns whether it is a single operation, as defined by [`into_single`](Self::into_single).
    pub(crate) fn is_single(&self) -> bool {
        self.id.is_none() && self.guards.is_empty() && self.operations.len() == 1
    }

    /// Returns whether it is a single submit, as defined by [`into_single`](Self::into_single).
    pub(crate) fn is_single_submit(&self) -> bool {
        self.is_single() && matches!(self.operations.as_slice(), [Operation::Submit(_)])
    }

    /// Returns whether it is a single operation that concerns one task as a whole: a submit that depends on no other
    /// task and changes no live one, a command, a deletion, or a retry that edits nothing. What is stored for that task
    /// shows afterwards whether it was applied, and no write after its decision can be refused.
    pub(crate) fn is_alone(&self) -> bool {
        let is_of_one_task = |operation: &Operation| match operation {
            Operation::Submit(submit) => {
                submit.if_exists != IfExists::ReplaceWaiting && submit.task.unique.is_none()
            }
            Operation::Send(_) | Operation::Delete(_) => true,
            Operation::Retry(retry) => !retry.is_edited(),
            Operation::Reschedule(_) => false,
        };
        self.is_single() && self.operations.iter().all(is_of_one_task)
    }

    /// Returns the unique keys of the tasks that it submits.
    pub(crate) fn unique_keys(&self) -> impl Iterator<Item = &str> {
        let submits = self.operations.iter().filter_map(|one| match one {
            Operation::Submit(submit) => submit.task.unique.as_ref(),
            _ => None,
        });
        submits.map(Unique::key)
    }

    /// Returns what the transaction does, as error texts say it: `submit a task`, or `apply a transaction`
    /// for anything but a single operation.
    pub fn verb(&self) -> &'static str {
        match self.operations.as_slice() {
            [only] if self.is_single() => only.verb(),
            _ => "apply a transaction",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(id: &str) -> Operation {
        Operation::Delete(id.parse::<TaskId>().unwrap().into())
    }

    #[test]
    fn only_one_operation_alone_is_single() {
        let single = Transaction::from(delete("a"));
        assert_eq!(single.verb(), "delete a task");
        assert_eq!(single.clone().into_single(), Ok(delete("a")));
        let id = TransactionId::new("t").unwrap();
        for more in [
            single.clone().with(delete("b")),
            single
                .clone()
                .require("b".parse().unwrap(), Require::Exists),
            single.with_id(id),
            Transaction::new().with(delete("a")),
            Transaction::new(),
        ] {
            assert_eq!(more.verb(), "apply a transaction");
            assert_eq!(more.clone().into_single(), Err(more));
        }
    }

    #[test]
    fn each_new_transaction_has_an_id_of_its_own() {
        let (a, b) = (Transaction::new(), Transaction::new());
        assert!(a.id().is_some() && a.id() != b.id());
        assert_eq!(a.clone().id(), a.id());
    }
}
