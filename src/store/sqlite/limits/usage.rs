//! The limits that tasks use at present, for operators.

use jiff::Timestamp;
use rusqlite::Connection;
use windlass_statemachine::{Limit, Terms};

use super::pool_at;
use crate::store::{
    LimitUse,
    rules::limits::{Pool, Taken, usage::Usage},
    sqlite::{
        batch::Sql,
        codes::{micros, time},
        columns,
        errors::Stop,
    },
};

/// Returns a limit with the template of its key; `None` when a task does not declare it.
pub(super) fn as_declared(limit: &Limit, declared: &[Limit]) -> Option<Limit> {
    declared.iter().find(|one| *one == limit).cloned()
}

/// Returns the limits with a slot in use or a task in their line.
pub(in crate::store::sqlite) fn in_use(
    conn: &Connection,
    now: Timestamp,
) -> Result<Vec<LimitUse>, Stop> {
    let mut usage = Usage::default();
    slots(conn, now, &mut usage)?;
    claims(conn, &mut usage)?;
    lines(conn, &mut usage)?;
    Ok(usage.list(now))
}

fn slots(conn: &Connection, now: Timestamp, usage: &mut Usage) -> Sql<()> {
    let mut read = conn.prepare_cached(
        "SELECT key, within, slot, began FROM windlass_slots
         WHERE until IS NULL OR until > ?1",
    )?;
    let mut rows = read.query([micros(now)])?;
    while let Some(row) = rows.next()? {
        let pool = pool_at(row, 0)?;
        let began: Option<i64> = row.get(3)?;
        let taken = began.map_or(Taken::Held, |at| Taken::Began(time(at)));
        usage.slot(pool, row.get(2)?, taken);
    }
    Ok(())
}

/// Records the limits of the claimed tasks.
fn claims(conn: &Connection, usage: &mut Usage) -> Sql<()> {
    let mut read = conn.prepare_cached(
        "SELECT t.terms FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
         WHERE s.owner IS NOT NULL AND s.limited <> 0",
    )?;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let terms = columns::json::<Terms>(row, 0, "terms")?.ok().flatten();
        let limits = terms.map_or_else(Vec::new, |terms| terms.limits);
        limits.iter().for_each(|limit| usage.limit(limit));
    }
    Ok(())
}

fn lines(conn: &Connection, usage: &mut Usage) -> Sql<()> {
    // A line has only the key, filled in: one of its tasks shows how it is declared.
    let mut read = conn.prepare_cached(
        "SELECT h.key, h.within, h.most, h.tasks, t.terms
         FROM (SELECT key, within, most, count(*) AS tasks, min(n) AS n
               FROM windlass_held GROUP BY 1, 2, 3) h
         LEFT JOIN windlass_tasks t ON t.n = h.n",
    )?;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let Some(limit) = pool_at(row, 0)?.limit(row.get(2)?) else {
            continue;
        };
        let terms = columns::json::<Terms>(row, 4, "terms")?.ok().flatten();
        let declared = terms.map_or_else(Vec::new, |terms| terms.limits);
        match as_declared(&limit, &declared) {
            Some(limit) => usage.waiting(&limit, row.get::<_, i64>(3)? as u64),
            None => usage.waiting_for(Pool::of(&limit), row.get::<_, i64>(3)? as u64),
        }
    }
    Ok(())
}
