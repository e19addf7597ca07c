//! Lists: the position of a task in an order, and the page of a list.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Json, StateKind, TaskState, TaskStatus};

use crate::store::{
    Error, Page, TaskRecord, WaitKind,
    model::{Cursor, Order, Place, Query, Span, TaskPage},
    rules::dependencies::waited_for,
};

impl Query {
    /// Returns the cursor of the page after a task; `None` for a task that has no place in this order, such as a live one in
    /// a list by end.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Filter, Query, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit_many(["a", "b", "c"].map(|id| NewTask::new("k").id(id))).await;
    /// let query = Query::new(Filter::default()).reversed();
    /// let cursor = query.after(&client.get("b").await?);
    /// let page = client.page(&query, cursor.as_ref()).await?;
    /// assert_eq!(page.tasks[0].task.id.as_str(), "c");
    /// # Ok(()) }
    /// ```
    pub fn after(&self, record: &TaskRecord) -> Option<Cursor> {
        Some(Cursor {
            order: self.order,
            ascending: self.ascending,
            backwards: false,
            filter: self.number(),
            place: place(record, self.order)?,
        })
    }
}

/// Returns the position of a task in an order; `None` when the order does not include the task.
pub(crate) fn place(record: &TaskRecord, order: Order) -> Option<Place> {
    let state = record.state.as_ref().ok();
    let at = match order {
        Order::Id => {
            return Some(Place {
                at: 0,
                order: 0,
                id: Some(record.task.id.clone()),
            });
        }
        Order::Submitted => 0,
        Order::Due => match state?.status {
            TaskStatus::Sleeping { until } => until.as_microsecond(),
            _ => return None,
        },
        Order::Late => {
            let state = state?;
            // A claimed sleeping task waits for its time; every other claimed task runs.
            let waits = record.node.is_none() || state.code() == StateKind::Sleeping;
            state.ready().filter(|_| waits)?.as_microsecond()
        }
        Order::Ended => state
            .filter(|state| state.code().is_terminal())?
            .since
            .as_microsecond(),
    };
    let (order, id) = (record.order, None);
    Some(Place { at, order, id })
}

/// Refuses a query for tasks that its order leaves out: their list would be empty, or a part of what was asked for.
///
/// # Errors
///
/// [`Error::Invalid`] (field `order`) that names the order and the condition.
fn check_order(query: &Query) -> Result<(), Error> {
    let filter = &query.filter;
    let is_listed: fn(StateKind) -> bool = match query.order {
        Order::Due => |state| state == StateKind::Sleeping,
        Order::Late => |state| !state.is_terminal() && state != StateKind::Paused,
        Order::Ended => StateKind::is_terminal,
        Order::Submitted | Order::Id => return Ok(()),
    };
    let by_due = query.order == Order::Due;
    let by_late = query.order == Order::Late;
    let other = filter
        .states
        .iter()
        .copied()
        .find(|state| !is_listed(*state));
    let waits = query.waits.filter(|of| match query.order {
        Order::Due => *of != WaitKind::Tasks,
        Order::Late => matches!(of, WaitKind::Lost | WaitKind::Signal | WaitKind::Tasks),
        _ => true,
    });
    let has_states = !filter.states.is_empty();
    let is_claimed = (filter.claimed || filter.node.is_some()) && !(by_due && has_states);
    let what = match (other, waits) {
        (Some(state), _) => format!("the state '{state}'"),
        (None, Some(reason)) => format!("tasks that wait for '{reason}'"),
        (None, None) if filter.quarantined => "quarantined tasks".to_owned(),
        (None, None) if filter.awaits_signal => "tasks that wait for a signal".to_owned(),
        (None, None) if (by_due || by_late) && filter.is_of_ends() => "times of ends".to_owned(),
        (None, None) if by_late && filter.running == Some(true) => "running tasks".to_owned(),
        (None, None) if is_claimed && by_due => {
            "claimed tasks without the state 'sleeping'".to_owned()
        }
        (None, None) if is_claimed => "claimed tasks".to_owned(),
        _ => return Ok(()),
    };
    let lists = match query.order {
        Order::Due => "'due' lists only sleeping tasks, by the time at which they wake",
        Order::Late => {
            "'late' lists only tasks that wait for a node after their time has come, the latest first"
        }
        _ => "'ended' lists only ended tasks, by the time of their end",
    };
    let reason = format!(
        "{lists}, and cannot list {what}; list by 'submitted' or 'id', or change the filter"
    );
    Err(Invalid::new("order", reason).into())
}

/// Returns the span that a store reads for a page of a query: one task more than the page has, which shows whether
/// another page follows.
///
/// # Errors
///
/// [`Error::Invalid`]: field `limit` for a page of size zero, field `cursor` for a cursor of another order, field `order` for
/// an order that leaves out the tasks of the filter.
pub(crate) fn span(query: &Query, cursor: Option<&Cursor>) -> Result<Span, Error> {
    let (after, limit) = (0, query.limit);
    Page { after, limit }.check()?;
    query.filter.check()?;
    check_order(query)?;
    let is_other = |one: &&Cursor| one.order != query.order || one.ascending != query.ascending;
    if let Some(other) = cursor.filter(is_other) {
        let towards = |ascending| if ascending { "ascending" } else { "descending" };
        let reason = format!(
            "belongs to a list by {}, {}; this one is by {}, {}; give a cursor that the same list has returned",
            other.order,
            towards(other.ascending),
            query.order,
            towards(query.ascending)
        );
        return Err(Invalid::new("cursor", reason).into());
    }
    if cursor.is_some_and(|cursor| cursor.filter != query.number()) {
        let reason = "belongs to a list with another filter; give the options of the list that has returned it";
        return Err(Invalid::new("cursor", reason).into());
    }
    let backwards = cursor.is_some_and(|cursor| cursor.backwards);
    Ok(Span {
        order: query.order,
        ascending: query.ascending != backwards,
        after: cursor.map(|cursor| cursor.place.clone()),
        limit: limit as usize + 1,
        without_props: query.without_props && query.filter.props.is_empty(),
        only_waiting: false,
    })
}

/// Lets a list by lateness that begins with the last task begin at this time: later wake-ups, among them those of tasks that
/// wait for others, are not late.
pub(crate) fn from_now(mut span: Span, now: Timestamp) -> Span {
    if span.order == Order::Late && !span.ascending {
        let last = Place {
            at: now.as_microsecond(),
            order: i64::MAX as u64,
            id: None,
        };
        let after = span.after.take().unwrap_or_else(|| last.clone());
        span.after = Some(after.min(last));
    }
    span
}

/// Leaves the tasks that are not late out of a list by lateness: those that sleep until a time after `now`, and those that wait
/// for other tasks. They come last, so no task that is late follows them.
pub(crate) fn retain_late(order: Order, tasks: &mut Vec<TaskRecord>, now: Timestamp) {
    if order == Order::Late {
        tasks.retain(|record| record.state.as_ref().is_ok_and(|state| state.is_due(now)));
    }
}

/// Returns the page for the tasks of its [`span`].
pub(crate) fn page(query: &Query, cursor: Option<&Cursor>, mut tasks: Vec<TaskRecord>) -> TaskPage {
    let backwards = cursor.is_some_and(|cursor| cursor.backwards);
    let limit = fitting(query.max_bytes, &tasks).min(query.limit as usize);
    let has_more = tasks.len() > limit;
    tasks.truncate(limit);
    if backwards {
        tasks.reverse();
    }
    if query.without_props {
        for record in &mut tasks {
            record.task.props = Json::null();
        }
    }
    let at = |record: Option<&TaskRecord>, backwards| {
        let place = place(record?, query.order)?;
        Some(Cursor {
            order: query.order,
            ascending: query.ascending,
            backwards,
            filter: query.number(),
            place,
        })
    };
    // There is always a page in the direction from which the list was read.
    let (before, behind) = match backwards {
        true => (has_more, true),
        false => (cursor.is_some(), has_more),
    };
    TaskPage {
        next: at(tasks.last(), false).filter(|_| behind),
        previous: at(tasks.first(), true).filter(|_| before),
        tasks,
    }
}

/// Returns how many of the tasks a page has that ends with the task with which it reaches `most` bytes.
fn fitting(most: usize, tasks: &[TaskRecord]) -> usize {
    let mut bytes = 0;
    let begins_within = |record: &&TaskRecord| {
        let is_within = bytes < most || bytes == 0;
        bytes += record.bytes();
        is_within
    };
    tasks.iter().take_while(begins_within).count()
}

/// Selects the tasks of a span among all matching tasks, for stores without an index of the order.
pub(crate) struct Selection {
    span: Span,
    found: BTreeMap<Place, TaskRecord>,
}

impl Selection {
    pub(crate) fn of(span: Span) -> Self {
        let found = BTreeMap::new();
        Self { span, found }
    }

    /// Adds a task that matches the filter, if it belongs to the span and there is room. Returns whether the
    /// selection may still accept a task that comes later in the order.
    pub(crate) fn take(&mut self, record: TaskRecord) -> bool {
        let waits = |state: &TaskState| !waited_for(state).is_empty();
        if self.span.only_waiting && !record.state.as_ref().is_ok_and(waits) {
            return true;
        }
        // A task whose state cannot be read has no position.
        let Some(place) = place(&record, self.span.order) else {
            return true;
        };
        if !is_behind(&self.span, &place) {
            return true;
        }
        self.found.insert(place.clone(), record);
        if self.found.len() <= self.span.limit {
            return true;
        }
        let last = match self.span.ascending {
            true => self.found.pop_last(),
            false => self.found.pop_first(),
        };
        last.is_none_or(|(last, _)| last != place)
    }

    /// Returns whether it has as many tasks as the span, so that no later task in the order belongs to it.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= self.span.limit
    }

    /// Returns the order of the span.
    #[cfg(feature = "etcd")]
    pub(crate) fn order(&self) -> Order {
        self.span.order
    }

    /// Returns the time beyond which no task is wanted; `None` while the span has room.
    #[cfg(feature = "etcd")]
    pub(crate) fn furthest(&self) -> Option<i64> {
        let last = match self.span.ascending {
            true => self.found.last_key_value(),
            false => self.found.first_key_value(),
        };
        let last = last.filter(|_| self.found.len() >= self.span.limit);
        last.map(|(place, _)| place.at)
    }

    /// Returns the tasks, in the direction of reading.
    pub(crate) fn into_tasks(self) -> Vec<TaskRecord> {
        let ascending = self.span.ascending;
        let found = self.found.into_values();
        match ascending {
            true => found.collect(),
            false => found.rev().collect(),
        }
    }
}

/// Selects the tasks of a span from all matching tasks, which it reads page by page in submit
/// order.
pub(crate) async fn span_of_list<F>(
    span: Span,
    mut list: impl FnMut(Page) -> F,
) -> Result<Vec<TaskRecord>, Error>
where
    F: Future<Output = Result<Vec<TaskRecord>, Error>>,
{
    let mut selection = Selection::of(span);
    let mut page = Page::default();
    loop {
        let records = list(page).await?;
        let Some(last) = records.last() else {
            return Ok(selection.into_tasks());
        };
        page.after = last.order;
        records.into_iter().for_each(|record| {
            selection.take(record);
        });
    }
}

/// Returns whether a position comes after the start of a span.
pub(crate) fn is_behind(span: &Span, place: &Place) -> bool {
    span.after
        .as_ref()
        .is_none_or(|after| match span.ascending {
            true => place > after,
            false => place < after,
        })
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
