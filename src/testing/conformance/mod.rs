//! The conformance suite: tests of the duties of a store, for your own stores too.
//!
//! Implement [`Harness`] (or [`StateHarness`] for a [`StateStore`]), which creates stores, and call
//! [`conformance_tests!`](crate::conformance_tests) (or
//! [`state_store_conformance_tests!`](crate::state_store_conformance_tests)) in an integration test.
//! Each case becomes a separate test with the name of its topic and case:
//! `mine::fences::fences_only_grow`.
//!
//! A store may lack a [`Capability`] (it cannot be reopened, say). Declare it with the reason, as in
//! the example. The cases that need it then become ignored tests, and `cargo test` prints the reason
//! of each. Without the declaration these cases fail.
//!
//! # Example
//!
//! ```
//! use windlass::{async_trait, store::Store, testing::conformance::Harness};
//!
//! struct Memory;
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     async fn store(&self) -> Store {
//!         Store::open("memory:").await.unwrap()
//!     }
//! }
//!
//! // One #[tokio::test] per case; in a real test outside of any function.
//! windlass::conformance_tests!(memory, Memory, cannot {
//!     Reopen: "the data end with the process",
//!     Clock: "the harness opens the store on the system's clock",
//!     CorruptState: "the harness does not reach into the store",
//!     RepairState: "the harness does not reach into the store",
//!     CorruptEnvelope: "the store keeps no envelope as text",
//!     CorruptLog: "the store keeps no log as text",
//!     Examine: "the store has nothing to examine",
//! });
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! // A case can also be run alone.
//! windlass::testing::conformance::submit::a_live_id_is_refused(&Memory).await;
//! # }
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a case of the suite fails by panicking"
)]

pub mod authors;
pub mod awaited_signals;
mod capability;
pub mod changes;
pub mod claims;
pub mod commands;
pub mod commits;
pub mod copies;
pub mod counts;
pub mod data_versions;
pub mod deadlines;
pub mod debounce;
mod declared;
pub mod durability;
pub mod effects;
pub mod effects_on_tasks;
pub mod ends;
pub mod examine;
mod expand;
pub mod failures;
pub mod fences;
pub mod guards;
mod kit;
mod kit_transactions;
pub mod leases;
pub mod limits;
pub mod limits_of_props;
pub mod line_clocks;
pub mod lines;
mod list;
mod list_clients;
mod list_data;
mod list_nodes;
mod list_states;
pub mod logs;
pub mod long_waits;
pub mod moments;
pub mod moving;
pub mod notes;
pub mod pages;
pub mod places;
pub mod quarantine;
pub mod registry;
pub mod replacing;
pub mod rescheduling;
pub mod reservations;
pub mod signals;
pub mod spared;
pub mod standings;
pub mod states;
mod strangers;
pub mod submit;
pub mod transactions;
pub mod unique;
pub mod usage;
pub mod values;
mod wait;
pub mod waits;
pub mod watch;
pub mod watch_ends;
pub mod worker_claims;
pub mod workers;

pub use capability::Capability;
#[doc(hidden)]
pub use declared::{assert_declared, assert_states_declared};

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use windlass_statemachine::TaskId;

use crate::{
    clock::Clock,
    store::{StateStore, Store},
};

/// Creates the stores that the suite tests.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Returns an empty namespace that uses the system's clock, or one that runs like it.
    async fn store(&self) -> Store;

    /// Returns an empty namespace that uses `clock`; `None` if the clock of the store cannot be
    /// replaced.
    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        drop(clock);
        None
    }

    /// Closes the store and opens the same data again, as another process would; `None` if the data
    /// ends with the store.
    async fn reopen(&self, store: Store) -> Option<Store> {
        drop(store);
        None
    }

    /// Replaces the stored state of a task with bytes that are not a state. Returns `false` if the
    /// harness cannot do this.
    async fn corrupt_state(&self, store: &Store, task: &TaskId) -> bool {
        let _ = (store, task);
        false
    }

    /// Restores the state that [`corrupt_state`](Self::corrupt_state) replaced last. Returns `false` if
    /// the harness cannot do this.
    async fn repair_state(&self, store: &Store, task: &TaskId) -> bool {
        let _ = (store, task);
        false
    }

    /// Replaces the stored envelope of a task (the task as it was submitted) with bytes that are
    /// not an envelope. Returns `false` if the harness cannot do this.
    async fn corrupt_envelope(&self, store: &Store, task: &TaskId) -> bool {
        let _ = (store, task);
        false
    }

    /// Replaces the first stored part of the log of a task with bytes that are not a part of a log. Returns `false` if
    /// the harness cannot do this.
    async fn corrupt_log(&self, store: &Store, task: &TaskId) -> bool {
        let _ = (store, task);
        false
    }

    /// Returns the lease time of a node that a case is about to lose: 300 ms by default. A case
    /// makes a few calls with the lease, then waits for its end.
    ///
    /// A store with a longer minimum returns that minimum. A store that does not use paused time
    /// returns a time that is long enough for a busy machine.
    fn short_lease(&self) -> Duration {
        Duration::from_millis(300)
    }

    /// Returns whether a commit applies effects. A store that does not apply effects must refuse
    /// them: [`effects_are_taken_or_refused`](effects::effects_are_taken_or_refused) checks that.
    fn takes_effects(&self) -> bool {
        true
    }
}

/// Creates the state stores that the suite tests.
#[async_trait]
pub trait StateHarness: Send + Sync {
    /// Returns an empty state store.
    async fn states(&self) -> Arc<dyn StateStore>;

    /// Closes the store and opens the same data again; `None` if the data ends with the store.
    async fn reopen(&self, states: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
        drop(states);
        None
    }

    /// Replaces the stored state of a task with bytes that are not a state. Returns `false` if the
    /// harness cannot do this.
    async fn corrupt(&self, states: &Arc<dyn StateStore>, task: &TaskId) -> bool {
        let _ = (states, task);
        false
    }
}
