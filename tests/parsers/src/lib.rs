//! What holds for every input of each parser that reads text or bytes from outside.
//!
//! Each module has one function, `check`, for one kind of input. It panics when an input breaks a property, and returns
//! whether the parser has accepted the input. Three programs call it: the fuzz target of the same name
//! (`fuzz/fuzz_targets`), its bounded twin (`tests/twins.rs`), and the test that reads the corpus.
//!
//! The properties of all modules: nothing panics; a parsed value that is written again parses to the same value; an error
//! names a field or a line, and says what is wrong; one input takes at most [`MOST_WORK`] of a processor.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a check fails by panicking"
)]

pub mod cursors;
pub mod exports;
pub mod lines;
pub mod pointers;
pub mod protocol;
pub mod requests;
pub mod schedules;
pub mod stored;
pub mod times;
pub mod urls;

use std::time::Duration;

use windlass::Invalid;

/// The most time of a processor that one input may take, in a debug build. It is far above what the slowest input of the
/// corpus takes, and far below what a search without a bound takes.
pub const MOST_WORK: Duration = Duration::from_secs(5);

/// The name of a fuzz target, and its check.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// Every fuzz target.
pub const TARGETS: [Target; 10] = [
    ("cursors", cursors::check),
    ("exports", exports::check),
    ("lines", lines::check),
    ("pointers", pointers::check),
    ("protocol", protocol::check),
    ("requests", requests::check),
    ("schedules", schedules::check),
    ("stored", stored::check),
    ("times", times::check),
    ("urls", urls::check),
];

/// Checks that an error names a field and says what is wrong.
fn names_a_field(refused: &Invalid) {
    assert!(!refused.field().is_empty(), "no field: {refused:?}");
    assert!(!refused.reason().is_empty(), "no reason: {refused:?}");
}

/// Returns a runtime whose clock goes on only while nothing else is left to do.
fn in_virtual_time() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build().expect("a runtime")
}

/// Runs a check, and fails if it takes more than [`MOST_WORK`] of the processor.
///
/// # Panics
///
/// If the check takes longer.
pub fn within_bounds<T>(check: impl FnOnce() -> T) -> T {
    let begun = processor_time();
    let checked = check();
    let took = processor_time().saturating_sub(begun);
    assert!(took <= MOST_WORK, "took {took:?} of the processor");
    checked
}

/// Returns how long this thread has run.
fn processor_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    Duration::from(nix::time::clock_gettime(clock).expect("a clock of this thread"))
}
