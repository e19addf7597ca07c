//! Helpers for tests.
//!
//! | what | feature | for |
//! |---|---|---|
//! | [`conformance`] | `conformance` | holding a store of your own to the duties of the traits |
//! | [`ManualClock`], [`TokioClock`] | `conformance` | moving the time |
//! | [`FaultyStore`] | `testing` | a store that fails when it is told to |

mod clock;
pub mod conformance;
#[cfg(feature = "testing")]
mod faulty;

pub use clock::{ManualClock, TokioClock};
#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyStore, Operation};
