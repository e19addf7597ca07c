//! [`Query`] and [`TaskPage`]: lists page by page, in an order of choice.

#[cfg(feature = "etcd")]
use super::Page;
use super::{
    Filter, TaskRecord, WaitKind,
    cursor::{Cursor, Place},
    order::Order,
};

/// Which tasks a list has, in which order, and how many a page has.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::{Filter, Query, Store}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// for id in ["a", "b", "c"] {
///     client.submit(NewTask::new("k").id(id)).await?;
/// }
/// let query = Query::new(Filter::default()).limit(2);
/// let newest = client.page(&query, None).await?;
/// assert_eq!(newest.tasks[0].task.id.as_str(), "c");
///
/// let rest = client.page(&query, newest.next.as_ref()).await?;
/// assert_eq!(rest.tasks[0].task.id.as_str(), "a");
/// assert!(rest.next.is_none() && rest.previous.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// Which tasks.
    pub filter: Filter,
    /// Only those that are not run for this reason. [`Client::page`](crate::Client::page) decides it from the nodes that
    /// live, and reads the other live tasks that match the filter as well.
    pub waits: Option<WaitKind>,
    /// By what they are ordered; by their submits by default.
    pub order: Order,
    /// Whether the first in the order comes first. By default the last one does, the newest, except in a list by wake-up.
    pub ascending: bool,
    /// At most so many tasks a page: 1 to 10,000; 100 by default.
    pub limit: u32,
    /// Whether the props of the tasks are left out (null): they may be large.
    pub without_props: bool,
}

impl Query {
    /// Selects the tasks that match the filter, the newest first, 100 a page.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            waits: None,
            order: Order::Submitted,
            ascending: false,
            limit: 100,
            without_props: false,
        }
    }

    /// Sets the order. A list by wake-up begins with the earliest, others with the newest.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        let ascending = order == Order::Due;
        Self {
            order,
            ascending,
            ..self
        }
    }

    /// Lists the other end first: the oldest, or the latest due.
    #[must_use]
    pub fn reversed(self) -> Self {
        let ascending = !self.ascending;
        Self { ascending, ..self }
    }

    /// Sets how many tasks a page has at most: 1 to 10,000.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// Selects the tasks that are not run for this reason.
    #[must_use]
    pub fn waits(self, reason: WaitKind) -> Self {
        let waits = Some(reason);
        Self { waits, ..self }
    }

    /// Returns a number that stands for what the list selects: other filters have other numbers, nearly always.
    pub(crate) fn number(&self) -> u32 {
        let waits = self.waits.map_or(0, |kind| kind as u32 + 1);
        self.filter.number() ^ waits
    }

    /// Leaves out the props of the tasks.
    #[must_use]
    pub fn without_props(self) -> Self {
        let without_props = true;
        Self {
            without_props,
            ..self
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, in the order of the query.
    pub tasks: Vec<TaskRecord>,
    /// Where the next page begins; `None` when there is no task behind this page.
    pub next: Option<Cursor>,
    /// Where the page before this one ends; `None` when there is none.
    pub previous: Option<Cursor>,
}

/// What a store reads for a page: the tasks that match a filter and come after a place, in an order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// By what they are ordered.
    pub order: Order,
    /// Whether the first in the order comes first.
    pub ascending: bool,
    /// Only tasks behind this place, as they are read; `None` for all.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: usize,
}

impl Span {
    /// Returns the span of a page in the order of submits.
    #[cfg(feature = "etcd")]
    pub(crate) fn of_page(page: Page) -> Self {
        let after = Place {
            at: 0,
            order: page.after,
            id: None,
        };
        Self {
            order: Order::Submitted,
            ascending: true,
            after: (page.after > 0).then_some(after),
            limit: page.limit as usize,
        }
    }
}
