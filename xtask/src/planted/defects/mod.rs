//! Old defects: rows of docs/internals/track-record.md for which the present code still has a place. Each edit brings one back, as
//! faithfully as a change of an expression can. Where the old code broke a rule in a place that the simulation does not run (a remote
//! worker, SQLite, a split store), the edit breaks the same rule where nodes and etcd have it.
//!
//! A new one needs a row, an expression whose replacement has the same type, and what is expected of the simulation. A test checks
//! that each expression and each row exists, so the list cannot rot.

mod machine;
mod runner;
mod store;
mod watch;
mod writes;

use super::Edit;

/// An old defect.
pub(super) struct Defect {
    pub(super) name: &'static str,
    /// Words that only its row of the track record has.
    pub(super) row: &'static str,
    pub(super) edits: &'static [Edit],
    pub(super) expected: Expected,
}

/// Whether the simulation finds a defect.
pub(super) enum Expected {
    /// It has to.
    Found,
    /// It does not, because it lacks this.
    Lacks(&'static str),
}

/// All of them.
pub(super) static DEFECTS: [&[Defect]; 5] = [
    machine::DEFECTS,
    runner::DEFECTS,
    store::DEFECTS,
    writes::DEFECTS,
    watch::DEFECTS,
];

/// Returns a defect that the simulation has to find.
const fn found(name: &'static str, row: &'static str, edits: &'static [Edit]) -> Defect {
    let expected = Expected::Found;
    Defect {
        name,
        row,
        edits,
        expected,
    }
}

/// Returns a defect that the simulation does not find, because it lacks something.
const fn lacks(
    name: &'static str,
    row: &'static str,
    edits: &'static [Edit],
    what: &'static str,
) -> Defect {
    let expected = Expected::Lacks(what);
    Defect {
        name,
        row,
        edits,
        expected,
    }
}
