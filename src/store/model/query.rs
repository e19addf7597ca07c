//! [`Query`] and [`TaskPage`]: lists page by page, in a chosen order.

#[cfg(feature = "etcd")]
use super::Page;
use super::{
    Filter, TaskRecord, WaitKind,
    cursor::{Cursor, Place},
    order::Order,
};

/// Selects the tasks of a list, their order and the page size.
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
    /// The tasks to select.
    pub filter: Filter,
    /// Only tasks that are not run for this reason. [`Client::page`](crate::Client::page) determines the reason from the
    /// live nodes, and for that reads the other matching live tasks as well.
    pub waits: Option<WaitKind>,
    /// The order of the tasks; by submit by default.
    pub order: Order,
    /// Whether the list starts with the first task in the order. By default it starts with the last, which is the newest,
    /// except in a list by wake-up or by lateness.
    pub ascending: bool,
    /// How many tasks a page has at most: 1 to 10,000; 100 by default.
    pub limit: u32,
    /// The bytes of props, data and results with which a page ends early; no bound by default.
    pub max_bytes: usize,
    /// Whether the props of the tasks are left out (null): they may be large.
    pub without_props: bool,
}

impl Query {
    /// Selects the tasks that match the filter, the newest first, with 100 tasks a page.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            waits: None,
            order: Order::Submitted,
            ascending: false,
            limit: 100,
            max_bytes: usize::MAX,
            without_props: false,
        }
    }

    /// Sets the order. A list by wake-up starts with the earliest, a list by lateness with the latest, other lists with the
    /// newest.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        let ascending = order.is_ascending();
        Self {
            order,
            ascending,
            ..self
        }
    }

    /// Lists in the opposite direction: the oldest first, or the latest due first.
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

    /// Ends a page with the task with which it has this many bytes of props, data and results; without a bound by default.
    #[must_use]
    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// Selects only tasks that are not run for this reason.
    #[must_use]
    pub fn waits(self, reason: WaitKind) -> Self {
        let waits = Some(reason);
        Self { waits, ..self }
    }

    /// Returns a hash of the selection, which almost certainly differs for other filters.
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
    /// The cursor of the next page; `None` when no task follows.
    pub next: Option<Cursor>,
    /// The cursor of the previous page; `None` when there is none.
    pub previous: Option<Cursor>,
}

/// The part of a list that a store reads for a page: the tasks that match a filter and follow a
/// position, in an order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The order of the tasks.
    pub order: Order,
    /// Whether the span starts with the first task in the order.
    pub ascending: bool,
    /// Only tasks after this position, in the direction of reading; `None` for all.
    pub after: Option<Place>,
    /// The most tasks to read.
    pub limit: usize,
    /// Whether the caller leaves out the props, so that the store need not read them.
    pub without_props: bool,
    /// In the order of wake-ups: only tasks that wait for other tasks.
    pub only_waiting: bool,
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
            without_props: false,
            only_waiting: false,
        }
    }
}
