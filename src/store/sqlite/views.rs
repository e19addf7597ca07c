//! [`Views`]: tasks as nodes need to know them, read for the watches.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Row, Statement};
use windlass_statemachine::{Fence, Kind, QueuedCommand, StateKind, TaskId, task::Labels};

use super::{
    batch::{Sql, first},
    codes::{from_code, time},
    command, rows,
};
use crate::store::{NodeCommand, NodeCommandId, QueuedNodeCommand, TaskView};

/// A task as it is now.
pub(super) enum View {
    Live(TaskView),
    /// It has ended or is quarantined.
    Ended(TaskId, Option<Kind>, Fence),
    Deleted(TaskId),
}

/// Kinds and labels are few and tasks are many: each text is read once and shared.
#[derive(Default)]
pub(super) struct Views {
    kinds: HashMap<String, Kind>,
    labels: HashMap<String, Arc<Labels>>,
}

/// How many different texts are remembered.
const REMEMBERED: usize = 10_000;

const COLUMNS: &str = "t.n, t.id, t.kind, t.labels, t.priority, s.due, s.owner, s.pending,
     s.ended_at IS NULL AND s.quarantine IS NULL, s.fence, s.code, s.data_version";

impl Views {
    fn kind(&mut self, text: String) -> Option<Kind> {
        if let Some(kind) = self.kinds.get(&text) {
            return Some(kind.clone());
        }
        let kind = Kind::new(&text).ok()?;
        if self.kinds.len() >= REMEMBERED {
            self.kinds.clear();
        }
        self.kinds.insert(text, kind.clone());
        Some(kind)
    }

    /// Labels that cannot be read count as none: the claim sets such a task aside.
    fn labels(&mut self, text: Option<String>) -> Option<Arc<Labels>> {
        let text = text?;
        if let Some(labels) = self.labels.get(&text) {
            return Some(labels.clone());
        }
        let labels = Arc::new(serde_json::from_str::<Labels>(&text).ok()?);
        if self.labels.len() >= REMEMBERED {
            self.labels.clear();
        }
        self.labels.insert(text, labels.clone());
        Some(labels)
    }

    /// A task from the columns [`COLUMNS`]; `None` when it has no id that can be read.
    fn view(&mut self, row: &Row<'_>) -> Sql<Option<View>> {
        let Some(id) = rows::id(row, 1)? else {
            tracing::error!(row = row.get::<_, i64>(0)?, "a task's id cannot be read");
            return Ok(None);
        };
        let kind = self.kind(row.get(2)?);
        let (true, Some(kind)) = (row.get(8)?, kind.clone()) else {
            let fence = Fence(row.get::<_, i64>(9)? as u64);
            return Ok(Some(View::Ended(id, kind, fence)));
        };
        Ok(Some(View::Live(TaskView {
            id,
            kind,
            labels: self.labels(row.get(3)?),
            data_version: row.get(11)?,
            priority: row.get(4)?,
            order: row.get::<_, i64>(0)? as u64,
            due: row.get::<_, Option<i64>>(5)?.map(time),
            sleeping: row.get::<_, i64>(10)? == from_code(StateKind::Sleeping),
            claimed_by: row.get::<_, Option<i64>>(6)?.map(|lease| lease as u64),
            commanded: row.get::<_, i64>(7)? > 0,
        })))
    }

    /// The task of a row as it is now.
    pub(super) fn one(&mut self, conn: &Connection, n: i64) -> Sql<Option<View>> {
        let sql =
            format!("SELECT {COLUMNS} FROM tasks t JOIN states s ON s.n = t.n WHERE t.n = ?1");
        let mut one = conn.prepare_cached(&sql)?;
        if let Some(view) = first(&mut one, [n], |row| self.view(row))? {
            return Ok(view);
        }
        let mut gone = conn.prepare_cached("SELECT id FROM gone WHERE n = ?1")?;
        let id = first(&mut gone, [n], |row| rows::id(row, 0))?.flatten();
        Ok(id.map(View::Deleted))
    }

    /// Up to `limit` live tasks with a row after `after`; the last row that was looked at.
    pub(super) fn live(
        &mut self,
        conn: &Connection,
        after: i64,
        limit: usize,
    ) -> Sql<(Vec<TaskView>, Option<i64>)> {
        let sql = format!(
            "SELECT {COLUMNS} FROM states s INDEXED BY states_live CROSS JOIN tasks t ON t.n = s.n
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

/// The commands that wait for a task. One that cannot be read is left to the next claim, which
/// rejects it.
pub(super) fn commands(conn: &Connection, n: i64) -> Sql<Vec<QueuedCommand>> {
    let waiting = command::waiting(conn, n)?;
    Ok(waiting.into_iter().filter_map(Result::ok).collect())
}

/// The commands that wait for a node: all, or the one with this order.
pub(super) fn node_commands(
    conn: &Connection,
    lease: i64,
    order: Option<i64>,
) -> Sql<Vec<QueuedNodeCommand>> {
    let read = |statement: &mut Statement<'_>| {
        let rows = statement.query_map((lease, order), |row| {
            let (order, text): (i64, String) = (row.get(0)?, row.get(1)?);
            let command = serde_json::from_str::<NodeCommand>(&text);
            Ok(command.map(|command| QueuedNodeCommand {
                id: NodeCommandId(order as u64),
                command,
            }))
        })?;
        rows.filter_map(|row| row.map(Result::ok).transpose())
            .collect()
    };
    match order {
        Some(_) => read(&mut *conn.prepare_cached(
            "SELECT ord, command FROM node_commands
             WHERE lease = ?1 AND ord = ?2 AND outcome IS NULL",
        )?),
        None => read(&mut *conn.prepare_cached(
            "SELECT ord, command FROM node_commands
             WHERE lease = ?1 AND ?2 IS NULL AND outcome IS NULL ORDER BY ord",
        )?),
    }
}
