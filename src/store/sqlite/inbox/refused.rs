//! The rows that were refused.

use rusqlite::Connection;

use super::{Sql, Text, errors};
use crate::store::{
    RefusedRows,
    examine::{Finding, Strays, Verdict},
};

/// How many rows are read for those that were refused.
const READ: i64 = 1000;

/// Returns the refused rows among the first ones: rows that wait are taken within moments.
pub(in crate::store::sqlite) fn refused(conn: &Connection) -> Sql<RefusedRows> {
    let rows = conn.prepare_cached(
        "SELECT count(*), count(refused), min(iif(refused IS NULL, NULL, seq))
         FROM (SELECT seq, refused FROM windlass_inbox ORDER BY seq LIMIT ?1)",
    );
    let mut rows = match rows {
        Ok(rows) => rows,
        // The doctor reports the missing table.
        Err(error) if errors::missing(&error).is_some() => return Ok(RefusedRows::default()),
        Err(error) => return Err(error),
    };
    let (read, refused, first): (i64, i64, Option<i64>) =
        rows.query_row([READ], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let reason = match first {
        Some(seq) => {
            let mut reason =
                conn.prepare_cached("SELECT refused FROM windlass_inbox WHERE seq = ?1")?;
            let reason: Option<Text> = reason.query_row([seq], |row| row.get(0))?;
            reason.map(Text::of)
        }
        None => None,
    };
    Ok(RefusedRows {
        rows: u64::try_from(refused).unwrap_or_default(),
        at_least: read == READ && refused > 0,
        first,
        reason,
    })
}

/// Examines the inbox: its refused rows.
pub(in crate::store::sqlite) fn finding(conn: &Connection) -> Sql<Finding> {
    let mut refused = conn.prepare(
        "SELECT seq, refused FROM windlass_inbox WHERE refused IS NOT NULL ORDER BY seq",
    )?;
    let named = refused.query_map((), |row| {
        let reason = row.get(1).map(Text::of)?;
        Ok(format!("{} ({reason})", row.get::<_, i64>(0)?))
    })?;
    let named: Strays = named.collect::<Sql<_>>()?;
    let advice = "correct each row (UPDATE windlass_inbox SET operation = … WHERE seq = …, or refused = NULL to try \
                  it again), or delete it";
    Ok(Finding::none_of(
        "inbox",
        (Verdict::Warning, "refused rows of windlass_inbox"),
        &named,
        0,
        advice,
    ))
}
