//! The changes of the tasks of one kind.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use futures::{StreamExt, stream};
use windlass_statemachine::{Invalid, Kind, TaskId};

use super::{Client, name};
use crate::store::{Change, ChangeKind, ChangeStream, Error, Filter, Query};

/// The number of tasks whose kind a stream remembers.
const REMEMBERED: usize = 100_000;
/// How many tasks are read at once.
const READ_AT_ONCE: usize = 500;
/// How long a stream waits before it reads again after a failure of the store.
const AGAIN: Duration = Duration::from_millis(200);

impl Client {
    /// Returns a stream of the changes of the tasks of one kind: from now on (`None`), or after the change with this
    /// number. Like [`changes`](Self::changes), it uses the one feed of the process.
    ///
    /// # Cost
    ///
    /// A change contains the id of its task, but not the kind. The stream reads a task when it changes for the first
    /// time, many in one read, and remembers the kinds of 100,000 tasks.
    ///
    /// # Caveats
    ///
    /// The stream leaves out the changes of a task that was deleted before its kind was read. For changes of the past
    /// (`after`), the kind is that of the task which has the id now: changes of a deleted task that had the id before
    /// are attributed to it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `kind`), and those of [`changes`](Self::changes).
    ///
    /// # Example
    ///
    /// ```
    /// use futures::StreamExt;
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let mut mails = client.changes_of_kind("mail", None).await?;
    /// client.submit(NewTask::new("report")).await?;
    /// let mail = client.submit(NewTask::new("mail")).await?;
    /// let batch = mails.next().await.expect("a change")?;
    /// assert_eq!(&batch[0].task, mail.id());
    /// # Ok(()) }
    /// ```
    pub async fn changes_of_kind(
        &self,
        kind: impl TryInto<Kind, Error: Into<Invalid>>,
        after: Option<u64>,
    ) -> Result<ChangeStream, Error> {
        self.changes_of(Kinds::One(name(kind)?), after).await
    }

    /// Returns a stream of the changes of the tasks of every kind that begins with a text: `inbox/` for `inbox/new` and
    /// `inbox/err`. Otherwise like [`changes_of_kind`](Self::changes_of_kind).
    ///
    /// # Errors
    ///
    /// Those of [`changes`](Self::changes).
    ///
    /// # Example
    ///
    /// ```
    /// use futures::StreamExt;
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let mut inbox = client.changes_of_kinds("inbox/", None).await?;
    /// client.submit(NewTask::new("report")).await?;
    /// let letter = client.submit(NewTask::new("inbox/new")).await?;
    /// let batch = inbox.next().await.expect("a change")?;
    /// assert_eq!(&batch[0].task, letter.id());
    /// # Ok(()) }
    /// ```
    pub async fn changes_of_kinds(
        &self,
        prefix: impl Into<String>,
        after: Option<u64>,
    ) -> Result<ChangeStream, Error> {
        self.changes_of(Kinds::Begin(prefix.into()), after).await
    }

    async fn changes_of(&self, kinds: Kinds, after: Option<u64>) -> Result<ChangeStream, Error> {
        let of_kind = OfKind {
            client: self.clone(),
            kinds,
            changes: self.changes(after).await?,
            known: HashMap::new(),
        };
        let next = |mut of_kind: OfKind| async {
            let batch = of_kind.next().await?;
            Some((batch, of_kind))
        };
        Ok(Box::pin(stream::unfold(of_kind, next)))
    }
}

/// The kinds of the tasks whose changes a stream has.
enum Kinds {
    One(Kind),
    /// Every kind that begins with this text.
    Begin(String),
}

impl Kinds {
    fn has(&self, kind: &Kind) -> bool {
        match self {
            Self::One(one) => one == kind,
            Self::Begin(prefix) => kind.as_str().starts_with(prefix),
        }
    }
}

struct OfKind {
    client: Client,
    kinds: Kinds,
    changes: ChangeStream,
    /// Whether each known task is of the kind.
    known: HashMap<TaskId, bool>,
}

impl OfKind {
    /// Returns the next changes of tasks of the kind; `None` at the end.
    async fn next(&mut self) -> Option<Result<Vec<Change>, Error>> {
        loop {
            let batch = match self.changes.next().await? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.learn(&batch).await {
                return Some(Err(error));
            }
            let mut kept = Vec::new();
            for change in batch {
                if self.known.get(&change.task).copied().unwrap_or(false) {
                    kept.push(change);
                }
            }
            for change in &kept {
                if change.what == ChangeKind::Deleted {
                    self.known.remove(&change.task);
                }
            }
            if !kept.is_empty() {
                return Some(Ok(kept));
            }
        }
    }

    /// Reads the kinds of tasks that are not known, or that are new under their id.
    async fn learn(&mut self, batch: &[Change]) -> Result<(), Error> {
        for change in batch {
            if matches!(change.what, ChangeKind::Submitted { .. }) {
                self.known.remove(&change.task);
            }
        }
        let new = batch.iter().map(|change| &change.task);
        let new: BTreeSet<&TaskId> = new.filter(|id| !self.known.contains_key(*id)).collect();
        if self.known.len() + new.len() > REMEMBERED {
            self.known.clear();
        }
        let new: Vec<&TaskId> = new.into_iter().collect();
        for ids in new.chunks(READ_AT_ONCE) {
            let filter = Filter {
                ids: ids.iter().map(|id| (*id).clone()).collect(),
                ..Filter::default()
            };
            let query = Query::new(filter)
                .limit(READ_AT_ONCE as u32)
                .without_props();
            let page = loop {
                match self.client.page(&query, None).await {
                    Ok(page) => break page,
                    Err(error) if error.is_retryable() => {
                        tracing::debug!(%error, "could not read the kinds of tasks; trying again");
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(error) => return Err(error),
                }
            };
            for record in page.tasks {
                let is_of_kind = self.kinds.has(&record.task.kind);
                self.known.insert(record.task.id, is_of_kind);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTask, store::Store};

    async fn client() -> Client {
        Client::new(&Store::open("memory:").await.unwrap())
    }

    /// Returns the tasks of the changes up to the change of the task `last`.
    async fn until(stream: &mut ChangeStream, last: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|id| id != last) {
            let batch = stream.next().await.unwrap().unwrap();
            seen.extend(batch.into_iter().map(|change| change.task.to_string()));
        }
        seen
    }

    #[tokio::test]
    async fn the_changes_of_other_kinds_are_left_out() {
        let client = client().await;
        let mut mails = client.changes_of_kind("mail", None).await.unwrap();
        for n in 0..1200 {
            let kind = if n % 3 == 0 { "mail" } else { "other" };
            let task = NewTask::new(kind).id(n.to_string());
            client.submit(task).await.unwrap();
        }
        client
            .submit(NewTask::new("mail").id("last"))
            .await
            .unwrap();
        let seen = until(&mut mails, "last").await;
        let expected = (0..1200).step_by(3).map(|n| n.to_string());
        assert!(seen.iter().cloned().eq(expected.chain(["last".into()])));
        assert!(client.changes_of_kind("", None).await.is_err());
    }

    #[tokio::test]
    async fn an_id_that_is_used_again_has_another_kind() {
        let client = client().await;
        let mut mails = client.changes_of_kind("mail", None).await.unwrap();
        client.submit(NewTask::new("mail").id("a")).await.unwrap();
        assert_eq!(until(&mut mails, "a").await, ["a"]);
        client.delete("a").await.unwrap();
        assert_eq!(until(&mut mails, "a").await, ["a"], "the deletion");
        // A task that was deleted before its kind was read has no kind.
        client
            .submit(NewTask::new("other").id("gone"))
            .await
            .unwrap();
        client.delete("gone").await.unwrap();
        client.submit(NewTask::new("other").id("a")).await.unwrap();
        client.submit(NewTask::new("mail").id("b")).await.unwrap();
        assert_eq!(until(&mut mails, "b").await, ["b"]);
    }
}
