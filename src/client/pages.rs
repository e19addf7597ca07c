//! [`Pages`]: reads every page of a list, and lists tasks that wait for a reason.

use windlass_statemachine::StateKind;

use super::{Client, WaitReason, reasons::Lookup};
use crate::store::{Cursor, Error, Filter, Query, Span, TaskRecord, WaitKind, rules::list::place};

/// How many tasks a page of [`Client::every`] has.
const PAGE: u32 = 1000;

/// Reads the pages of a list one after the other: see [`Client::every`].
#[derive(Debug)]
pub struct Pages {
    client: Client,
    query: Query,
    /// The cursor of the next page; `None` at the end.
    next: Option<Option<Cursor>>,
}

impl Pages {
    /// Reads the next page; `None` at the end of the list.
    ///
    /// # Errors
    ///
    /// Those of [`Client::page`]. The same page is read again by the next call.
    pub async fn next(&mut self) -> Result<Option<Vec<TaskRecord>>, Error> {
        let Some(cursor) = &self.next else {
            return Ok(None);
        };
        let page = self.client.page(&self.query, cursor.as_ref()).await?;
        self.next = page.next.map(Some);
        Ok(Some(page.tasks).filter(|tasks| !tasks.is_empty()))
    }
}

impl Client {
    /// Lists every matching task, page by page, the oldest first, in the cheapest [order](Self::order_of_newest).
    ///
    /// Tasks that are submitted, changed or deleted in the meantime do not shift the others.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Filter, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit_many(["a", "b", "c"].map(|id| NewTask::new("k").id(id))).await;
    /// let mut pages = client.every(&Filter::default());
    /// let mut ids = Vec::new();
    /// while let Some(tasks) = pages.next().await? {
    ///     ids.extend(tasks.into_iter().map(|record| record.task.id.to_string()));
    /// }
    /// assert_eq!(ids, ["a", "b", "c"]);
    /// # Ok(()) }
    /// ```
    pub fn every(&self, filter: &Filter) -> Pages {
        let mut query = Query::new(filter.clone())
            .order(self.order_of_newest())
            .limit(PAGE);
        query.ascending = true;
        Pages {
            client: self.clone(),
            query,
            next: Some(None),
        }
    }

    /// Returns the tasks of a span that are not run for this reason. Reads the matching live tasks page by page until it
    /// has enough.
    pub(super) async fn span_that_waits(
        &self,
        reason: WaitKind,
        filter: &Filter,
        mut span: Span,
    ) -> Result<Vec<TaskRecord>, Error> {
        let wanted = span.limit;
        let mut filter = filter.clone();
        if filter.states.is_empty() {
            let live = StateKind::ALL
                .into_iter()
                .filter(|code| !code.is_terminal());
            filter.states = live.collect();
        }
        filter.awaits_signal |= reason == WaitKind::Signal;
        let nodes = self.nodes().await?;
        let mut lookup = Lookup::new(self);
        let mut found = Vec::new();
        span.limit = wanted.max(PAGE as usize);
        loop {
            let records = self.store.registry().span(&filter, span.clone()).await?;
            let is_last = records.len() < span.limit;
            span.after = records.last().and_then(|last| place(last, span.order));
            let reasons = lookup.reasons(&records, &nodes).await?;
            let is_it = |of: Option<WaitReason>| of.is_some_and(|of| of.kind() == reason);
            let with_reasons = records.into_iter().zip(reasons);
            found.extend(with_reasons.filter_map(|(one, of)| is_it(of).then_some(one)));
            if found.len() >= wanted || is_last || span.after.is_none() {
                found.truncate(wanted);
                return Ok(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTask, store::Store};

    #[tokio::test]
    async fn tasks_that_wait_for_a_reason_are_listed_whatever_is_between_them() {
        let client = Client::new(&Store::open("memory:").await.unwrap());
        let sleeper = |n: u32| {
            NewTask::new("k")
                .id(format!("s{n}"))
                .start_at(jiff::Timestamp::MAX)
        };
        let runnable = |n: u32| NewTask::new("k").id(format!("r{n}"));
        let ids: Vec<NewTask> = (0..3)
            .flat_map(|n| {
                let between = (0..PAGE).map(move |m| sleeper(n * PAGE + m));
                between.chain([runnable(n)])
            })
            .collect();
        for submitted in client.submit_many(ids).await {
            submitted.unwrap();
        }
        client
            .submit(NewTask::new("k").id("w").after(["r0"]))
            .await
            .unwrap();
        let list = async |reason, limit| {
            let query = Query::new(Filter::default()).waits(reason).limit(limit);
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = client.page(&query, cursor.as_ref()).await.unwrap();
                found.extend(page.tasks.into_iter().map(|r| r.task.id.to_string()));
                match page.next {
                    next @ Some(_) => cursor = next,
                    None => return found,
                }
            }
        };
        for limit in [1, 2, 3, 100] {
            assert_eq!(list(WaitKind::NoNode, limit).await, ["r2", "r1", "r0"]);
        }
        assert_eq!(list(WaitKind::Tasks, 10).await, ["w"]);
        assert!(list(WaitKind::Full, 10).await.is_empty());
    }
}
