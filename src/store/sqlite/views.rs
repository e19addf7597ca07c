//! [`Views`]: reads the views of tasks for watches.

use std::sync::Arc;

use rusqlite::{Connection, Row, Statement};
use windlass_statemachine::{
    Fence, Kind, QueuedCommand, StateKind, TaskId, state::FIRST_DATA_VERSION, task::Labels,
};

use super::{
    batch::{Sql, first},
    codes::{from_code, time},
    columns, command,
    dependencies::{WAITER, waiter},
    limits::{self, HELD, TERMS},
    texts::Text,
};
use crate::hash::HashMap;
use crate::store::{NodeCommand, NodeCommandId, QueuedNodeCommand, TaskView};

/// The present view of a task.
pub(super) enum View {
    Live(TaskView),
    /// The task has ended or is quarantined.
    Ended(TaskId, Option<Kind>, Fence),
    Deleted(TaskId),
}

/// Caches kinds and labels: a few texts occur in many tasks, and each is parsed once and shared.
#[derive(Default)]
pub(super) struct Views {
    kinds: HashMap<String, Kind>,
    labels: HashMap<String, Arc<Labels>>,
}

/// The number of texts that a cache holds before it is emptied.
const CACHED: usize = 10_000;

const COLUMNS: &str = "t.n, t.id, t.kind, t.labels, t.priority, s.due, s.owner, s.pending,
     s.ended_at IS NULL AND s.quarantine IS NULL, s.fence, s.code, s.data_version, s.deadline";

/// Returns the cached value of a text, or parses it; `None` for a text that cannot be parsed.
fn cached<T: Clone>(
    cache: &mut HashMap<String, T>,
    text: String,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    if let Some(value) = cache.get(&text) {
        return Some(value.clone());
    }
    let value = parse(&text)?;
    if cache.len() >= CACHED {
        cache.clear();
    }
    cache.insert(text, value.clone());
    Some(value)
}

impl Views {
    /// Unreadable labels count as none; the claim quarantines such a task.
    fn labels(&mut self, text: Option<String>) -> Option<Arc<Labels>> {
        let parse = |text: &str| serde_json::from_str(text).ok().map(Arc::new);
        cached(&mut self.labels, text?, parse)
    }

    /// Returns a task from the columns [`COLUMNS`], [`WAITER`], [`HELD`] and [`TERMS`]; `None` when its id cannot be read.
    fn view(&mut self, row: &Row<'_>) -> Sql<Option<View>> {
        let Some(id) = columns::id(row, 1)? else {
            let row = row.get::<_, i64>(0)?;
            tracing::error!(row, "could not read the id of a task");
            return Ok(None);
        };
        let kind = row.get(2).map(Text::of)?;
        let kind = cached(&mut self.kinds, kind, |text| Kind::new(text).ok());
        let (true, Some(kind)) = (row.get(8)?, kind.clone()) else {
            let fence = Fence(row.get::<_, i64>(9)? as u64);
            return Ok(Some(View::Ended(id, kind, fence)));
        };
        let due: Option<i64> = row.get(5)?;
        let mut view = TaskView {
            id,
            kind,
            labels: self.labels(row.get::<_, Option<Text>>(3)?.map(Text::of)),
            // Numbers out of range must not block other tasks; the claim quarantines the task that
            // has them.
            data_version: u32::try_from(row.get::<_, i64>(11)?).unwrap_or(FIRST_DATA_VERSION),
            priority: i32::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
            order: row.get::<_, i64>(0)? as u64,
            due: due.map(time),
            deadline: row.get::<_, Option<i64>>(12)?.map(time),
            sleeping: row.get::<_, i64>(10)? == from_code(StateKind::Sleeping),
            claimed_by: row.get::<_, Option<i64>>(6)?.map(|lease| lease as u64),
            commanded: row.get::<_, i64>(7)? > 0,
            fair_key: limits::fair_key(row, 17)?,
        };
        if let Some(waiter) = waiter(row, 13, due)? {
            waiter.apply(&mut view);
        }
        if let Some((report, has_order)) = limits::view(row, 15)? {
            report.apply(&mut view, || has_order);
        }
        Ok(Some(View::Live(view)))
    }

    /// Returns the present view of the task in a row.
    pub(super) fn one(&mut self, conn: &Connection, n: i64) -> Sql<Option<View>> {
        let sql = format!(
            "SELECT {COLUMNS}, {WAITER}, {HELD}, {TERMS} FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.n = ?1"
        );
        let mut one = conn.prepare_cached(&sql)?;
        if let Some(view) = first(&mut one, [n], |row| self.view(row))? {
            return Ok(view);
        }
        let mut gone = conn.prepare_cached("SELECT id FROM windlass_gone WHERE n = ?1")?;
        let id = first(&mut gone, [n], |row| columns::id(row, 0))?.flatten();
        Ok(id.map(View::Deleted))
    }

    /// Returns up to `limit` live tasks from rows after `after`, and the last row that was read.
    pub(super) fn live(
        &mut self,
        conn: &Connection,
        after: i64,
        limit: usize,
    ) -> Sql<(Vec<TaskView>, Option<i64>)> {
        let sql = format!(
            "SELECT {COLUMNS}, {WAITER}, {HELD}, {TERMS} FROM windlass_states s INDEXED BY windlass_states_live CROSS JOIN windlass_tasks t ON t.n = s.n
             WHERE s.ended_at IS NULL AND s.quarantine IS NULL AND s.n > ?1
             ORDER BY s.n LIMIT ?2"
        );
        let mut live = conn.prepare_cached(&sql)?;
        let mut rows = live.query((after, limit as i64))?;
        let (mut views, mut last) = (Vec::with_capacity(limit), None);
        while let Some(row) = rows.next()? {
            last = Some(row.get(0)?);
            if let Some(View::Live(view)) = self.view(row)? {
                views.push(view);
            }
        }
        Ok((views, last))
    }
}

/// Returns the fence of the last claim of a task.
pub(super) fn fence(conn: &Connection, n: i64) -> Sql<Fence> {
    let mut fence = conn.prepare_cached("SELECT fence FROM windlass_states WHERE n = ?1")?;
    let fence: Option<i64> = first(&mut fence, [n], |row| row.get(0))?;
    Ok(Fence(fence.unwrap_or_default() as u64))
}

/// Returns the waiting commands of a task, without unreadable ones: the next claim rejects them.
pub(super) fn commands(conn: &Connection, n: i64) -> Sql<Vec<QueuedCommand>> {
    let waiting = command::waiting(conn, n)?;
    Ok(waiting.into_iter().filter_map(Result::ok).collect())
}

/// Returns the queued commands of a node: all, or the one with this order.
pub(super) fn node_commands(
    conn: &Connection,
    lease: i64,
    order: Option<i64>,
) -> Sql<Vec<QueuedNodeCommand>> {
    let read = |statement: &mut Statement<'_>| {
        let rows = statement.query_map((lease, order), |row| {
            let order: i64 = row.get(0)?;
            let command = columns::json::<NodeCommand>(row, 1, "command")?;
            Ok(command.ok().flatten().map(|command| QueuedNodeCommand {
                id: NodeCommandId(order as u64),
                lease: lease as u64,
                command,
            }))
        })?;
        rows.filter_map(Result::transpose).collect()
    };
    match order {
        Some(_) => read(&mut *conn.prepare_cached(
            "SELECT ord, command FROM windlass_node_commands
             WHERE lease = ?1 AND ord = ?2 AND outcome IS NULL",
        )?),
        None => read(&mut *conn.prepare_cached(
            "SELECT ord, command FROM windlass_node_commands
             WHERE lease = ?1 AND ?2 IS NULL AND outcome IS NULL ORDER BY ord",
        )?),
    }
}
