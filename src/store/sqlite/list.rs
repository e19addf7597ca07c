//! Lists the matching tasks in an order. SQLite checks the conditions that have an index or avoid reading a state;
//! the filter itself makes the final decision.

mod due;

use rusqlite::{CachedStatement, Connection, params_from_iter, types::Value};
use windlass_statemachine::{StateKind, TaskId};

use super::{
    codes::{from_code, micros},
    errors::Stop,
    failures, rows,
};
use crate::store::{Filter, Order, Page, Place, Span, TaskRecord, rules::list::Selection};

/// A condition on the rows of a list, with its values.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn new() -> Self {
        let (sql, values) = (String::new(), Vec::new());
        Self { sql, values }
    }

    fn and(&mut self, condition: &str) {
        self.sql += if self.sql.is_empty() {
            " WHERE "
        } else {
            " AND "
        };
        self.sql += condition;
    }

    fn and_with(&mut self, condition: &str, value: impl Into<Value>) {
        self.and(condition);
        self.values.push(value.into());
    }

    /// Adds the condition that the text of a column begins with a prefix.
    fn prefix(&mut self, column: &str, prefix: &str) {
        self.and_with(&format!("{column} >= ?"), prefix.to_owned());
        if let Some(end) = after_prefix(prefix) {
            self.and_with(&format!("{column} < ?"), end);
        }
    }

    /// Adds the conditions of a filter on the kind, which a column has.
    fn kind(&mut self, column: &str, filter: &Filter) {
        if let Some(kind) = &filter.kind {
            self.and_with(&format!("{column} = ?"), kind.to_string());
        }
        if let Some(prefix) = &filter.kind_prefix {
            self.prefix(column, prefix);
        }
    }

    /// Adds the conditions of a filter.
    fn filter(&mut self, filter: &Filter) {
        if !filter.states.is_empty() {
            let codes = filter.states.iter().map(|c| from_code(*c).to_string());
            let codes: Vec<_> = codes.collect();
            self.and("s.quarantine IS NULL");
            self.and(&format!("s.code IN ({})", codes.join(", ")));
            if filter.states.iter().all(|c| c.is_terminal()) {
                self.and("s.ended_at IS NOT NULL");
            } else if !filter.states.iter().any(|c| c.is_terminal()) {
                self.and("s.ended_at IS NULL");
            }
        }
        if let Some(running) = filter.running {
            let runnable = from_code(StateKind::Runnable);
            let not = if running { "NOT " } else { "" };
            match filter.states[..] {
                // Without the other states, so that SQLite can use the index of claimed tasks.
                [StateKind::Runnable] => self.and(&format!("s.owner IS {not}NULL")),
                _ => self.and(&format!("(s.code <> {runnable} OR s.owner IS {not}NULL)")),
            }
        }
        // The filter compares the times of ends with all their digits.
        if let Some(from) = filter.ended.from {
            self.and_with("s.ended_at >= ?", micros(from));
        }
        if let Some(until) = filter.ended.until {
            self.and_with("s.ended_at <= ?", micros(until));
        }
        self.kind("t.kind", filter);
        if !filter.ids.is_empty()
            && let Ok(ids) = serde_json::to_string(&filter.ids)
        {
            // One parameter, whatever the number of ids is: the statement is prepared once.
            self.and_with("t.id IN (SELECT value FROM json_each(?))", ids);
        }
        if let Some(prefix) = &filter.id_prefix {
            self.prefix("t.id", prefix);
        }
        for (name, value) in &filter.labels {
            // Labels are JSON as serde_json writes it: without these texts, a task lacks the label.
            for text in [Some(name), value.as_ref()].into_iter().flatten() {
                if let Ok(text) = serde_json::to_string(text) {
                    self.and_with("instr(t.labels, ?) > 0", text);
                }
            }
        }
        if let Some(node) = &filter.node {
            let owner =
                "s.owner = (SELECT id FROM windlass_leases WHERE node = ? AND ended_at IS NULL)";
            self.and_with(owner, node.to_string());
        }
        if filter.claimed {
            self.and("s.owner IS NOT NULL");
        }
        if let Some(failure) = failure(filter) {
            // Also in a query of another index.
            self.and_with("s.failure = ?", failure);
            self.and("s.failure >= 0");
        }
        if filter.awaits_signal {
            self.and("s.waits = -1");
        }
    }
}

/// Returns the fingerprint of a filter that selects failed tasks only: others may have had such an error, too.
fn failure(filter: &Filter) -> Option<i64> {
    let print = filter.fingerprint.as_deref();
    let print = print.filter(|_| filter.states == [StateKind::Failed])?;
    Some(failures::number(Some(print)))
}

/// Returns the index of states for a list of these tasks. SQLite does not know that few tasks are live or claimed, and
/// most have ended.
fn index_of(filter: &Filter) -> Option<&'static str> {
    match filter {
        Filter { node: Some(_), .. } | Filter { claimed: true, .. } => {
            Some("windlass_states_owned")
        }
        Filter {
            states,
            running: Some(true),
            ..
        } if *states == [StateKind::Runnable] => Some("windlass_states_owned"),
        Filter {
            awaits_signal: true,
            ..
        } => Some("windlass_states_awaiting_signal"),
        Filter {
            id_prefix: None, ..
        } if filter.is_live_only() => Some("windlass_states_live"),
        _ => None,
    }
}

/// Returns the query of a list in the order of submits.
fn by_submit(filter: &Filter, after: Option<u64>, ascending: bool) -> (String, Vec<Value>) {
    let index = index_of(filter);
    let tables = match index {
        Some(index) => format!(
            "windlass_states s INDEXED BY {index} {}",
            rows::RECORD_BY_STATE
        ),
        None => rows::RECORD_TABLES.to_owned(),
    };
    let n = if index.is_some() { "s.n" } else { "t.n" };
    let (behind, sorted) = direction(ascending);
    let mut conditions = Conditions::new();
    if let Some(after) = after {
        conditions.and_with(&format!("{n} {behind} ?"), after as i64);
    }
    conditions.filter(filter);
    let Conditions { sql, values } = conditions;
    let columns = rows::RECORD;
    let sql = format!("SELECT {columns} FROM {tables}{sql} ORDER BY {n}{sorted}");
    (sql, values)
}

/// Returns the query of a list in the order of ids. It reads the index of the ids, except for claimed tasks, which are
/// few.
fn by_id(filter: &Filter, after: Option<&TaskId>, ascending: bool) -> (String, Vec<Value>) {
    let is_claimed = filter.node.is_some() || filter.claimed;
    let tables = match is_claimed {
        true => format!(
            "windlass_states s INDEXED BY windlass_states_owned {}",
            rows::RECORD_BY_STATE
        ),
        false => rows::RECORD_TABLES_BY_ID.to_owned(),
    };
    let (behind, sorted) = direction(ascending);
    let mut conditions = Conditions::new();
    if let Some(after) = after {
        conditions.and_with(&format!("t.id {behind} ?"), after.to_string());
    }
    conditions.filter(filter);
    let Conditions { sql, values } = conditions;
    let columns = rows::RECORD;
    let sql = format!("SELECT {columns} FROM {tables}{sql} ORDER BY t.id{sorted}");
    (sql, values)
}

/// Returns the query of a list of tasks that ended in one state, by the time of their end.
fn by_end(
    filter: &Filter,
    state: StateKind,
    after: Option<&Place>,
    ascending: bool,
) -> (String, Vec<Value>) {
    let (behind, sorted) = direction(ascending);
    let mut conditions = Conditions::new();
    conditions.and_with("s.code = ?", from_code(state));
    conditions.and("s.ended_at IS NOT NULL");
    if let Some(Place { at, order, .. }) = after {
        conditions.and_with(&format!("(s.ended_at, s.n) {behind} (?, ?)"), *at);
        conditions.values.push((*order as i64).into());
    }
    conditions.filter(filter);
    let Conditions { sql, values } = conditions;
    let index = match failure(filter) {
        Some(_) => "windlass_states_failed",
        None => "windlass_states_ended",
    };
    let sql = format!(
        "SELECT {} FROM windlass_states s INDEXED BY {index} {}{sql} \
         ORDER BY s.ended_at{sorted}, s.n{sorted}",
        rows::RECORD,
        rows::RECORD_BY_STATE
    );
    (sql, values)
}

/// Returns the comparison with the last position of a list, and the order, in SQL.
fn direction(ascending: bool) -> (&'static str, &'static str) {
    match ascending {
        true => (">", ""),
        false => ("<", " DESC"),
    }
}

/// Passes the matching tasks of a query to `take`, until it returns `false`.
fn each(
    statement: &mut CachedStatement<'_>,
    values: impl IntoIterator<Item = Value>,
    filter: &Filter,
    mut take: impl FnMut(TaskRecord) -> bool,
) -> Result<(), Stop> {
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        match rows::record(row)? {
            Some(record) if filter.matches(&record) => {
                if !take(record) {
                    return Ok(());
                }
            }
            Some(_) => {}
            None => tracing::error!(
                row = row.get::<_, i64>(0)?,
                "could not read the id of a task"
            ),
        }
    }
    Ok(())
}

/// Leaves the props out of a query, if the span asks for it. Those that cannot be read stay: their task is quarantined.
fn for_span(sql: String, filter: &Filter, span: &Span) -> String {
    match span.without_props && filter.props.is_empty() {
        true => sql.replacen("t.props", "iif(json_valid(t.props), 'null', t.props)", 1),
        false => sql,
    }
}

/// Returns the first matching tasks of a query.
fn first(
    conn: &Connection,
    (sql, values): (String, Vec<Value>),
    filter: &Filter,
    limit: usize,
) -> Result<Vec<TaskRecord>, Stop> {
    let mut found = Vec::new();
    each(&mut conn.prepare_cached(&sql)?, values, filter, |record| {
        found.push(record);
        found.len() < limit
    })?;
    Ok(found)
}

/// Returns whether a task has had a kind of the filter. Without one, no task has to be compared.
fn is_known(conn: &Connection, filter: &Filter) -> Result<bool, Stop> {
    let mut conditions = Conditions::new();
    conditions.kind("kind", filter);
    let Conditions { sql, values } = conditions;
    if values.is_empty() {
        return Ok(true);
    }
    let sql = format!("SELECT EXISTS (SELECT 1 FROM windlass_kinds{sql})");
    let mut known = conn.prepare_cached(&sql)?;
    Ok(known.query_row(params_from_iter(values), |row| row.get(0))?)
}

/// Returns a page of the matching tasks, in the order of submits.
pub(super) fn list(
    conn: &Connection,
    filter: &Filter,
    page: Page,
) -> Result<Vec<TaskRecord>, Stop> {
    if !is_known(conn, filter)? {
        return Ok(Vec::new());
    }
    let query = by_submit(filter, Some(page.after), true);
    first(conn, query, filter, page.limit as usize)
}

/// Returns the tasks of a span.
pub(super) fn span(
    conn: &Connection,
    filter: &Filter,
    span: Span,
) -> Result<Vec<TaskRecord>, Stop> {
    if !is_known(conn, filter)? {
        return Ok(Vec::new());
    }
    match span.order {
        Order::Submitted => {
            let after = span.after.as_ref().map(|place| place.order);
            let (sql, values) = by_submit(filter, after, span.ascending);
            let query = (for_span(sql, filter, &span), values);
            first(conn, query, filter, span.limit)
        }
        Order::Ended => {
            let mut selection = Selection::of(span.clone());
            let ends = StateKind::ALL.into_iter().filter(|code| code.is_terminal());
            let wanted =
                |code: &StateKind| filter.states.is_empty() || filter.states.contains(code);
            for state in ends.filter(wanted) {
                let (sql, values) = by_end(filter, state, span.after.as_ref(), span.ascending);
                let mut statement = conn.prepare_cached(&for_span(sql, filter, &span))?;
                each(&mut statement, values, filter, |record| {
                    selection.take(record)
                })?;
            }
            Ok(selection.into_tasks())
        }
        Order::Due | Order::Late => due::span(conn, filter, &span),
        Order::Id => {
            let after = span.after.as_ref().and_then(|place| place.id.as_ref());
            let (sql, values) = by_id(filter, after, span.ascending);
            let query = (for_span(sql, filter, &span), values);
            first(conn, query, filter, span.limit)
        }
    }
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

#[cfg(test)]
mod tests;
