//! Which of the tasks that new tasks wait for do not exist: a check of programs that submit for people, before they submit.
//!
//! A task that does not exist counts as ended, so a mistyped id lets a task start at once. A client does not check it:
//! the awaited task may have been pruned.

use std::collections::{HashMap, HashSet};

use windlass_statemachine::TaskId;

use super::Client;
use crate::store::{Error, Filter, IfExists, Operation, Query, Submit};

/// How many tasks are looked up in one read.
const LOOKED_UP: usize = 1000;

/// Which tasks of a request count as existing for the other tasks of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameRequest {
    /// All: the request is applied as a whole.
    All,
    /// Those before the task that waits: the tasks are submitted one after the other.
    Earlier,
}

/// A submit, before the tasks that it waits for are looked up.
#[derive(Debug, Clone, Copy)]
pub struct ToCheck<'a> {
    /// The submit.
    pub submit: &'a Submit,
    /// Whether the tasks that it waits for need not exist.
    pub allow_missing: bool,
}

impl Client {
    /// Returns for each submit the first task that it waits for and that does not exist, or `None`. The tasks of the
    /// request count as existing, except those for which this returns a missing task. A submit that would not make a new
    /// task (its id or its unique key is taken) is not checked: it may repeat an earlier one, whose awaited tasks were
    /// pruned since.
    ///
    /// [`submit`](Self::submit) does not check this.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, client::{SameRequest, ToCheck}, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let submit = NewTask::new("report").id("a").after(["typo"]).build()?;
    /// let check = ToCheck { submit: &submit, allow_missing: false };
    /// let missing = client.missing_awaited(&[check], SameRequest::All).await?;
    /// assert_eq!(missing, [Some("typo".parse()?)]);
    /// # Ok(()) }
    /// ```
    pub async fn missing_awaited(
        &self,
        submits: &[ToCheck<'_>],
        same: SameRequest,
    ) -> Result<Vec<Option<TaskId>>, Error> {
        let mut request = Request::new(submits, same);
        let mut missing = vec![None; submits.len()];
        // The submits of the request exist until they are refused, so that others may have to be looked at again.
        let mut open: Vec<usize> = (0..submits.len()).collect();
        while !open.is_empty() {
            let unknown = request.unknown(&open);
            request.exist.extend(self.existing(unknown).await?);
            let mut refused = Vec::new();
            for n in std::mem::take(&mut open) {
                let Some(id) = request.first_missing(n).cloned() else {
                    continue;
                };
                if !self.is_repeat(submits[n].submit).await? {
                    missing[n] = Some(id);
                    refused.push(n);
                }
            }
            for n in refused {
                open.extend(request.refuse(n));
            }
            open.sort_unstable();
            open.dedup();
            open.retain(|n| missing[*n].is_none());
        }
        Ok(missing)
    }

    /// Returns for each of these tasks whether it exists.
    async fn existing(&self, ids: Vec<TaskId>) -> Result<Vec<(TaskId, bool)>, Error> {
        let mut found = HashSet::new();
        for some in ids.chunks(LOOKED_UP) {
            let filter = Filter {
                ids: some.to_vec(),
                ..Filter::default()
            };
            let mut query = Query::new(filter).limit(LOOKED_UP as u32);
            query.without_props = true;
            let page = self.page(&query, None).await?;
            found.extend(page.tasks.into_iter().map(|record| record.task.id));
        }
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            // A list may leave out a task whose record cannot be read.
            let exists =
                found.contains(&id) || !matches!(self.get(&id).await, Err(Error::NotFound { .. }));
            all.push((id, exists));
        }
        Ok(all)
    }

    /// Returns whether a submit would not make a new task, but find its own or be refused.
    async fn is_repeat(&self, submit: &Submit) -> Result<bool, Error> {
        let mut submit = submit.clone();
        if matches!(submit.if_exists, IfExists::Same | IfExists::Skip) {
            submit.if_exists = IfExists::Refuse;
        }
        let check = self.transaction().with(Operation::Submit(submit));
        match check.check().await {
            Ok(()) => Ok(false),
            Err(error @ Error::Unavailable { .. }) => Err(error),
            Err(_) => Ok(true),
        }
    }
}

/// The submits of a request, and what is known of the tasks that they wait for.
struct Request<'a> {
    submits: &'a [ToCheck<'a>],
    same: SameRequest,
    /// The places of the submits of each id that were not refused.
    own: HashMap<&'a TaskId, Vec<usize>>,
    /// The places of the submits that wait for each id of the request.
    waiting: HashMap<&'a TaskId, Vec<usize>>,
    /// Whether tasks exist in the store.
    exist: HashMap<TaskId, bool>,
}

impl<'a> Request<'a> {
    fn new(submits: &'a [ToCheck<'a>], same: SameRequest) -> Self {
        let mut own: HashMap<_, Vec<usize>> = HashMap::new();
        for (n, one) in submits.iter().enumerate() {
            own.entry(&one.submit.task.id).or_default().push(n);
        }
        let mut waiting: HashMap<_, Vec<usize>> = HashMap::new();
        for (n, one) in submits.iter().enumerate() {
            for id in awaited(one).filter(|id| own.contains_key(id)) {
                waiting.entry(id).or_default().push(n);
            }
        }
        Self {
            submits,
            same,
            own,
            waiting,
            exist: HashMap::new(),
        }
    }

    /// Returns whether the request submits a task for the submit at this place.
    fn submits(&self, id: &TaskId, n: usize) -> bool {
        let places = self.own.get(id).map_or(&[][..], Vec::as_slice);
        let counts = |place: &usize| match self.same {
            SameRequest::All => *place != n,
            SameRequest::Earlier => *place < n,
        };
        places.iter().any(counts)
    }

    /// Returns the awaited tasks of these submits that have to be looked up.
    fn unknown(&self, places: &[usize]) -> Vec<TaskId> {
        let awaited = places
            .iter()
            .flat_map(|n| awaited(&self.submits[*n]).map(move |id| (*n, id)));
        let unknown =
            awaited.filter(|(n, id)| !self.exist.contains_key(*id) && !self.submits(id, *n));
        let unknown: HashSet<&TaskId> = unknown.map(|(_, id)| id).collect();
        unknown.into_iter().cloned().collect()
    }

    fn first_missing(&self, n: usize) -> Option<&'a TaskId> {
        let exists = |id: &TaskId| self.exist.get(id).is_some_and(|exists| *exists);
        let mut ids = awaited(&self.submits[n]);
        ids.find(|id| !exists(id) && !self.submits(id, n))
    }

    /// Takes a submit out, and returns the places of those that wait for its task.
    fn refuse(&mut self, n: usize) -> Vec<usize> {
        let id = &self.submits[n].submit.task.id;
        if let Some(places) = self.own.get_mut(id) {
            places.retain(|place| *place != n);
        }
        self.waiting.get(id).cloned().unwrap_or_default()
    }
}

/// Returns the tasks that have to exist for a submit.
fn awaited<'a>(one: &ToCheck<'a>) -> impl Iterator<Item = &'a TaskId> + use<'a> {
    let waits = one.submit.task.waits.as_deref();
    let waits = waits.filter(|_| !one.allow_missing);
    waits.into_iter().flat_map(|waits| &waits.tasks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Message, NewTask, Runner, TaskContext, store::Store};

    async fn missing(
        client: &Client,
        same: SameRequest,
        tasks: impl IntoIterator<Item = NewTask>,
    ) -> Vec<Option<String>> {
        let submits: Vec<Submit> = tasks.into_iter().map(|t| t.build().unwrap()).collect();
        let checks = submits.iter().map(|submit| ToCheck {
            submit,
            allow_missing: submit.task.id.as_str().starts_with("any"),
        });
        let checks: Vec<_> = checks.collect();
        let found = client.missing_awaited(&checks, same).await.unwrap();
        found
            .into_iter()
            .map(|id| id.map(|id| id.to_string()))
            .collect()
    }

    fn task(id: &str, after: &[&str]) -> NewTask {
        NewTask::new("k").id(id).after(after.iter().copied())
    }

    fn some(id: &str) -> Option<String> {
        Some(id.to_owned())
    }

    #[tokio::test]
    async fn ids_of_the_same_request_exist_unless_they_are_refused() {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        client.submit(task("there", &[])).await.unwrap();
        let tasks = || {
            [
                task("a", &["b", "there"]),
                task("b", &[]),
                task("c", &["there", "typo", "other"]),
                task("d", &["a", "c"]),
                task("any", &["typo"]),
                task("e", &["any"]),
            ]
        };
        let all = missing(&client, SameRequest::All, tasks()).await;
        assert_eq!(all, [None, None, some("typo"), some("c"), None, None]);
        let earlier = missing(&client, SameRequest::Earlier, tasks()).await;
        let expected = [some("b"), None, some("typo"), some("a"), None, None];
        assert_eq!(earlier, expected);
    }

    #[tokio::test]
    async fn a_repeated_submit_of_an_existing_task_is_not_checked() {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        let hour = Duration::from_secs(3600);
        client.submit(task("a", &["pruned"])).await.unwrap();
        let unique = NewTask::new("k").id("u").unique("key", hour);
        client.submit(unique).await.unwrap();
        let other = || task("other", &["pruned"]).unique("key", hour);
        let repeats = [
            task("a", &["pruned"]),
            task("a", &["pruned"]).idempotent(),
            task("a", &["pruned"]).replace_finished(),
            other().idempotent(),
            other(),
        ];
        let found = missing(&client, SameRequest::All, repeats).await;
        assert_eq!(found, [None, None, None, None, None]);
        // A submit that replaces an ended task makes a new one.
        let completes = async |_: TaskContext| Message::complete();
        let runner = Runner::builder(client.store()).handler("k", completes);
        let runner = runner.start().await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(30), client.wait("a")).await;
        assert!(ended.expect("an end in time").unwrap().is_completed());
        runner.shutdown().await;
        let again = [
            task("a", &["pruned"]).idempotent(),
            task("a", &["pruned"]).replace_finished(),
        ];
        for (again, expected) in again.into_iter().zip([None, some("pruned")]) {
            let found = missing(&client, SameRequest::All, [again]).await;
            assert_eq!(found, [expected]);
        }
    }
}
