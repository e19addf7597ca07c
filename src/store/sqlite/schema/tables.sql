-- The tables of windlass. docs/internals/sqlite-schema.md shows them, and tests/documents/docs.rs compares.
--
-- One counter, windlass_changes.seq, numbers every change. A task's n and the order of a command are each the
-- number of the change that made it. A claim's fence is that number plus fence_floor. All of them grow, and none
-- is used twice, since the newest change is never pruned.

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
    props        TEXT NOT NULL,
    terms        TEXT    -- the rare fields: limits, deadlines, unique keys, meta
) STRICT;

-- The kinds that tasks have had, as numbers. A row stays when the last task of the kind is gone.
CREATE TABLE windlass_kinds (
    id   INTEGER PRIMARY KEY,
    kind TEXT NOT NULL UNIQUE
) STRICT;

-- Where each task is: what changes, without the props.
CREATE TABLE windlass_states (
    n           INTEGER PRIMARY KEY,
    kind        INTEGER NOT NULL DEFAULT 0,  -- the number of its kind in windlass_kinds
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
    data_version INTEGER NOT NULL DEFAULT 1, -- of its data: watches report it without reading the state
    waits       INTEGER NOT NULL DEFAULT 0,  -- 1 with rows in windlass_waits, 2 with rows in windlass_watches,
                                             -- -1 while it waits for a signal that its handler has declared
    limited     INTEGER NOT NULL DEFAULT 0,  -- 1 with limits, 2 while it is claimed without slots
    deadline    INTEGER,                     -- its next deadline, in microseconds
    failure     INTEGER NOT NULL DEFAULT -1  -- of a failed task: the fingerprint of its last error
) STRICT;
CREATE INDEX windlass_states_live ON windlass_states (n) WHERE ended_at IS NULL AND quarantine IS NULL;
-- The sleeping tasks that no node has claimed: which of them are due. A submit of a runnable task does not touch it.
CREATE INDEX windlass_states_asleep ON windlass_states (kind, data_version, waits, due)
    WHERE code = 1 AND owner IS NULL AND quarantine IS NULL;
CREATE INDEX windlass_states_owned ON windlass_states (owner) WHERE owner IS NOT NULL;
CREATE INDEX windlass_states_awaiting_signal ON windlass_states (n) WHERE waits = -1;
CREATE INDEX windlass_states_ended ON windlass_states (code, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX windlass_states_failed ON windlass_states (failure, ended_at, n, kind) WHERE failure >= 0;
CREATE INDEX windlass_states_quarantined ON windlass_states (n) WHERE quarantine IS NOT NULL;

-- How many tasks there are of each group. A transaction adds what it changes, in one row for each group.
CREATE TABLE windlass_counts (
    kind         INTEGER NOT NULL,  -- of windlass_kinds
    code         INTEGER NOT NULL,
    data_version INTEGER NOT NULL,
    claimed      INTEGER NOT NULL,  -- 1 with an owner
    waits        INTEGER NOT NULL,  -- 1 while they wait for other tasks, -1 for a signal
    quarantined  INTEGER NOT NULL,  -- 1 with a reason in `quarantine`
    tasks        INTEGER NOT NULL,
    PRIMARY KEY (kind, code, data_version, claimed, waits, quarantined)
) STRICT, WITHOUT ROWID;

-- How many failed tasks there are by the fingerprint of their last error.
CREATE TABLE windlass_failures (
    failure INTEGER NOT NULL,  -- windlass_states.failure
    kind    INTEGER NOT NULL,  -- of windlass_kinds
    tasks   INTEGER NOT NULL,
    PRIMARY KEY (failure, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_commands (
    ord     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    n       INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    by      TEXT,    -- who sent it
    command TEXT NOT NULL,
    outcome TEXT
) STRICT;
CREATE INDEX windlass_commands_of_task ON windlass_commands (n);

-- The lines that handlers log. Only the last part of a task is written again.
CREATE TABLE windlass_log (
    n           INTEGER NOT NULL,  -- the task
    part        INTEGER NOT NULL,  -- its number among the parts of the task
    incarnation INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    lines       TEXT NOT NULL,     -- the part with its lines, as JSON
    PRIMARY KEY (n, part)
) STRICT, WITHOUT ROWID;

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
    command INTEGER NOT NULL,
    by      INTEGER NOT NULL  -- an author; -N for the handler of task N; 0 for none
) STRICT;

-- The authors of changes. `last` is the first change of the author's newest transaction.
CREATE TABLE windlass_authors (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL
) STRICT;

-- The history of the namespace: changes that leave no task.
CREATE TABLE windlass_audit (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    by   TEXT,           -- who did it
    what TEXT NOT NULL   -- what was done, as JSON
) STRICT;

-- Texts that programs keep beside the tasks, such as the tokens of a server.
CREATE TABLE windlass_values (
    name    TEXT PRIMARY KEY,
    value   TEXT NOT NULL,
    version INTEGER NOT NULL  -- another one after each write
) STRICT, WITHOUT ROWID;

-- The names of deleted tasks, kept while the history has their changes.
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

-- Facts about the file: `version` is that of these tables, `store_id` identifies the file whatever its
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
    fingerprint TEXT NOT NULL  -- of its operations and guards
) STRICT;
CREATE INDEX windlass_transactions_at ON windlass_transactions (at);

-- Operations that other programs insert with SQL. The writer takes them in the order of `seq`, and deletes
-- those that it has applied.
CREATE TABLE windlass_inbox (
    -- A greatest number would leave none for the rows behind it.
    seq            INTEGER PRIMARY KEY AUTOINCREMENT CHECK (seq BETWEEN 1 AND 4611686018427387904),
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

-- The tasks that wait for others: a row is one task that task `n` waits for.
CREATE TABLE windlass_waits (
    waited TEXT NOT NULL,     -- the id: the task need not exist
    n      INTEGER NOT NULL,
    PRIMARY KEY (waited, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_waits_of ON windlass_waits (n);

-- The tasks with long waits: a row is one live task of the list that task `n` waits for.
CREATE TABLE windlass_watches (
    waited TEXT NOT NULL,     -- the id; '' when no task of the list is live
    n      INTEGER NOT NULL,
    PRIMARY KEY (waited, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_watches_of ON windlass_watches (n);

-- The unique keys. A row of a task that is gone counts as none.
CREATE TABLE windlass_unique (
    key   TEXT PRIMARY KEY,
    n     INTEGER NOT NULL,  -- the task that has it
    until INTEGER NOT NULL   -- when it is free
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_unique_until ON windlass_unique (until);

-- The slots of limits, by key: on tasks at once while a claim stands, on starts while they count.
CREATE TABLE windlass_slots (
    key    TEXT NOT NULL,
    within INTEGER NOT NULL,  -- the period of a limit on starts, in milliseconds; 0 for a limit on tasks at once
    slot   INTEGER NOT NULL,
    n      INTEGER,           -- the claimed task that holds the slot; NULL for a start
    began  INTEGER,           -- the time of the start
    until  INTEGER,           -- when the start no longer counts
    PRIMARY KEY (key, within, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_slots_of ON windlass_slots (n) WHERE n IS NOT NULL;
CREATE INDEX windlass_slots_until ON windlass_slots (until) WHERE until IS NOT NULL;
-- The tasks that a full limit holds back: the lines of the limits.
CREATE TABLE windlass_held (
    n        INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    within   INTEGER NOT NULL,  -- as in windlass_slots
    most     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due      INTEGER,
    report   INTEGER NOT NULL,  -- nodes see it: 0 as not claimable, 1 as it is, 2 as asleep until `since`
    since    INTEGER NOT NULL,  -- from when on a node could claim it
    turns    INTEGER NOT NULL DEFAULT 0  -- how often its turn came while another of its limits was full
) STRICT;
CREATE INDEX windlass_held_silent ON windlass_held (key, within, most, priority DESC, due, n) WHERE report = 0;
CREATE INDEX windlass_held_reported ON windlass_held (key, within, since, report) WHERE report > 0;
CREATE INDEX windlass_held_by_priority ON windlass_held (key, within, priority) WHERE report > 0;
CREATE INDEX windlass_held_reserving ON windlass_held (n) WHERE turns >= 3;
