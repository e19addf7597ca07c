//! Moves starts whose slots are taken by tasks with a shorter period.

use jiff::SignedDuration;
use rusqlite::Row;
use windlass_statemachine::Limit;

use crate::store::{
    rules::limits::{self, Start},
    sqlite::{
        batch::{Batch, Sql},
        codes::time,
    },
};

/// Moves the start of a slot that a claim is about to take, if it still counts for its own limit.
pub(super) fn keep(batch: &Batch<'_>, limit: &Limit, slot: u32) -> Sql<()> {
    let key = limit.key();
    let kept = batch.first(
        "SELECT slot, began, until - began - 1 FROM windlass_slots
         WHERE key = ?1 AND starts = 1 AND slot = ?2 AND until > ?3",
        (key, slot, batch.at),
        start,
    )?;
    let Some(_) = kept.filter(|(_, kept)| kept.counts(batch.now)) else {
        return Ok(());
    };
    let others = batch.all(
        "SELECT slot, began, until - began - 1 FROM windlass_slots WHERE key = ?1 AND starts = 1",
        [key],
        start,
    )?;
    let to = limits::beyond(limit, others, batch.now);
    batch.run(
        "INSERT OR REPLACE INTO windlass_slots (key, starts, slot, n, began, until)
         SELECT key, starts, ?3, n, began, until FROM windlass_slots WHERE key = ?1 AND starts = 1 AND slot = ?2",
        (key, slot, to),
    )?;
    Ok(())
}

/// Reads a start: its slot, its time, and the period of its limit in microseconds.
fn start(row: &Row<'_>) -> Sql<(u32, Start)> {
    let start = Start {
        began: time(row.get(1)?),
        within: SignedDuration::from_micros(row.get(2)?),
    };
    Ok((row.get(0)?, start))
}
