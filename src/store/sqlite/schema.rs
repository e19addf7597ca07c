//! The tables, and the migration of files of earlier versions.
//!
//! The file may hold tables of other programs. So the version is a row of `windlass_meta`, and a table is one
//! of windlass by the prefix of its name. Only files of versions before 7 are recognised by the two numbers in
//! SQLite's header, and hold tables without the prefix.

use rusqlite::{Connection, TransactionBehavior};

use super::{batch::Sql, boot::LeaseClock, errors::Stop, lease, texts::Text};
use crate::store::Error;

mod earlier;
mod steps;

/// Marks a file that windlass has created in SQLite's own header (`file` and other tools show it): "Wdls".
const APPLICATION_ID: i32 = 0x5764_6c73;

/// The version of [`TABLES`] and [`INBOX`].
const FIRST: usize = 7;

use steps::STEPS;

/// The newest version of the schema, which this program reads and writes.
pub(super) const NEWEST: usize = FIRST + STEPS.len();

/// One counter, `windlass_changes.seq`, numbers every change. A task's `n` and the order of a command are each
/// the number of the change that made it. A claim's fence is that number plus `fence_floor`. All of
/// them grow, and none is used twice, since the newest change is never pruned.
const TABLES: &str = "
-- What was submitted; never changed. `n` is the submit order.
CREATE TABLE windlass_tasks (
    n            INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    kind         TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    submitted_at INTEGER NOT NULL,
    labels       TEXT,
    start_at     TEXT,
    retry        TEXT,
    props        TEXT NOT NULL
) STRICT;

-- Where each task is: what changes, without the props.
CREATE TABLE windlass_states (
    n           INTEGER PRIMARY KEY,
    code        INTEGER NOT NULL,            -- 0 runnable 1 sleeping 2 paused 3 fault 4 completed 5 failed 6 killed
    due         INTEGER,                     -- claimable from then on; NULL: by command only
    owner       INTEGER,                     -- the lease to which its claim is attached
    fence       INTEGER NOT NULL,            -- of its last claim
    last        INTEGER NOT NULL,            -- its newest change; they form a chain
    pending     INTEGER NOT NULL DEFAULT 0,  -- how many commands wait
    size        INTEGER NOT NULL,            -- bytes of the props, which count against the limit
    version     INTEGER NOT NULL,            -- of the state: identifies a repeated write
    lost_by     TEXT,                        -- the node that lost the last claim, until the next write
    ended_at    INTEGER,
    quarantine  TEXT,                        -- why the record cannot be read
    state       TEXT NOT NULL,               -- the State as JSON
    data_version INTEGER NOT NULL DEFAULT 1  -- of its data: watches report it without reading the state
) STRICT;
CREATE INDEX windlass_states_live ON windlass_states (n) WHERE ended_at IS NULL AND quarantine IS NULL;
CREATE INDEX windlass_states_owned ON windlass_states (owner) WHERE owner IS NOT NULL;
CREATE INDEX windlass_states_ended ON windlass_states (code, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX windlass_states_set_aside ON windlass_states (n) WHERE quarantine IS NOT NULL;

CREATE TABLE windlass_commands (
    ord     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    n       INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    command TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX windlass_commands_of_task ON windlass_commands (n);

-- The nodes' leases. An ended one stays for its node's name, as long as the history does.
CREATE TABLE windlass_leases (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    node      TEXT NOT NULL,
    spec      TEXT NOT NULL,
    status    TEXT NOT NULL,
    ttl       INTEGER NOT NULL,  -- milliseconds
    boot      TEXT NOT NULL,     -- which start of the machine `expires` counts from
    expires   INTEGER NOT NULL,  -- milliseconds of the monotonic clock
    joined_at INTEGER NOT NULL,
    ended_at  INTEGER,
    process   TEXT               -- the processes that hold it: it ends when they have certainly ended
) STRICT;
CREATE UNIQUE INDEX windlass_leases_live ON windlass_leases (node) WHERE ended_at IS NULL;

CREATE TABLE windlass_node_commands (
    ord     INTEGER PRIMARY KEY,
    lease   INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    command TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX windlass_node_commands_of_lease ON windlass_node_commands (lease);

-- History, what watches resume from, and the clients' feed, in one.
CREATE TABLE windlass_changes (
    seq     INTEGER PRIMARY KEY,
    n       INTEGER NOT NULL,  -- the task; 0 for a command to a node
    prev    INTEGER NOT NULL,  -- the task's change before; 0 for none
    at      INTEGER NOT NULL,
    what    INTEGER NOT NULL,
    detail  INTEGER NOT NULL,
    fence   INTEGER NOT NULL,
    command INTEGER NOT NULL
) STRICT;

-- The names of deleted tasks, as long as the history speaks of them.
CREATE TABLE windlass_gone (
    n   INTEGER PRIMARY KEY,
    id  TEXT NOT NULL,
    seq INTEGER NOT NULL   -- the change that deleted it
) STRICT;
CREATE INDEX windlass_gone_since ON windlass_gone (seq);

-- The states of a `SqliteStates`.
CREATE TABLE windlass_states_alone (
    task        TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Facts about the file: `schema` is the version of these tables, `store_id` identifies the file whatever its
-- path is, and every fence is greater than `fence_floor`, which imports raise.
CREATE TABLE windlass_meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO windlass_meta VALUES ('store_id', lower(hex(randomblob(16)))), ('fence_floor', 0);

-- The results of applied transactions, for those who repeat one.
CREATE TABLE windlass_transactions (
    id     TEXT PRIMARY KEY,
    at     INTEGER NOT NULL,
    answer TEXT NOT NULL,
    fingerprint TEXT  -- of its operations and guards; NULL when an earlier version applied it
) STRICT;
CREATE INDEX windlass_transactions_at ON windlass_transactions (at);
";

/// Added by version 7, as the names with the prefix.
const INBOX: &str = "
-- Operations that other programs insert with SQL. The writer takes them in the order of `seq`, and deletes
-- those that it has applied.
CREATE TABLE windlass_inbox (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    operation      TEXT NOT NULL,               -- as a line of `windlass apply`
    version        INTEGER NOT NULL DEFAULT 1,  -- of the form of `operation`
    transaction_id TEXT,                        -- rows with the same one are one transaction
    refused        TEXT,                        -- why it was refused; NULL while it waits
    refused_at     TEXT                         -- when, as RFC 3339
) STRICT;
CREATE INDEX windlass_inbox_waiting ON windlass_inbox (seq) WHERE refused IS NULL;
CREATE INDEX windlass_inbox_of_transaction ON windlass_inbox (transaction_id, seq) WHERE transaction_id IS NOT NULL;
-- A corrected row waits again, with the rows of its transaction.
CREATE TRIGGER windlass_inbox_corrected
AFTER UPDATE OF operation, version, transaction_id ON windlass_inbox BEGIN
    UPDATE windlass_inbox SET refused = NULL, refused_at = NULL
    WHERE seq = NEW.seq OR transaction_id = NEW.transaction_id;
END;
";

/// Migrates the file to the newest version in one transaction: it has the old version or the new one,
/// never one between. `file` is its name in errors. Other tables in the file stay as they are.
///
/// Refused while nodes of the earlier version run: their statements would fail.
pub(super) fn migrate(conn: &mut Connection, file: &str) -> Result<(), Stop> {
    migrate_by(conn, file, STEPS)
}

fn migrate_by(conn: &mut Connection, file: &str, steps: &[&str]) -> Result<(), Stop> {
    let newest = FIRST + steps.len();
    if version(conn, file, newest)?.number == newest {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    // Another process may have migrated it meanwhile.
    let have = version(&tx, file, newest)?;
    if have.number == newest {
        return Ok(());
    }
    no_nodes(&tx, file, have.number, newest)?;
    if have.number == 0 {
        tx.execute_batch(TABLES)?;
        tx.execute_batch(INBOX)?;
    } else if have.number < FIRST {
        for step in earlier::STEPS.iter().skip(have.number) {
            tx.execute_batch(step)?;
        }
        tx.execute_batch(earlier::PREFIX)?;
        tx.execute_batch(INBOX)?;
    }
    for step in steps.iter().skip(have.number.saturating_sub(FIRST)) {
        tx.execute_batch(step)?;
    }
    let note = "INSERT OR REPLACE INTO windlass_meta (name, value) VALUES ('schema', ?1)";
    tx.execute(note, [newest as i64])?;
    if have.is_in_header {
        // For `file`, and for earlier versions, which then name the versions.
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", newest as i64)?;
    }
    tx.commit()?;
    Ok(())
}

/// Refuses to change a file that nodes of an earlier version use.
fn no_nodes(conn: &Connection, file: &str, have: usize, newest: usize) -> Result<(), Stop> {
    let live = match have {
        0 => return Ok(()),
        1..3 => "SELECT node, boot, expires, NULL FROM leases WHERE ended_at IS NULL",
        3..FIRST => "SELECT node, boot, expires, process FROM leases WHERE ended_at IS NULL",
        _ => lease::LIVE,
    };
    let nodes = lease::standing(conn, live, &LeaseClock::new(None))?;
    let mut names: Vec<_> = nodes.into_iter().filter(|n| !n.is_over).collect();
    names.sort_by(|a, b| a.node.cmp(&b.node));
    let (shown, more) = names.split_at(names.len().min(5));
    let shown: Vec<_> = shown
        .iter()
        .map(|node| format!("'{}'", node.node))
        .collect();
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if shown.is_empty() {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "could not open '{file}': it has schema {have}, this program makes it {newest}, and nodes of the \
         earlier version run on it ({}{more}); stop every windlass program that uses the file, then \
         start the new version",
        shown.join(", ")
    ))
    .into())
}

/// Refuses a file of a newer version, and one whose tables have names of windlass and are not of it. A file
/// without such tables passes.
pub(super) fn check(conn: &Connection, file: &str) -> Result<(), Stop> {
    version(conn, file, NEWEST).map(|_| ())
}

/// Refuses a file that this program would have to migrate before it can read it.
pub(super) fn is_current(conn: &Connection, file: &str) -> Result<(), Stop> {
    let what = match version(conn, file, NEWEST)?.number {
        NEWEST => return Ok(()),
        0 => "it has no tables of windlass yet".to_owned(),
        older => format!("it has schema {older}, this program reads {NEWEST}"),
    };
    Err(Error::Unusable(format!(
        "could not read '{file}': {what}, and this user cannot write the file; run `windlass doctor --migrate` as a \
         user that can"
    ))
    .into())
}

/// Returns the version of a file with tables of windlass that this program would migrate, and the newest.
pub(super) fn outdated(conn: &Connection, file: &str) -> Result<Option<(usize, usize)>, Stop> {
    let have = version(conn, file, NEWEST)?.number;
    Ok((1..NEWEST).contains(&have).then_some((have, NEWEST)))
}

/// Returns whether the file holds tables, and none of windlass.
pub(super) fn is_foreign(conn: &Connection, file: &str) -> Result<bool, Stop> {
    let version = version(conn, file, NEWEST)?;
    Ok(version.number == 0 && version.has_tables)
}

/// Returns the stored version of an open file.
pub(super) fn stored(conn: &Connection) -> Sql<i64> {
    let mut stored =
        conn.prepare_cached("SELECT value FROM windlass_meta WHERE name = 'schema'")?;
    stored.query_row((), |row| row.get(0))
}

/// The version of a file.
struct Version {
    /// 0 without tables of windlass.
    number: usize,
    /// Whether there are tables, of any program.
    has_tables: bool,
    /// Whether SQLite's header shows it, too: in a file that windlass has created, unless another program has
    /// put its own numbers there.
    is_in_header: bool,
}

fn version(conn: &Connection, file: &str, newest: usize) -> Result<Version, Stop> {
    // One statement, which sees one moment: another process may be creating the file.
    let (id, header, tables, ours, meta): (i32, i32, i64, Option<String>, bool) = conn.query_row(
        "SELECT application_id, user_version, count(name),
                min(name) FILTER (WHERE name LIKE 'windlass\\_%' ESCAPE '\\'),
                ifnull(max(name = 'windlass_meta'), 0)
         FROM pragma_application_id, pragma_user_version LEFT JOIN sqlite_schema",
        (),
        |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get::<_, Option<Text>>(3)?.map(Text::of),
                row.get(4)?,
            ))
        },
    )?;
    let unusable = |text| Err(Error::Unusable(text).into());
    let number = if meta {
        stored(conn).ok()
    } else if let Some(name) = ours {
        return unusable(format!(
            "'{file}' has a table or index '{name}' and no table 'windlass_meta': it is not a store of \
             windlass; rename '{name}', or choose another file"
        ));
    } else if id == APPLICATION_ID {
        Some(i64::from(header))
    } else {
        Some(0)
    };
    let Some(number) = number else {
        return unusable(format!(
            "could not open '{file}': its table 'windlass_meta' has no row 'schema' with a number; restore a \
             backup, or choose another file"
        ));
    };
    match usize::try_from(number) {
        Ok(found) if found <= newest && (meta || found < FIRST) => Ok(Version {
            number: found,
            has_tables: tables > 0,
            is_in_header: match found {
                0 => id == 0 && header == 0 && tables == 0,
                _ => id == APPLICATION_ID && i64::from(header) == number,
            },
        }),
        _ => unusable(format!(
            "'{file}' was written by a newer windlass (schema {number}; this program knows up to \
             {newest}); update this program, or choose another file"
        )),
    }
}

#[cfg(test)]
mod tests;
