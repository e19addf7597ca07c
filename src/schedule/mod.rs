//! Schedules: tasks that submit runs at times.
//!
//! A schedule is a task of the kind `schedule`, for which every node has a handler. The handler sleeps until
//! the next time, then submits the run and moves on to the following time in one write. So a time is never
//! lost and never fires twice, whichever node runs the schedule. Pause, kill, history and leases work as for
//! every task.
//!
//! The semantics are in `docs/reference/schedules.md`.

mod boot;
mod budget;
#[cfg(test)]
mod budget_tests;
pub(crate) mod check;
mod clause;
mod clock_set_back;
mod cron;
mod cursor;
mod data;
mod deadlines;
mod due;
mod excluded;
mod handler;
mod hash;
mod interval;
mod left_out;
mod missed;
mod operations;
mod overlap;
mod passed;
mod run;
mod seconds;
mod span;
mod spec;
mod step;
mod tally;
mod template;
mod times;
mod work;
mod zone;

pub(crate) use boot::report as report_boot;
pub(crate) use clock_set_back::watch as watch_clock;
pub use data::{Counts, RefusedTime};
pub use handler::KIND;
pub(crate) use handler::Scheduler;
pub use left_out::{LeftOut, Why};
pub use missed::Missed;
pub use operations::{Backfill, Held, LastRun, LiveRuns, ScheduleRecord, Schedules, Trigger};
pub use overlap::Overlap;
pub use run::{By, LABEL, ScheduledFor};
pub use spec::Schedule;
pub use times::Time;
pub use zone::{Fold, Gap, zone_data};

use windlass_statemachine::{Invalid, Kind};

/// Returns the kind of schedules.
fn kind() -> Result<Kind, Invalid> {
    Kind::new(KIND)
}
