//! The steps to the newest version of the schema.

/// The steps from [`FIRST`](super::FIRST) to this version. A released step is never changed: another one is
/// added. It adds tables, columns and indexes whose names begin with `windlass_`.
pub(super) const STEPS: &[&str] = &[WAITS, TERMS, UNIQUE, LIMITS, DEADLINES, WATCHES, TURNS];

/// The tasks that wait for others. A row of `windlass_waits` is one task that task `n` waits for; `windlass_states.waits` is whether
/// a task has such rows.
const WAITS: &str = "
ALTER TABLE windlass_states ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;
CREATE TABLE windlass_waits (
    waited TEXT NOT NULL,     -- the id: the task need not exist
    n      INTEGER NOT NULL,
    PRIMARY KEY (waited, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_waits_of ON windlass_waits (n);
";

/// The rare fields of tasks: limits, deadlines, unique keys.
const TERMS: &str = "
ALTER TABLE windlass_tasks ADD COLUMN terms TEXT;
";

/// The unique keys. A row of a task that is gone counts as none.
const UNIQUE: &str = "
CREATE TABLE windlass_unique (
    key   TEXT PRIMARY KEY,
    n     INTEGER NOT NULL,  -- the task that has it
    until INTEGER NOT NULL   -- when it is free
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_unique_until ON windlass_unique (until);
";

/// The limits of tasks. `windlass_states.limited` is 1 for a task that has some, and 2 while it is claimed without
/// slots.
const LIMITS: &str = "
ALTER TABLE windlass_states ADD COLUMN limited INTEGER NOT NULL DEFAULT 0;
UPDATE windlass_states SET limited = 1 WHERE n IN (SELECT n FROM windlass_tasks WHERE terms IS NOT NULL);
-- The slots of limits, by key: on tasks at once while a claim stands, on starts while they count.
CREATE TABLE windlass_slots (
    key    TEXT NOT NULL,
    starts INTEGER NOT NULL,  -- 1 for a limit on starts
    slot   INTEGER NOT NULL,
    n      INTEGER,           -- the claimed task that holds the slot; NULL for a start
    began  INTEGER,           -- the time of the start
    until  INTEGER,           -- when the start no longer counts
    PRIMARY KEY (key, starts, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_slots_of ON windlass_slots (n) WHERE n IS NOT NULL;
CREATE INDEX windlass_slots_until ON windlass_slots (until) WHERE until IS NOT NULL;
-- The tasks that a full limit holds back: the lines of the limits.
CREATE TABLE windlass_held (
    n        INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    starts   INTEGER NOT NULL,
    most     INTEGER NOT NULL,
    within   INTEGER NOT NULL,  -- nanoseconds; 0 for a limit on tasks at once
    priority INTEGER NOT NULL,
    due      INTEGER,
    report   INTEGER NOT NULL,  -- nodes see it: 0 as not claimable, 1 as it is, 2 as asleep until `since`
    since    INTEGER NOT NULL   -- from when on a node could claim it
) STRICT;
CREATE INDEX windlass_held_silent ON windlass_held (key, starts, most, within, priority DESC, due, n) WHERE report = 0;
CREATE INDEX windlass_held_reported ON windlass_held (key, starts, since) WHERE report > 0;
";

/// The next deadline of each task, in microseconds.
const DEADLINES: &str = "
ALTER TABLE windlass_states ADD COLUMN deadline INTEGER;
";

/// The tasks with long waits. A row of `windlass_watches` is a task of the list that has to be live no more, mostly one for each
/// task `n`; `windlass_states.waits` is 2 then. The list is in its state.
const WATCHES: &str = "
CREATE TABLE windlass_watches (
    waited TEXT NOT NULL,     -- the id; '' when no task of the list is live
    n      INTEGER NOT NULL,
    PRIMARY KEY (waited, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_watches_of ON windlass_watches (n);
";

/// The tasks with several limits whose turn has come while another of them was full.
const TURNS: &str = "
ALTER TABLE windlass_held ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX windlass_held_reserving ON windlass_held (n) WHERE turns >= 3;
DROP INDEX windlass_held_reported;
CREATE INDEX windlass_held_reported ON windlass_held (key, starts, since, report) WHERE report > 0;
CREATE INDEX windlass_held_by_priority ON windlass_held (key, starts, priority) WHERE report > 0;
";
