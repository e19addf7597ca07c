//! Reads tasks, lists, counts and commands for clients.

use rusqlite::{Connection, types::Value};
use windlass_statemachine::{CommandId, Kind, TaskId};

use super::{
    batch::{Sql, first},
    codes::{from_code, to_code},
    errors::Stop,
    rows,
    texts::Text,
};
use crate::store::{CommandRecord, Error, Filter, Page, TaskCount, TaskRecord};

/// Returns the row number of a task.
pub(super) fn row_of(conn: &Connection, id: &TaskId) -> Result<i64, Stop> {
    let mut row = conn.prepare_cached("SELECT n FROM windlass_tasks WHERE id = ?1")?;
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

/// Returns the query of a list, and its values. SQLite checks the conditions that have an index or save
/// reading a state; the filter itself decides.
fn list_query(filter: &Filter, page: Page) -> (String, Vec<Value>) {
    // SQLite does not know that few tasks are live or claimed, and most have ended.
    let index = match filter {
        Filter { node: Some(_), .. } | Filter { claimed: true, .. } => {
            Some("windlass_states_owned")
        }
        Filter {
            id_prefix: None, ..
        } if filter.is_live_only() => Some("windlass_states_live"),
        _ => None,
    };
    let tables = match index {
        Some(index) => format!(
            "windlass_states s INDEXED BY {index} {}",
            rows::RECORD_BY_STATE
        ),
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
        sql +=
            " AND s.owner = (SELECT id FROM windlass_leases WHERE node = ? AND ended_at IS NULL)";
        values.push(node.to_string().into());
    }
    if filter.claimed {
        sql += " AND s.owner IS NOT NULL";
    }
    sql += &format!(" ORDER BY {n}");
    (sql, values)
}

/// Returns the matching tasks.
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
            None => tracing::error!(
                row = row.get::<_, i64>(0)?,
                "could not read the id of a task"
            ),
        }
    }
    Ok(found)
}

/// Returns the first text that is greater than every text that begins with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The range skips the one gap in the numbers of characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// Returns the identity of the file, which it got when it was created.
pub(super) fn identity(conn: &Connection) -> Result<String, Stop> {
    let mut read =
        conn.prepare_cached("SELECT value FROM windlass_meta WHERE name = 'store_id'")?;
    Ok(read.query_row((), |row| row.get(0).map(Text::of))?)
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<TaskCount>, Stop> {
    let mut counts = conn.prepare_cached(
        "SELECT t.kind, iif(s.quarantine IS NULL, s.code, NULL) AS code, count(*), count(s.owner)
         FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n GROUP BY 1, 2 ORDER BY 1, 2",
    )?;
    let rows = counts.query_map((), |row| {
        let code: Option<i64> = row.get(1)?;
        let kind = Kind::new(row.get::<_, Text>(0)?.0)
            .ok()
            .or_else(rows::unreadable);
        Ok(kind.map(|kind| {
            Ok(TaskCount {
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
        "SELECT {} FROM windlass_commands c JOIN windlass_tasks t ON t.n = c.n WHERE c.id = ?1",
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
        "SELECT {} FROM windlass_commands c JOIN windlass_tasks t ON t.n = c.n WHERE c.n = ?1 ORDER BY c.ord",
        rows::COMMAND
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for command in statement.query_map([n], rows::command)? {
        match command? {
            Ok(command) => found.push(command),
            Err(error) => tracing::error!(task = %id, %error, "could not read a command"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;
    use windlass_statemachine::StateKind;

    use super::*;
    use crate::store::sqlite::schema;

    /// Makes a file with `ended` ended tasks and then ten live ones, the first of them claimed.
    fn file(ended: i64) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "f").unwrap();
        conn.execute_batch(
            "INSERT INTO windlass_leases (node, spec, status, ttl, boot, expires, joined_at)
             VALUES ('n', '{}', '{}', 1, '', 1, 1)",
        )
        .unwrap();
        let state = |code, ended: &str, owner: &str| {
            format!(
                "INSERT INTO windlass_states VALUES (?1, {code}, 0, {owner}, 1, 1, 0, 4, 1, NULL, {ended}, NULL, '{{}}', 1, 0, 0, NULL)"
            )
        };
        for n in 1..=ended + 10 {
            let task = "INSERT INTO windlass_tasks (n, id, kind, priority, submitted_at, props)
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

    /// Returns the number of steps that SQLite takes for a list, and the number of rows.
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
    fn a_list_of_live_tasks_reads_no_ended_task() {
        let live = Filter {
            states: vec![StateKind::Runnable, StateKind::Sleeping],
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
        let claimed = Filter {
            claimed: true,
            ..Filter::default()
        };
        for (filter, tasks) in [(live, 10), (of_kind, 10), (of_node, 1), (claimed, 1)] {
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
