//! The steps by which files of earlier versions come to version 7, the first whose tables carry the
//! prefix `windlass_`. They are never changed.

/// The steps from an empty file to version 6.
pub(super) const STEPS: [&str; 6] = [
    TABLES,
    STATES_ALONE,
    PROCESSES,
    META,
    DATA_VERSIONS,
    TRANSACTIONS,
];

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

const STATES_ALONE: &str = "
CREATE TABLE states_alone (
    task        TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

const PROCESSES: &str = "
ALTER TABLE leases ADD COLUMN process TEXT;
";

const META: &str = "
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('store_id', lower(hex(randomblob(16)))), ('fence_floor', 0);
";

const DATA_VERSIONS: &str = "
ALTER TABLE states ADD COLUMN data_version INTEGER NOT NULL DEFAULT 1;
";

const TRANSACTIONS: &str = "
CREATE TABLE transactions (
    id     TEXT PRIMARY KEY,
    at     INTEGER NOT NULL,
    answer TEXT NOT NULL
) STRICT;
CREATE INDEX transactions_at ON transactions (at);
";

/// The step from version 6: the names of the tables and indexes get the prefix. The inbox, which version 7
/// adds too, is in `schema`.
pub(super) const PREFIX: &str = "
ALTER TABLE tasks RENAME TO windlass_tasks;
ALTER TABLE states RENAME TO windlass_states;
ALTER TABLE commands RENAME TO windlass_commands;
ALTER TABLE leases RENAME TO windlass_leases;
ALTER TABLE node_commands RENAME TO windlass_node_commands;
ALTER TABLE changes RENAME TO windlass_changes;
ALTER TABLE gone RENAME TO windlass_gone;
ALTER TABLE transactions RENAME TO windlass_transactions;
ALTER TABLE states_alone RENAME TO windlass_states_alone;
ALTER TABLE meta RENAME TO windlass_meta;
DROP INDEX states_live;
DROP INDEX states_owned;
DROP INDEX states_ended;
DROP INDEX states_set_aside;
DROP INDEX commands_of_task;
DROP INDEX leases_live;
DROP INDEX node_commands_of_lease;
DROP INDEX gone_since;
DROP INDEX transactions_at;
CREATE INDEX windlass_states_live ON windlass_states (n) WHERE ended_at IS NULL AND quarantine IS NULL;
CREATE INDEX windlass_states_owned ON windlass_states (owner) WHERE owner IS NOT NULL;
CREATE INDEX windlass_states_ended ON windlass_states (code, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX windlass_states_set_aside ON windlass_states (n) WHERE quarantine IS NOT NULL;
CREATE INDEX windlass_commands_of_task ON windlass_commands (n);
CREATE UNIQUE INDEX windlass_leases_live ON windlass_leases (node) WHERE ended_at IS NULL;
CREATE INDEX windlass_node_commands_of_lease ON windlass_node_commands (lease);
CREATE INDEX windlass_gone_since ON windlass_gone (seq);
CREATE INDEX windlass_transactions_at ON windlass_transactions (at);
ALTER TABLE windlass_transactions ADD COLUMN fingerprint TEXT;
";
