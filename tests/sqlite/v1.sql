-- A store as version 1 of the schema has it.
PRAGMA journal_mode = WAL;
PRAGMA application_id = 0x57646c73;
PRAGMA user_version = 1;
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
    owner       INTEGER,                     -- the lease that its claim hangs on
    fence       INTEGER NOT NULL,            -- of its last claim
    last        INTEGER NOT NULL,            -- its newest change; they form a chain
    pending     INTEGER NOT NULL DEFAULT 0,  -- how many commands wait
    size        INTEGER NOT NULL,            -- bytes of the props, which count against the limit
    version     INTEGER NOT NULL,            -- of the state: tells a write from the same write again
    lost_by     TEXT,                        -- the node that lost the claim before; until somebody writes
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

INSERT INTO tasks (n, id, kind, priority, submitted_at, labels, start_at, retry, props) VALUES
    (1, 'first', 'k', 0, 1750000000000000, NULL, NULL, NULL, 'null'),
    (2, 'second', 'k', 5, 1750000000000001, '{"team":"a"}', '2100-01-01T00:00:00Z', '{"policy":"never"}', '{"n":9007199254740993}'),
    (3, 'third', 'l', 0, 1750000000000002, NULL, NULL, NULL, '[1]');
INSERT INTO states (n, code, due, owner, fence, last, pending, size, version, ended_at, state) VALUES
    (1, 4, NULL, NULL, 4, 5, 0, 4, 2, 1750000001000000, '{"state":"completed","since":"2025-06-15T15:06:41Z","claims":1,"version":2,"fence":4}'),
    (2, 1, 4102444800000000, NULL, 0, 6, 1, 24, 0, NULL, '{"state":"sleeping","until":"2100-01-01T00:00:00Z","since":"2025-06-15T15:06:40.000001Z"}'),
    (3, 0, 1750000000000002, NULL, 0, 3, 0, 3, 0, NULL, '{"state":"runnable","since":"2025-06-15T15:06:40.000002Z"}');
INSERT INTO commands (ord, id, n, sent_at, command) VALUES (6, 'c', 2, 1750000002000000, '{"message":"run"}');
INSERT INTO leases (node, spec, status, ttl, boot, expires, joined_at, ended_at) VALUES
    ('old', '{"name":"old","kinds":null,"slots":1,"pid":1,"version":"0"}', '{"frozen":false,"draining":false,"running":0}', 15000, 'b', 1, 1750000000000000, 1750000001000001);
INSERT INTO changes (seq, n, prev, at, what, detail, fence, command) VALUES
    (1, 1, 0, 1750000000000000, 1, 0, 0, 0),
    (2, 2, 0, 1750000000000001, 1, 1, 0, 0),
    (3, 3, 0, 1750000000000002, 1, 0, 0, 0),
    (4, 1, 1, 1750000000500000, 2, 2, 4, 0),
    (5, 1, 4, 1750000001000000, 3, 1540, 4, 0),
    (6, 2, 2, 1750000002000000, 7, 0, 0, 6);
