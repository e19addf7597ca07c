//! The inbox: operations that programs insert into the table `windlass_inbox` with SQL, inside transactions
//! of their own.
//!
//! # Flow
//!
//! 1. A program inserts a row with one operation as JSON ([`Line`]) and commits, with its other changes.
//! 2. Each process that has the file open and runs a node (or follows changes) notices the commit.
//!    A process that opens the file checks once.
//! 3. The first of them applies the rows in the order of `seq`, and deletes them in the same transaction.
//! 4. A refused row stays, with the reason in `refused`. It is applied again once it is corrected.
//!
//! # Guarantees
//!
//! - A row takes effect exactly once if the transaction that inserted it is committed, and
//!   otherwise never.
//! - Rows with the same `transaction_id` are one transaction with that id: all of them apply, or none.
//! - A refused row does not stop other rows.
//!
//! # Example
//!
//! ```
//! use windlass::{NewTask, clock::SystemClock};
//! use windlass::store::{Registry, sqlite::{Options, SqliteStore, inbox, rusqlite}};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! # drop(SqliteStore::open(&path, Options::default(), SystemClock::shared()).await?);
//! let mut shop = rusqlite::Connection::open(&path)?;
//! shop.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)")?;
//!
//! let transaction = shop.transaction()?;
//! transaction.execute("INSERT INTO orders VALUES ('o-17')", ())?;
//! inbox::submit(&transaction, NewTask::new("invoice").id("invoice-o-17"))?;
//! transaction.commit()?;
//!
//! let store = SqliteStore::open(&path, Options::default(), SystemClock::shared()).await?;
//! assert!(store.get(&"invoice-o-17".parse()?).await.is_ok());
//! # Ok(()) }
//! ```

mod refused;

use std::collections::{BTreeMap, HashSet};

use rusqlite::{
    Connection, Transaction as SqlTransaction,
    types::{ToSqlOutput, ValueRef},
};
use windlass_statemachine::{Author, Invalid, TaskId, TransactionId};

pub(super) use self::refused::{finding, refused};
use super::{
    batch::{Batch, Sql},
    errors::{self, Failure, Stop},
    json,
    texts::Text,
    transaction::{self, Prepared},
};
use crate::{
    NewTask,
    store::{Error, IfExists, Limits, Line, Part, Transaction, copy::Outside, read_line, rules},
};

/// The version of the form of `operation`.
const VERSION: i64 = 1;

/// The most rows, or transactions of rows, in one write. A write also ends after
/// [`Limits::WRITE_BYTES`] of operations.
pub(super) const MOST: usize = 500;

/// How many bytes an operation may have in addition to props, data or a result of the largest size.
const BESIDE: usize = 64 << 10;

/// Inserts a task that is submitted when `transaction` is committed, and returns its id. If the id is taken by
/// then, the task is refused unless [`NewTask`] says otherwise.
///
/// # Errors
///
/// [`Error::Invalid`] that names the field, [`Error::TooLarge`] for props over 1 MiB, and [`Error::Unusable`] when
/// the file has no inbox, or SQLite refuses the row.
pub fn submit(transaction: &SqlTransaction<'_>, task: impl Into<NewTask>) -> Result<TaskId, Error> {
    let submit = task.into().build()?;
    rules::submit::check(&submit, crate::store::Limits::default().max_bytes)?;
    let task = json("task", &submit.task)?;
    let if_exists = match submit.if_exists {
        IfExists::Refuse => String::new(),
        other => format!(r#""if_exists":{},"#, json("if_exists", &other)?),
    };
    let fields = task.strip_prefix('{').unwrap_or(&task);
    insert(
        transaction,
        &format!(r#"{{"op":"submit",{if_exists}{fields}"#),
    )?;
    Ok(submit.task.id)
}

fn insert(transaction: &SqlTransaction<'_>, operation: &str) -> Result<(), Error> {
    let insert = "INSERT INTO windlass_inbox (operation) VALUES (?1)";
    let inserted = transaction
        .prepare_cached(insert)
        .and_then(|mut insert| insert.execute([operation]));
    inserted.map(drop).map_err(|e| {
        let advice = "open the file with this version of windlass once, which adds the table";
        Error::Unusable(format!(
            "could not insert into windlass_inbox: {}; {advice}",
            Failure::from(&e)
        ))
    })
}

/// Returns whether rows are waiting.
pub(super) fn waits(conn: &Connection) -> Sql<bool> {
    let waits = conn.prepare_cached(
        "SELECT 1 FROM windlass_inbox INDEXED BY windlass_inbox_waiting WHERE refused IS NULL LIMIT 1",
    );
    match waits {
        Ok(mut waits) => waits.exists(()),
        // The doctor reports the missing index and recreates it. For that, the store has to open.
        Err(error) if errors::missing(&error).is_some() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The rows of one transaction; a row without a `transaction_id` is its own unit.
struct Unit {
    /// The bytes of its `transaction_id`, which another program has written.
    id: Option<Vec<u8>>,
    rows: Vec<i64>,
    /// The total size of the operations of these rows.
    bytes: usize,
}

/// The units of a write.
struct Units {
    list: Vec<Unit>,
    /// Whether more rows may wait.
    is_full: bool,
}

/// The rows that a write has taken.
pub(super) struct Taken {
    applied: usize,
    /// The refused rows, with the reasons.
    refused: Vec<(i64, String)>,
    /// Whether more rows may wait.
    pub(super) is_full: bool,
}

/// Logs the rows that were refused.
pub(super) fn report(taken: Taken) -> Taken {
    let Taken {
        applied, refused, ..
    } = &taken;
    for (seq, reason) in refused {
        tracing::warn!(seq, reason, "a row of windlass_inbox was refused");
    }
    tracing::debug!(
        applied,
        refused = refused.len(),
        "took rows of windlass_inbox"
    );
    taken
}

/// Applies waiting units: up to [`MOST`], and only until they have [`Limits::WRITE_BYTES`] or
/// [`Limits::WRITE_OPERATIONS`].
pub(super) fn take(batch: &mut Batch<'_>) -> Sql<Taken> {
    let (mut applied, mut refused) = (0, Vec::new());
    let Units { list, is_full } = units(batch)?;
    for unit in list {
        let outcome = batch.all_or_nothing(|batch| {
            apply(batch, &unit)?;
            for seq in &unit.rows {
                batch.run("DELETE FROM windlass_inbox WHERE seq = ?1", [seq])?;
            }
            Ok(())
        });
        match outcome {
            Ok(()) => applied += unit.rows.len(),
            Err(Stop::Sql(error)) => return Err(error),
            Err(Stop::Refused(error)) => {
                for (seq, reason) in reasons(batch, &unit, &error)? {
                    batch.run(
                        "UPDATE windlass_inbox SET refused = ?2, refused_at = ?3 WHERE seq = ?1",
                        (seq, &reason, batch.now.to_string()),
                    )?;
                    refused.push((seq, reason));
                }
            }
        }
    }
    Ok(Taken {
        applied,
        refused,
        is_full,
    })
}

fn units(batch: &Batch<'_>) -> Sql<Units> {
    let waiting: Vec<(i64, u32, Option<Vec<u8>>)> = batch.all(
        "SELECT seq, octet_length(operation), transaction_id
         FROM windlass_inbox INDEXED BY windlass_inbox_waiting
         WHERE refused IS NULL ORDER BY seq LIMIT ?1",
        [MOST as i64],
        |row| {
            let id = row.get_ref(2)?.as_bytes_or_null()?;
            Ok((row.get(0)?, row.get(1)?, id.map(<[u8]>::to_vec)))
        },
    )?;
    let mut units = Units {
        is_full: waiting.len() >= MOST,
        list: Vec::new(),
    };
    let (mut known, mut bytes, mut rows) = (HashSet::new(), 0, 0);
    for (seq, length, id) in waiting {
        let unit = match id {
            None => Unit {
                id: None,
                rows: vec![seq],
                bytes: length as usize,
            },
            Some(id) if known.insert(id.clone()) => of_transaction(batch, id)?,
            Some(_) => continue,
        };
        bytes += unit.bytes;
        rows += unit.rows.len();
        let is_full = bytes > Limits::WRITE_BYTES || rows > Limits::WRITE_OPERATIONS;
        if is_full && !units.list.is_empty() {
            units.is_full = true;
            break;
        }
        units.list.push(unit);
    }
    Ok(units)
}

/// Returns the rows of a transaction, including those that were refused before: one of them was
/// corrected.
fn of_transaction(batch: &Batch<'_>, id: Vec<u8>) -> Sql<Unit> {
    let rows: Vec<(i64, u32)> = batch.all(
        "SELECT seq, octet_length(operation) FROM windlass_inbox WHERE transaction_id = ?1 ORDER BY seq",
        [ToSqlOutput::Borrowed(ValueRef::Text(&id))],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(Unit {
        bytes: rows.iter().map(|(_, bytes)| *bytes as usize).sum(),
        rows: rows.into_iter().map(|(seq, _)| seq).collect(),
        id: Some(id),
    })
}

/// Reads the operation of a row.
fn read(batch: &Batch<'_>, seq: i64) -> Result<Line, Stop> {
    let limit = batch.limits.max_bytes.saturating_add(BESIDE);
    let size = "SELECT version, octet_length(operation) FROM windlass_inbox WHERE seq = ?1";
    let (version, bytes) = batch
        .first(size, [seq], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?
        .unwrap_or((VERSION, 0));
    if version != VERSION {
        let reason = format!("{version} is not known; this program reads version {VERSION}");
        return Err(Invalid::new("version", reason).into());
    }
    // Checked before the text is read.
    if bytes > limit as i64 {
        return Err(Error::too_large("operation", bytes as usize, limit).into());
    }
    let text = "SELECT operation FROM windlass_inbox WHERE seq = ?1";
    let text = batch.first(text, [seq], |row| {
        Ok(row.get_ref(0)?.as_bytes().unwrap_or_default().to_vec())
    })?;
    let text = String::from_utf8(text.unwrap_or_default())
        .map_err(|e| Invalid::new("operation", format!("is not UTF-8: {e}")))?;
    Ok(read_line(&text)?)
}

fn apply(batch: &mut Batch<'_>, unit: &Unit) -> Result<(), Stop> {
    let mut transaction = match (&unit.id, unit.rows.as_slice()) {
        (None, &[seq]) => match read(batch, seq)? {
            Line::Operation(operation) => {
                transaction::apply(
                    batch,
                    &Prepared::new(Transaction::from(operation).by(Author::inbox())),
                )?;
                return Ok(());
            }
            Line::Guards(_) => {
                let reason = "'require' needs a transaction; give its rows the same transaction_id";
                return Err(Invalid::new("op", reason).into());
            }
        },
        (id, _) => {
            let wrong = |reason: String| Invalid::new("transaction_id", reason);
            let id = std::str::from_utf8(id.as_deref().unwrap_or_default());
            let id = id.map_err(|e| wrong(format!("is not UTF-8: {e}")))?;
            let id = TransactionId::new(id).map_err(|e| wrong(e.reason().to_owned()))?;
            // Checked before the texts of its rows are read.
            rules::size::check_operations(unit.bytes)?;
            Transaction::new().with_id(id)
        }
    };
    for &seq in &unit.rows {
        match read(batch, seq)? {
            Line::Operation(operation) => transaction = transaction.with(operation),
            Line::Guards(guards) => {
                for guard in guards {
                    transaction = transaction.require(guard.task, guard.require);
                }
            }
        }
    }
    transaction::apply(batch, &Prepared::new(transaction.by(Author::inbox())))?;
    Ok(())
}

/// Returns the reason of each row of a refused unit.
fn reasons(batch: &Batch<'_>, unit: &Unit, error: &Error) -> Sql<Vec<(i64, String)>> {
    if let [seq] = unit.rows.as_slice()
        && unit.id.is_none()
    {
        return Ok(vec![(*seq, error.to_string())]);
    }
    // The row of each part of the transaction, and the reasons of rows that cannot be read.
    let (mut operations, mut guards, mut own) = (Vec::new(), Vec::new(), BTreeMap::new());
    for &seq in &unit.rows {
        match read(batch, seq) {
            Ok(Line::Operation(_)) => operations.push(seq),
            Ok(Line::Guards(conditions)) => guards.extend(conditions.iter().map(|_| seq)),
            Err(Stop::Refused(error)) => drop(own.insert(seq, error.to_string())),
            Err(Stop::Sql(error)) => return Err(error),
        }
    }
    if let Error::Refused(refusals) = error {
        for refusal in refusals {
            let seq = match refusal.part {
                Part::Operation(index) => operations.get(index),
                Part::Guard(index) => guards.get(index),
                Part::Effect { .. } => None,
            };
            if let Some(seq) = seq {
                own.entry(*seq).or_insert_with(|| refusal.to_string());
            }
        }
    }
    let first = own.keys().next().copied();
    let rows = unit.rows.iter().map(|seq| {
        let others = || match first {
            Some(first) => format!("row {first} of its transaction was refused"),
            None => error.to_string(),
        };
        (*seq, own.get(seq).cloned().unwrap_or_else(others))
    });
    Ok(rows.collect())
}

/// Returns the first rows that belong to no task, up to `limit`.
pub(super) fn outside(conn: &Connection, limit: u32) -> Sql<Vec<Outside>> {
    let mut rows = conn.prepare_cached(
        "SELECT seq, refused, refused_at FROM windlass_inbox ORDER BY seq LIMIT ?1",
    )?;
    let rows = rows.query_map([limit], |row| {
        let text = |column| row.get::<_, Option<Text>>(column);
        let refused_at = text(2)?.and_then(|at| at.0.parse().ok());
        Ok(Outside {
            what: format!("row {} of windlass_inbox", row.get::<_, i64>(0)?),
            refused: text(1)?.map(Text::of),
            is_task: false,
            refused_at,
        })
    })?;
    rows.collect()
}
