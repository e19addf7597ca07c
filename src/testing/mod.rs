//! Helpers for tests.
//!
//! | what | feature | for |
//! |---|---|---|
//! | [`conformance`] | `conformance` | holding a store of your own to the duties of the traits |
//! | [`ManualClock`], [`TokioClock`] | `testing` | moving the time |
//! | [`FaultyStore`] | `testing` | a store that fails when it is told to |

#[cfg(feature = "testing")]
mod clock;
pub mod conformance;
#[cfg(feature = "testing")]
mod faulty;

#[cfg(feature = "testing")]
pub use clock::{ManualClock, TokioClock};
#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyStore, Operation};
