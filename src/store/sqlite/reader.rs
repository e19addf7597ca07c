//! [`Readers`]: a few connections that only read, and what is read with them.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, types::Value};
use tokio::sync::Semaphore;
use windlass_statemachine::{CommandId, Kind, TaskId};

use super::{
    batch::{Sql, first},
    boot::LeaseClock,
    changes,
    codes::{from_code, time, to_code},
    errors::{self, Stop},
    file::OpenFiles,
    open, rows,
};
use crate::store::{
    Change, CommandRecord, Count, Error, Filter, NodeRecord, NodeSpec, NodeStatus, Page, TaskRecord,
};

/// How many reads run at once.
const READERS: usize = 4;

/// Connections for reading. Reads never wait for the writer, nor it for them.
pub(super) struct Readers {
    files: Arc<OpenFiles>,
    settings: open::Settings,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(files: Arc<OpenFiles>, settings: open::Settings) -> Self {
        Self {
            files,
            settings,
            idle: Mutex::default(),
            permits: Semaphore::new(READERS),
        }
    }

    /// Runs `read` on a thread where it may block; it sees the store as it is at one moment.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        let failed = |e: String| Error::unavailable(operation, e);
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|e| failed(e.to_string()))?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || readers.read(read));
        match task.await.map_err(|e| failed(e.to_string()))? {
            Ok(value) => Ok(value),
            Err(Stop::Told(error)) => Err(error),
            Err(Stop::Sql(error)) => Err(errors::running(self.files.path(), operation, &error)),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Stop>) -> Result<T, Stop> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let conn = idle().pop();
        let conn = match conn {
            Some(conn) => {
                self.files.check()?;
                conn
            }
            None => open::reader(&self.files, self.settings)?,
        };
        let result = conn
            .unchecked_transaction()
            .map_err(Stop::from)
            .and_then(|tx| read(&tx));
        if !matches!(result, Err(Stop::Sql(_))) {
            idle().push(conn);
        }
        result
    }
}

/// The row of a task.
fn row_of(conn: &Connection, id: &TaskId) -> Result<i64, Stop> {
    let mut row = conn.prepare_cached("SELECT n FROM tasks WHERE id = ?1")?;
    let n = first(&mut row, [id.as_str()], |row| row.get(0))?;
    Ok(n.ok_or_else(|| Error::no_task(id))?)
}

pub(super) fn get(conn: &Connection, id: &TaskId) -> Result<TaskRecord, Stop> {
    let sql = format!(
        "SELECT {} FROM {} WHERE t.id = ?1",
        rows::RECORD,
        rows::RECORD_TABLES
    );
    let record = first(
        &mut *conn.prepare_cached(&sql)?,
        [id.as_str()],
        rows::record,
    )?;
    Ok(record.flatten().ok_or_else(|| Error::no_task(id))?)
}

/// The query of a list, and its values. What has an index, or saves the reading of a state, is asked
/// of SQLite; the filter itself decides.
fn list_query(filter: &Filter, page: Page) -> (String, Vec<Value>) {
    // SQLite does not see by itself that live and claimed tasks are few among those that have ended.
    let index = match filter {
        Filter { node: Some(_), .. } => Some("states_owned"),
        Filter {
            id_prefix: None, ..
        } if filter.is_live_only() => Some("states_live"),
        _ => None,
    };
    let tables = match index {
        Some(index) => format!("states s INDEXED BY {index} {}", rows::RECORD_BY_STATE),
        None => rows::RECORD_TABLES.to_owned(),
    };
    let n = if index.is_some() { "s.n" } else { "t.n" };
    let mut sql = format!("SELECT {} FROM {tables} WHERE {n} > ?", rows::RECORD);
    let mut values = vec![Value::from(page.after as i64)];
    if !filter.states.is_empty() {
        let codes: Vec<_> = filter
            .states
            .iter()
            .map(|c| from_code(*c).to_string())
            .collect();
        sql += &format!(
            " AND s.quarantine IS NULL AND s.code IN ({})",
            codes.join(", ")
        );
        if filter.states.iter().all(|c| c.is_terminal()) {
            sql += " AND s.ended_at IS NOT NULL";
        } else if !filter.states.iter().any(|c| c.is_terminal()) {
            sql += " AND s.ended_at IS NULL";
        }
    }
    if let Some(kind) = &filter.kind {
        sql += " AND t.kind = ?";
        values.push(kind.to_string().into());
    }
    if let Some(prefix) = &filter.id_prefix {
        sql += " AND t.id >= ?";
        values.push(prefix.clone().into());
        if let Some(end) = after_prefix(prefix) {
            sql += " AND t.id < ?";
            values.push(end.into());
        }
    }
    if let Some(node) = &filter.node {
        sql += " AND s.owner = (SELECT id FROM leases WHERE node = ? AND ended_at IS NULL)";
        values.push(node.to_string().into());
    }
    sql += &format!(" ORDER BY {n}");
    (sql, values)
}

/// The matching tasks.
pub(super) fn list(
    conn: &Connection,
    filter: &Filter,
    page: Page,
) -> Result<Vec<TaskRecord>, Stop> {
    let (sql, values) = list_query(filter, page);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut found = Vec::new();
    while found.len() < page.limit as usize
        && let Some(row) = rows.next()?
    {
        match rows::record(row)? {
            Some(record) if filter.matches(&record) => found.push(record),
            Some(_) => {}
            None => tracing::error!(row = row.get::<_, i64>(0)?, "a task's id cannot be read"),
        }
    }
    Ok(found)
}

/// The first text that is greater than every text that begins with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The one gap in the numbers of characters is skipped.
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// The identity that the file was given when it was made.
pub(super) fn identity(conn: &Connection) -> Result<String, Stop> {
    let mut read = conn.prepare_cached("SELECT value FROM meta WHERE name = 'store_id'")?;
    Ok(read.query_row((), |row| row.get(0))?)
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<Count>, Stop> {
    let mut counts = conn.prepare_cached(
        "SELECT t.kind, iif(s.quarantine IS NULL, s.code, NULL) AS code, count(*), count(s.owner)
         FROM states s JOIN tasks t ON t.n = s.n GROUP BY 1, 2 ORDER BY 1, 2",
    )?;
    let rows = counts.query_map((), |row| {
        let code: Option<i64> = row.get(1)?;
        Ok(Kind::new(row.get::<_, String>(0)?).ok().map(|kind| {
            Ok(Count {
                kind,
                state: code.and_then(to_code),
                tasks: row.get::<_, i64>(2)? as u64,
                claimed: row.get::<_, i64>(3)? as u64,
            })
        }))
    })?;
    Ok(rows
        .filter_map(Result::transpose)
        .map(|row| row?)
        .collect::<Sql<_>>()?)
}

pub(super) fn command(conn: &Connection, id: &CommandId) -> Result<CommandRecord, Stop> {
    let sql = format!(
        "SELECT {} FROM commands c JOIN tasks t ON t.n = c.n WHERE c.id = ?1",
        rows::COMMAND
    );
    let found = first(
        &mut *conn.prepare_cached(&sql)?,
        [id.as_str()],
        rows::command,
    )?;
    Ok(found.ok_or_else(|| Error::no_command(id))??)
}

pub(super) fn commands(conn: &Connection, id: &TaskId) -> Result<Vec<CommandRecord>, Stop> {
    let n = row_of(conn, id)?;
    let sql = format!(
        "SELECT {} FROM commands c JOIN tasks t ON t.n = c.n WHERE c.n = ?1 ORDER BY c.ord",
        rows::COMMAND
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for command in statement.query_map([n], rows::command)? {
        match command? {
            Ok(command) => found.push(command),
            Err(error) => tracing::error!(task = %id, %error, "a command is left out of the list"),
        }
    }
    Ok(found)
}

pub(super) fn nodes(conn: &Connection, clock: &LeaseClock) -> Result<Vec<NodeRecord>, Stop> {
    let now = clock.now();
    let mut nodes = conn.prepare_cached(
        "SELECT id, spec, status, joined_at, expires,
                (SELECT count(*) FROM states WHERE owner = leases.id)
         FROM leases WHERE ended_at IS NULL AND boot = ?1 AND expires > ?2 ORDER BY node",
    )?;
    let rows = nodes.query_map((clock.boot(), now), |row| {
        let spec = serde_json::from_str::<NodeSpec>(&row.get::<_, String>(1)?);
        let status = serde_json::from_str::<NodeStatus>(&row.get::<_, String>(2)?);
        let lease: i64 = row.get(0)?;
        let left: i64 = row.get::<_, i64>(4)? - now;
        let (joined_at, claims) = (time(row.get(3)?), row.get::<_, i64>(5)?);
        let record = |spec, status| NodeRecord {
            spec,
            status,
            lease: lease as u64,
            joined_at,
            lease_left_ms: left as u64,
            claims: claims as u64,
        };
        Ok(spec
            .and_then(|spec| Ok(record(spec, status?)))
            .map_err(|e| Error::Corrupt {
                what: format!("lease {lease}"),
                reason: e.to_string(),
            }))
    })?;
    rows.map(|node| Ok(node??)).collect()
}

/// The newest `limit` changes of a task, oldest first: along their chain.
pub(super) fn history(conn: &Connection, id: &TaskId, limit: u32) -> Result<Vec<Change>, Stop> {
    let n = row_of(conn, id)?;
    let mut newest = conn.prepare_cached("SELECT last FROM states WHERE n = ?1")?;
    let mut next: i64 = first(&mut newest, [n], |row| row.get(0))?.unwrap_or(0);
    let mut history = Vec::new();
    while next != 0 && history.len() < limit as usize {
        // Where the chain ends, the history before was pruned.
        let Some((prev, change)) = changes::one(conn, next)? else {
            break;
        };
        history.extend(change);
        next = prev;
    }
    history.reverse();
    Ok(history)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;
    use windlass_statemachine::Code;

    use super::*;
    use crate::store::sqlite::schema;

    /// A file with ten live tasks, the first of them claimed, after this many that have ended.
    fn file(ended: i64) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::migrate(&mut conn, "f", schema::MIGRATIONS).unwrap();
        conn.execute_batch(
            "INSERT INTO leases (node, spec, status, ttl, boot, expires, joined_at)
             VALUES ('n', '{}', '{}', 1, '', 1, 1)",
        )
        .unwrap();
        let state = |code, ended: &str, owner: &str| {
            format!(
                "INSERT INTO states VALUES (?1, {code}, 0, {owner}, 1, 1, 0, 4, 1, NULL, {ended}, NULL, '{{}}')"
            )
        };
        for n in 1..=ended + 10 {
            let task = "INSERT INTO tasks (n, id, kind, priority, submitted_at, props)
                        VALUES (?1, 'id' || ?1, 'k', 0, 0, 'null')";
            conn.execute(task, [n]).unwrap();
            let state = match n - ended {
                ..1 => state(4, "1", "NULL"),
                1 => state(1, "NULL", "1"),
                _ => state(1, "NULL", "NULL"),
            };
            conn.execute(&state, [n]).unwrap();
        }
        conn
    }

    /// How many steps SQLite takes for a list, and how many rows it finds.
    fn steps(ended: i64, filter: &Filter) -> (i32, usize) {
        let conn = file(ended);
        let (sql, values) = list_query(filter, Page::default());
        let mut statement = conn.prepare(&sql).unwrap();
        let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
        let mut found = 0;
        while rows.next().unwrap().is_some() {
            found += 1;
        }
        drop(rows);
        (statement.get_status(StatementStatus::VmStep), found)
    }

    #[test]
    fn a_list_of_what_lives_reads_nothing_that_has_ended() {
        let live = Filter {
            states: vec![Code::Runnable, Code::Sleeping],
            ..Filter::default()
        };
        let of_kind = Filter {
            kind: Some("k".parse().unwrap()),
            ..live.clone()
        };
        let of_node = Filter {
            node: Some("n".parse().unwrap()),
            ..Filter::default()
        };
        for (filter, tasks) in [(live, 10), (of_kind, 10), (of_node, 1)] {
            let (alone, found) = steps(0, &filter);
            assert_eq!(found, tasks, "{filter:?}");
            let among = steps(3000, &filter);
            assert_eq!(among, (alone, tasks), "{filter:?}");
        }
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(after_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(after_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(after_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{10ffff}"), None);
        assert_eq!(after_prefix(""), None);
    }
}
