//! [`TransactionBuilder`]: several changes in one atomic step.

use windlass_statemachine::{Command, CommandId, Invalid, TaskId, TransactionId};

use super::{Client, name, only};
use crate::{
    store::{
        Applied, Error, Operation, Part, Refusals, Require, Reschedule, SendCommand, Transaction,
        rules,
    },
    task::NewTask,
};

/// A transaction that is being put together. Start with [`Client::transaction`].
///
/// # Flow
///
/// Add guards and operations, then [`commit`](Self::commit). Either every operation is applied, or none.
/// Invalid input (such as an invalid id) is remembered, and `commit` returns it.
///
/// # Guarantees
///
/// - All or nothing, durable, in one write of the store. Nodes and clients never see a part of it.
/// - At most once: the transaction has an id. Committing it again, also after [`Error::Unavailable`]
///   and also from another process ([`id`](Self::id)), has no further effect and returns the same
///   result, for at least one hour.
/// - Guards and operations are all checked against the same state of the store.
///
/// # Caveats
///
/// - Each task has at most one operation in a transaction. Guards on that task do not count.
/// - [`Limits::max_operations`](crate::store::Limits::max_operations) bounds operations and guards together.
/// - A refused transaction is not remembered: the store decides again when it is committed again.
///
/// # Errors
///
/// [`Error::Refused`] names every refused guard and operation, even for a transaction of one
/// operation. [`Client::delete`] and the others return the error of that operation instead.
///
/// # Example
///
/// Replaces a paused task by two others, unless it has moved on:
///
/// ```
/// use windlass::{Client, Command, NewTask, StateKind, store::{Done, Require, Store, Submitted}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("sync").id("all")).await?;
/// client.submit(NewTask::new("report").id("weekly")).await?;
///
/// let split = client
///     .transaction()
///     .require("all", Require::State(StateKind::Runnable))
///     .require("all", Require::Unclaimed)
///     .delete("all")
///     .submit(NewTask::new("sync").id("north"))
///     .submit(NewTask::new("sync").id("south"))
///     .send("weekly", Command::Pause);
/// let applied = split.commit().await?;
/// assert_eq!(applied.done()[1], Done::Submitted(Submitted::New));
///
/// // The answer was lost? The same transaction again changes nothing.
/// assert_eq!(split.commit().await?, applied);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a transaction changes nothing before commit"]
pub struct TransactionBuilder {
    client: Client,
    transaction: Result<Transaction, Error>,
}

impl Client {
    /// Begins a transaction: several changes in one atomic step.
    pub fn transaction(&self) -> TransactionBuilder {
        TransactionBuilder {
            client: self.clone(),
            transaction: Ok(Transaction::new()),
        }
    }
}

impl TransactionBuilder {
    /// Sets the id, with which another process can repeat the transaction. By default it is a UUIDv7 made
    /// by [`Client::transaction`].
    pub fn id(self, id: impl TryInto<TransactionId, Error: Into<Invalid>>) -> Self {
        self.then(|transaction, _| Ok(transaction.with_id(name(id)?)))
    }

    /// Makes a text a part of the fingerprint that stands for the request from which the transaction is made
    /// ([`Transaction::of_request`]).
    pub fn of_request(self, text: impl Into<String>) -> Self {
        self.then(|transaction, _| Ok(transaction.of_request(text)))
    }

    /// Adds a guard: a condition on a task. If it does not hold, nothing is applied.
    pub fn require(
        self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        require: Require,
    ) -> Self {
        self.then(|transaction, _| Ok(transaction.require(name(task)?, require)))
    }

    /// Adds a guard for what the transaction was compared with before ([`Transaction::compared`]): a repetition of the
    /// transaction may be compared with another state.
    pub fn compared(
        self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        require: Require,
    ) -> Self {
        self.then(|transaction, _| Ok(transaction.compared(name(task)?, require)))
    }

    /// Submits a task.
    pub fn submit<J>(self, task: impl Into<NewTask<J>>) -> Self {
        self.then(|transaction, client| {
            let now = client.store.clock().now();
            Ok(transaction.submit(task.into().build_at(now)?))
        })
    }

    /// Sends a command to a task, with its own id.
    pub fn send(self, task: impl TryInto<TaskId, Error: Into<Invalid>>, command: Command) -> Self {
        let id = CommandId::new(crate::unique_id::new().to_string());
        self.then(|transaction, client| {
            let send = SendCommand::new(name(task)?, id?, command);
            Ok(transaction.send(client.noted(send)))
        })
    }

    /// Deletes a task with all that belongs to it, if no node has claimed it. To delete it anyway, give
    /// [`with`](Self::with) a forced [`Delete`](crate::store::Delete).
    pub fn delete(self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        self.then(|transaction, _| Ok(transaction.delete(name(task)?)))
    }

    /// Starts an ended task again, as [`Client::retry`]. For other data or props give [`with`](Self::with) a
    /// [`RetryTask`](crate::store::RetryTask).
    pub fn retry(self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        self.then(|transaction, _| Ok(transaction.retry(name(task)?)))
    }

    /// Changes an unclaimed task: its due time, priority, kind, limits, data or props.
    pub fn reschedule(self, change: Reschedule) -> Self {
        self.then(|transaction, _| Ok(transaction.reschedule(change)))
    }

    /// Adds an operation.
    pub fn with(self, operation: Operation) -> Self {
        self.then(|transaction, _| Ok(transaction.with(operation)))
    }

    /// Applies the transaction, and returns one result for each operation. After [`Error::Unavailable`]
    /// call it again: the transaction is applied only once.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for invalid input, with the name of the field; `operations` for a transaction
    /// that is empty, has more operations and guards than the store allows, or has two operations on one
    /// task. [`Error::Refused`] with each refusal; [`Error::Unavailable`].
    pub async fn commit(&self) -> Result<Applied, Error> {
        let transaction = self.checked()?;
        only(self.client.store.registry().apply(vec![transaction]).await)
    }

    /// Checks whether [`commit`](Self::commit) would apply the transaction now, without changing anything: the
    /// store gets it with an additional guard that never holds. Tasks may change before the commit.
    ///
    /// # Errors
    ///
    /// The errors of [`commit`](Self::commit).
    pub async fn check(&self) -> Result<(), Error> {
        let transaction = self.checked()?.never();
        let never = Part::Guard(transaction.guards().len().saturating_sub(1));
        let registry = self.client.store.registry();
        let refusals = match only(registry.apply(vec![transaction]).await) {
            // The transaction was applied before: a commit would have no further effect.
            Ok(_) => return Ok(()),
            Err(Error::Refused(refusals)) => refusals,
            Err(error) => return Err(error),
        };
        let others = refusals.iter().filter(|one| one.part != never);
        match Refusals::error(others.cloned().collect()) {
            None => Ok(()),
            Some(refused) => Err(refused),
        }
    }

    /// Returns the id of the transaction; `None` when earlier input was invalid.
    pub fn transaction_id(&self) -> Option<&TransactionId> {
        self.transaction.as_ref().ok()?.id()
    }

    /// Returns the transaction after a check of its form.
    fn checked(&self) -> Result<Transaction, Error> {
        let transaction = self.client.signed(self.transaction.clone()?);
        let registry = self.client.store.registry();
        let most = registry.limits().max_operations;
        rules::transaction::check(&transaction, registry.name(), most)?;
        Ok(transaction)
    }

    /// Adds to the transaction, unless earlier input was invalid.
    fn then(self, add: impl FnOnce(Transaction, &Client) -> Result<Transaction, Error>) -> Self {
        let Self {
            client,
            transaction,
        } = self;
        let transaction = transaction.and_then(|transaction| add(transaction, &client));
        Self {
            client,
            transaction,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::StateKind;

    use super::*;
    use crate::store::{Reason, Store};

    async fn client() -> Client {
        Client::new(&Store::open("memory:").await.unwrap())
    }

    #[tokio::test]
    async fn the_first_wrong_input_is_reported_by_the_commit() {
        let client = client().await;
        let wrong = client.transaction().delete("a/b").delete("c").id("_");
        let error = wrong.commit().await.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(i) if i.field() == "id"),
            "{error:?}"
        );
        let error = client.transaction().commit().await.unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(i) if i.field() == "operations"),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn a_refusal_names_the_place_and_the_reason() {
        let client = client().await;
        client.submit(NewTask::new("k").id("a")).await.unwrap();
        let transaction = client
            .transaction()
            .require("a", Require::State(StateKind::Paused))
            .delete("a")
            .retry("b");
        let Err(Error::Refused(refusals)) = transaction.commit().await else {
            panic!("the guard does not hold");
        };
        let parts: Vec<_> = refusals.iter().map(|one| (one.part, &one.reason)).collect();
        let state = Reason::State {
            is: StateKind::Runnable,
            required: vec![StateKind::Paused],
        };
        let expected = [
            (Part::Guard(0), &state),
            (Part::Operation(1), &Reason::Missing),
        ];
        assert_eq!(parts, expected);
        assert!(client.get("a").await.is_ok(), "nothing was applied");
        let checked = transaction.check().await.unwrap_err();
        assert_eq!(checked.to_string(), Error::Refused(refusals).to_string());
    }

    #[tokio::test]
    async fn a_check_changes_nothing() {
        let client = client().await;
        client.submit(NewTask::new("k").id("a")).await.unwrap();
        let transaction = client
            .transaction()
            .send("a", Command::Pause)
            .submit(NewTask::new("k").id("b"));
        transaction.check().await.unwrap();
        assert_eq!(client.get("a").await.unwrap().commands, 0);
        assert!(client.get("b").await.is_err());
        transaction.commit().await.unwrap();
        let again = client.transaction().submit(NewTask::new("k").id("b"));
        again.check().await.unwrap_err();
    }
    #[tokio::test]
    async fn a_check_knows_the_ids_of_transactions_and_unique_keys() {
        let client = client().await;
        let hour = std::time::Duration::from_secs(3600);
        let unique = |id: &str| NewTask::new("k").id(id).unique("one", hour);
        let first = client.transaction().id("t").submit(unique("a"));
        first.check().await.unwrap();
        first.commit().await.unwrap();
        // A repeat has no effect, and is not an error.
        first.check().await.unwrap();
        let other = client.transaction().id("t").submit(NewTask::new("k"));
        let error = other.check().await.unwrap_err().to_string();
        let says = "transaction id: 't' was applied with other operations or guards";
        assert!(error.starts_with(says), "{error}");
        let second = client.transaction().submit(unique("b")).delete("nil");
        let Err(Error::Refused(refusals)) = second.check().await else {
            panic!("the key is taken");
        };
        let parts: Vec<_> = refusals.iter().map(|one| one.part).collect();
        assert_eq!(parts, [Part::Operation(0), Part::Operation(1)]);
        let committed = second.commit().await.unwrap_err();
        assert_eq!(committed.to_string(), Error::Refused(refusals).to_string());
    }

    #[tokio::test]
    async fn the_largest_transaction_can_be_checked() {
        let client = client().await;
        let most = client.store.registry().limits().max_operations;
        let tasks = (0..most).map(|n| NewTask::new("k").id(n.to_string()));
        let transaction = tasks.fold(client.transaction(), TransactionBuilder::submit);
        transaction.check().await.unwrap();
        let more = transaction.submit(NewTask::new("k"));
        assert!(more.check().await.is_err());
    }
}
