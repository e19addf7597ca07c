//! Helpers for tests. `docs/learn/testing.md` shows them on one handler.
//!
//! | item | feature | purpose |
//! |---|---|---|
//! | [`run`], [`Call`] | `testing` | one run of a handler, without a store |
//! | [`Simulation`] | `testing` | handlers in virtual time: a year of hourly wakes takes about a second |
//! | [`crash_everywhere`] | `testing` | losing the node at every write of a task |
//! | [`History`] | `testing` | assertions on the history of a task |
//! | [`FaultyStore`] | `testing` | a store that fails on demand |
//! | [`ManualClock`], [`TokioClock`] | `conformance` | moving the time |
//! | [`conformance`] | `conformance` | testing your own store against the duties of the traits |

#[cfg(feature = "testing")]
mod abort;
#[cfg(feature = "testing")]
mod call;
mod clock;
pub mod conformance;
#[cfg(feature = "testing")]
mod crash;
#[cfg(feature = "testing")]
mod faulty;
#[cfg(feature = "testing")]
mod history;
#[cfg(feature = "testing")]
mod ran;
#[cfg(feature = "testing")]
pub mod simulation;

#[cfg(feature = "testing")]
pub use call::{Call, run};
pub use clock::{ManualClock, TokioClock};
#[cfg(feature = "testing")]
pub use crash::{CrashError, Crashes, crash_everywhere};
#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyStore, Operation};
#[cfg(feature = "testing")]
pub use history::History;
#[cfg(feature = "testing")]
pub use ran::Ran;
#[cfg(feature = "testing")]
pub use simulation::{CrashPoint, Simulation};

/// The time at which simulations and calls start: 2030-01-01T00:00:00Z.
#[cfg(feature = "testing")]
const START: jiff::Timestamp = jiff::Timestamp::constant(1_893_456_000, 0);

/// Makes this thread repeatable, or ends that: new ids are drawn from the generator of `fastrand`, which the caller seeds, and
/// no work goes to other threads.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub fn set_repeatable(is_repeatable: bool) {
    crate::unique_id::seeded::set(is_repeatable);
}
