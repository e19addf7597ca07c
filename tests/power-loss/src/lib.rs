//! What a power loss leaves of a SQLite store, at any moment of a workload.
//!
//! 1. A workload process runs under a recorder, a C library that is loaded with `LD_PRELOAD`. The
//!    recorder writes down each change and each sync of the files of one folder, in order.
//! 2. The workload writes each acknowledgement to a file in that folder, so that the trace dates it.
//! 3. The test replays the trace up to a moment, drops or tears what was not synced by then, opens
//!    what is left, and checks it with the invariants of the crash test (`windlass-robustness`).
//!
//! | module | what |
//! |---|---|
//! | [`site`] | where the files of a recorded folder are |
//! | [`workload`] | what the recorded process does |
//! | [`promises`] | what was acknowledged to the workload |
//! | [`recording`] | runs a workload under `recorder.c` |
//! | [`trace`] | reads what was recorded |
//! | [`disk`] | replays a trace |
//! | [`loss`] | what happens to changes that were not synced |
//! | [`outage`] | chooses the moments, and checks what is left at each |
//! | [`check`] | what must hold then |
//!
//! `tests/power_loss.rs` has the tests.

pub mod check;
pub mod disk;
pub mod loss;
pub mod outage;
pub mod promises;
pub mod recording;
pub mod site;
pub mod trace;
pub mod workload;

pub use windlass_robustness::BoxError;
