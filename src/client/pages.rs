//! [`Pages`]: every page of a list, one after the other.

use super::Client;
use crate::store::{Cursor, Error, Filter, Query, TaskRecord};

/// How many tasks a page of [`Client::every`] has.
const PAGE: u32 = 1000;

/// The pages of a list, read one after the other: see [`Client::every`].
#[derive(Debug)]
pub struct Pages {
    client: Client,
    query: Query,
    /// Where the next page begins; `None` at the end.
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
    /// Lists every matching task, page by page: the oldest first, in the [order](Self::order_of_newest) that costs what it
    /// returns.
    ///
    /// Tasks that are submitted, changed or deleted meanwhile move no other task.
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
}
