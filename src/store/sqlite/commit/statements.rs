//! The statements that write a transition.

// There is one statement for each set of indexed columns that change: SQLite does not read an index
// whose column keeps its value.
pub(super) const ENDS: &str =
    "UPDATE windlass_states SET code = ?2, due = NULL, last = ?3, pending = 0, version = ?4,
    state = ?5, lost_by = NULL, owner = NULL, ended_at = ?6, failure = ?7 WHERE n = ?1";
pub(super) const RELEASES: &str =
    "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, pending = ?5, version = ?6,
    state = ?7, data_version = ?8, deadline = ?9, lost_by = NULL, owner = NULL WHERE n = ?1";
pub(super) const KEEPS: &str =
    "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, pending = ?5, version = ?6,
    state = ?7, data_version = ?8, deadline = ?9, lost_by = NULL WHERE n = ?1";

// The same, for a task whose newest change and group are known, without reading the row first. `pending` stays as
// it is.
pub(super) const ENDS_AT_ONCE: &str =
    "UPDATE windlass_states SET code = ?2, due = NULL, last = ?3, pending = 0, version = ?4,
    state = ?5, lost_by = NULL, owner = NULL, ended_at = ?6, failure = ?15
    WHERE n = ?1 AND fence = ?7 AND owner = ?8 AND last = ?9 AND pending = 0 AND waits = 0
    AND limited = 0 AND version = ?11 AND size <= ?10 AND kind = ?12 AND code = ?13 AND data_version = ?14";
pub(super) const RELEASES_AT_ONCE: &str =
    "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, version = ?5,
    state = ?6, data_version = ?7, deadline = ?8, lost_by = NULL, owner = NULL
    WHERE n = ?1 AND fence = ?9 AND owner = ?10 AND last = ?11 AND waits = 0
    AND limited = 0 AND version = ?13 AND size <= ?12 AND kind = ?14 AND code = ?15 AND data_version = ?16";
pub(super) const KEEPS_AT_ONCE: &str =
    "UPDATE windlass_states SET code = ?2, due = ?3, last = ?4, version = ?5,
    state = ?6, data_version = ?7, deadline = ?8, lost_by = NULL
    WHERE n = ?1 AND fence = ?9 AND owner = ?10 AND last = ?11 AND waits = 0
    AND version = ?13 AND size <= ?12 AND kind = ?14 AND code = ?15 AND data_version = ?16";
