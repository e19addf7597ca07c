//! The author of a client's changes, and the calls that pass the author to the store.

use std::sync::OnceLock;

use windlass_statemachine::{Author, Delete, RetryTask, TaskId, Trace, message::SendCommand};

use super::Client;
use crate::{
    store::{Applied, Error, Operation, Transaction},
    telemetry::traces,
};

impl Client {
    /// Returns the same client for changes that this author makes. The default author is the operating-system user
    /// of the process. The history of a task names the author of each change, and a command names its sender.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?).on_behalf_of("alice".parse()?);
    /// let id = client.submit(NewTask::new("report")).await?;
    /// client.command(&id, Command::Pause).await?;
    /// let by = client.commands(&id).await?[0].by.clone();
    /// assert_eq!(by.unwrap().as_str(), "alice");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_behalf_of(mut self, author: Author) -> Self {
        self.by = author;
        self
    }

    /// Returns the author of this client's changes.
    pub fn author(&self) -> &Author {
        &self.by
    }

    /// Returns the same client for changes that belong to this place in a trace: the tasks that it submits have it in their
    /// `meta` ([`Trace::add_to`]), so that their runs have a link to it. By default this is the current span, in a process
    /// that exports traces with the feature `opentelemetry`.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, Trace, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None)?;
    /// let client = Client::new(&Store::open("memory:").await?).in_trace(trace.clone());
    /// let id = client.submit(NewTask::new("report")).await?;
    /// assert_eq!(Trace::of(&client.get(&id).await?.task.meta), Some(trace));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn in_trace(mut self, trace: impl Into<Option<Trace>>) -> Self {
        self.trace = trace.into();
        self
    }

    /// Gives a transaction the author of this client, and its place in a trace.
    #[must_use]
    pub fn signed(&self, transaction: Transaction) -> Transaction {
        let transaction = transaction.by(self.by.clone());
        let current = || traces::current();
        match self.trace.clone().or_else(current) {
            Some(trace) => transaction.in_trace(&trace),
            None => transaction,
        }
    }

    /// Deletes many tasks in one call, and returns the results in their order. Each succeeds or fails on its own,
    /// like [`delete`](Self::delete).
    pub async fn delete_many(&self, tasks: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = tasks.into_iter().map(Delete::new).collect();
        self.delete_each(tasks).await
    }

    pub(super) async fn delete_each(&self, tasks: Vec<Delete>) -> Vec<Result<(), Error>> {
        let answers = self.apply_each(tasks, Operation::Delete).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Retries many tasks in one call, and returns the results in their order. Each succeeds or fails on its own,
    /// like [`retry`](Self::retry).
    pub async fn retry_many(&self, tasks: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = tasks.into_iter().map(RetryTask::new).collect();
        let answers = self.apply_each(tasks, Operation::Retry).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Sends commands, and returns their orders.
    pub(super) async fn send_each(&self, commands: Vec<SendCommand>) -> Vec<Result<u64, Error>> {
        let noted = commands.into_iter().map(|send| self.noted(send));
        let answers = self.apply_each(noted.collect(), Operation::Send).await;
        let sent = |answer: Result<Applied, Error>| answer?.sent();
        answers.into_iter().map(sent).collect()
    }

    /// Applies transactions on behalf of the author.
    pub(crate) async fn apply(
        &self,
        transactions: Vec<Transaction>,
    ) -> Vec<Result<Applied, Error>> {
        let transactions = transactions.into_iter();
        let transactions = transactions.map(|one| self.signed(one));
        self.store.registry().apply(transactions.collect()).await
    }

    /// Applies operations, each in its own transaction.
    pub(super) async fn apply_each<T>(
        &self,
        items: Vec<T>,
        operation: fn(T) -> Operation,
    ) -> Vec<Result<Applied, Error>> {
        let operations = items.into_iter().map(operation);
        self.apply(operations.map(Transaction::from).collect())
            .await
    }
}

/// Returns the operating-system user of this process: its name in `/etc/passwd`, or in the environment (`LOGNAME`,
/// `USER`), or its number. Other sources of names are not used, because one that does not respond would block the
/// client.
pub(super) fn of_process() -> Author {
    static AUTHOR: OnceLock<Author> = OnceLock::new();
    let author = AUTHOR.get_or_init(|| {
        let uid = nix::unistd::geteuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let variable = |name| std::env::var(name).ok();
        let given = name_in(&passwd, uid).map(str::to_owned);
        let given = given.or_else(|| variable("LOGNAME"));
        let given = given.or_else(|| variable("USER"));
        let known = given.and_then(|name| Author::new(name).ok());
        known.unwrap_or_else(|| Author::user(uid))
    });
    author.clone()
}

/// Returns the name of a user in the text of `/etc/passwd`.
fn name_in(passwd: &str, uid: u32) -> Option<&str> {
    let mut users = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse::<u32>().ok()?))
    });
    let found = users.find(|(_, number)| *number == uid);
    found.map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nodd line\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_in(passwd, 0), Some("root"));
        assert_eq!(name_in(passwd, 1000), Some("ann"));
        assert_eq!(name_in(passwd, 10), None);
        assert!(!of_process().as_str().is_empty());
    }
}
