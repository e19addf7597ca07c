//! The tables, and the migration of files of earlier versions.

use rusqlite::{Connection, TransactionBehavior};

use super::errors::Stop;
use crate::store::Error;

/// Marks a file as one of windlass in SQLite's own header (`file` and other tools show it): "Wdls".
pub(super) const APPLICATION_ID: i32 = 0x5764_6c73;

/// The steps from an empty file to this version. The version of a file is the number of its steps. A
/// released step is never changed: another one is added.
pub(super) const MIGRATIONS: &[&str] = &[
    TABLES,
    STATES_ALONE,
    PROCESSES,
    META,
    DATA_VERSIONS,
    TRANSACTIONS,
];

/// One counter, `changes.seq`, numbers every change. A task's `n` and the order of a command are each
/// the number of the change that made it. A claim's fence is that number plus `fence_floor`. All of
/// them grow, and none is used twice, since the newest change is never pruned.
const TABLES: &str = "
-- What was submitted; never changed. `n` is the submit order.
CREATE TABLE tasks (
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
CREATE TABLE states (
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
    state       TEXT NOT NULL                -- the State as JSON
) STRICT;
CREATE INDEX states_live ON states (n) WHERE ended_at IS NULL AND quarantine IS NULL;
CREATE INDEX states_owned ON states (owner) WHERE owner IS NOT NULL;
CREATE INDEX states_ended ON states (code, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX states_set_aside ON states (n) WHERE quarantine IS NOT NULL;

CREATE TABLE commands (
    ord     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    n       INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    command TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX commands_of_task ON commands (n);

-- The nodes' leases. An ended one stays for its node's name, as long as the history does.
CREATE TABLE leases (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    node      TEXT NOT NULL,
    spec      TEXT NOT NULL,
    status    TEXT NOT NULL,
    ttl       INTEGER NOT NULL,  -- milliseconds
    boot      TEXT NOT NULL,     -- which start of the machine `expires` counts from
    expires   INTEGER NOT NULL,  -- milliseconds of the monotonic clock
    joined_at INTEGER NOT NULL,
    ended_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX leases_live ON leases (node) WHERE ended_at IS NULL;

CREATE TABLE node_commands (
    ord     INTEGER PRIMARY KEY,
    lease   INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    command TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX node_commands_of_lease ON node_commands (lease);

-- History, what watches resume from, and the clients' feed, in one.
CREATE TABLE changes (
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
CREATE TABLE gone (
    n   INTEGER PRIMARY KEY,
    id  TEXT NOT NULL,
    seq INTEGER NOT NULL   -- the change that deleted it
) STRICT;
CREATE INDEX gone_since ON gone (seq);
";

/// The states of `SqliteStates`.
const STATES_ALONE: &str = "
CREATE TABLE states_alone (
    task        TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The processes that hold a lease. It ends when they have certainly ended.
const PROCESSES: &str = "
ALTER TABLE leases ADD COLUMN process TEXT;
";

/// Facts about the file: `store_id` identifies it whatever its path is, and every fence is greater than
/// `fence_floor`, which imports raise.
const META: &str = "
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('store_id', lower(hex(randomblob(16)))), ('fence_floor', 0);
";

/// The version of a task's data, beside the state: nodes need it of every task. In an older file every kind
/// has version 1.
const DATA_VERSIONS: &str = "
ALTER TABLE states ADD COLUMN data_version INTEGER NOT NULL DEFAULT 1;
";

/// The results of applied transactions, for those who repeat one.
const TRANSACTIONS: &str = "
CREATE TABLE transactions (
    id     TEXT PRIMARY KEY,
    at     INTEGER NOT NULL,
    answer TEXT NOT NULL
) STRICT;
CREATE INDEX transactions_at ON transactions (at);
";

/// Migrates the file to the newest version in one transaction: it has the old version or the new one,
/// never one between. `file` is its name in errors.
pub(super) fn migrate(conn: &mut Connection, file: &str, steps: &[&str]) -> Result<(), Stop> {
    if version(conn, file, steps.len())? == steps.len() {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    // Another process may have migrated it meanwhile.
    let have = version(&tx, file, steps.len())?;
    for step in steps.iter().skip(have) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", steps.len() as i32)?;
    tx.commit()?;
    Ok(())
}

/// Refuses a file of another program, or of a newer version. An empty file passes.
pub(super) fn check(conn: &Connection, file: &str) -> Result<(), Stop> {
    version(conn, file, MIGRATIONS.len()).map(|_| ())
}

/// Refuses a file that this program would have to migrate before it can read it.
pub(super) fn is_current(conn: &Connection, file: &str) -> Result<(), Stop> {
    let newest = MIGRATIONS.len();
    match version(conn, file, newest)? {
        version if version == newest => Ok(()),
        version => Err(Error::Unusable(format!(
            "could not read '{file}': it has schema {version}, this program reads {newest}, and this \
             user cannot write the file; open it once as a user that can (windlass list)"
        ))
        .into()),
    }
}

/// Returns the version of a file; 0 for an empty one.
fn version(conn: &Connection, file: &str, newest: usize) -> Result<usize, Stop> {
    // One statement, which sees one moment: another process may be creating the file.
    let (id, version, tables): (i32, i32, i64) = conn.query_row(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id, pragma_user_version",
        (),
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let unusable = |text| Err(Error::Unusable(text).into());
    if id == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    if id != APPLICATION_ID {
        return unusable(format!(
            "'{file}' is a SQLite database of another program (its application id is {id:#x}, \
             windlass has {APPLICATION_ID:#x}); choose another file"
        ));
    }
    match usize::try_from(version) {
        Ok(version) if version <= newest => Ok(version),
        _ => unusable(format!(
            "'{file}' was written by a newer windlass (schema {version}; this program knows up to \
             {newest}); update this program, or choose another file"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(result: Result<(), Stop>) -> String {
        match result {
            Err(Stop::Refused(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, "f", &["CREATE TABLE a (x)"]).unwrap();
        let broken = ["CREATE TABLE a (x)", "CREATE TABLE b (x); nonsense"];
        assert!(matches!(
            migrate(&mut conn, "f", &broken),
            Err(Stop::Sql(_))
        ));
        migrate(&mut conn, "f", &["CREATE TABLE a (x)"]).unwrap();
        let steps = ["CREATE TABLE a (x)", "CREATE TABLE b (x)"];
        migrate(&mut conn, "f", &steps).unwrap();
        conn.execute("INSERT INTO b VALUES (1)", []).unwrap();
    }

    #[test]
    fn a_newer_file_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, "f", MIGRATIONS).unwrap();
        let text = reported(migrate(&mut conn, "f", &MIGRATIONS[..1]));
        assert!(text.contains("newer windlass (schema 6; this program knows up to 1)"));
    }

    #[test]
    fn another_programs_database_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute("CREATE TABLE theirs (x)", []).unwrap();
        let text = reported(migrate(&mut conn, "f", MIGRATIONS));
        assert!(text.contains("of another program"), "{text}");
    }
}
