//! Stores: the traits and their duties, and the backends.
//!
//! | trait | user | purpose |
//! |---|---|---|
//! | [`Coordinator`] | the runner | leases, claims, the watch, commits |
//! | [`Registry`] | the client | submit, list, command, delete, history |
//! | [`Transfer`], [`Doctor`] | operators, through the client's store | copy whole tasks; examine the store. A store may lack them |
//! | [`StateStore`] | the runner, if you provide your own | only states, next to a coordinator |
//!
//! A backend implements the first two on one set of data, and passes the conformance suite (feature
//! `conformance`). Backends depend on these traits and never on each other.

pub(crate) mod changes;
mod coordinator;
pub mod copy;
mod doctor;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod examine;
pub(crate) mod export;
#[cfg(any(feature = "etcd", feature = "sqlite-system"))]
mod last_write;
pub mod memory;
pub(crate) mod model;
mod moment;
mod registry;
mod remedy;
mod retention;
pub(crate) mod rules;
mod split;
#[cfg(feature = "sqlite-system")]
pub mod sqlite;
mod state_store;
mod transfer;
mod url;

use std::sync::Arc;

pub use coordinator::{Coordinator, EventStream};
pub use doctor::Doctor;
pub use error::{Cause, Error};
pub use export::Exported;
pub use model::{
    AUDIT_RETENTION, Applied, AuditAction, AuditEntry, Availability, Change, ChangeKind, Claim,
    Claimed, CommandRecord, Commit, Cursor, DamagedPart, DataVersions, Done, Event, Expected,
    FailedGroup, FailedTasks, Filter, HeldGroup, Lease, LimitForm, LimitUse, LimitedBy, Limits,
    LogCursor, LogLine, LogPage, LogPart, LogQuery, LogWrite, Logged, NamedValue, NewWorker,
    NodeCommand, NodeCommandId, NodeFault, NodeRecord, NodeSpec, NodeStatus, Order, Page, Part,
    PartLine, Place, Purge, Query, QueuedNodeCommand, Reason, Refusal, Refusals, RefusedRows,
    RemoteHandler, RemoteWorker, SetValue, Shown, Span, Speaker, Standing, StateWord, StoredLog,
    Submitted, TaskCount, TaskGroup, TaskPage, TaskRecord, TaskStats, TaskView, TimeRange,
    Transaction, WaitKind, WorkerRecord, read_line, read_line_at,
};
pub use moment::{Moment, PastTasks};
pub use registry::{ChangeStream, Registry};
pub use remedy::{Advice, Remedy};
pub use split::Split;
pub use state_store::{StateRemoval, StateStore, StateWrite};
pub use transfer::Transfer;
pub use url::{for_other_processes, has_password, without_password};
pub use windlass_statemachine::{
    message::SendCommand,
    operation::{Delete, Guard, IfExists, Operation, Require, Reschedule, RetryTask, Submit},
    wire::Line,
};

use crate::clock::{Clock, SystemClock};

/// An open store: one namespace, for runners and clients.
///
/// # Example
///
/// ```
/// use windlass::store::Store;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = Store::open("memory:").await?;
/// assert!(store.registry().nodes().await?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Store {
    coordinator: Arc<dyn Coordinator>,
    registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    changes: Arc<changes::Changes>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// Returns the error for a store that this build does not include.
#[cfg(any(test, not(all(feature = "etcd", feature = "sqlite-system"))))]
fn built_without(feature: &str) -> Error {
    Error::Unusable(format!(
        "this program was built without {feature}: build it with the feature `{feature}` \
         (`cargo build --features {feature}`, or in Cargo.toml at the dependency `windlass`)"
    ))
}

impl Store {
    /// Opens the store that `url` names:
    ///
    /// - `memory:` for tests;
    /// - `sqlite:PATH` for the file at `PATH`, which is created if it does not exist (its folder must
    ///   exist). With `sqlite:PATH?synchronous=normal` acknowledged writes survive a crash of the
    ///   program, but a power failure may lose the latest ones ([`sqlite::Synchronous`]);
    /// - `etcd://HOST:PORT,HOST:PORT/NAMESPACE` (`etcds://` for TLS) for a cluster (feature `etcd`).
    ///   User, password and certificates come from the environment: `WINDLASS_ETCD_USER`,
    ///   `WINDLASS_ETCD_PASSWORD` or `WINDLASS_ETCD_PASSWORD_FILE`, `WINDLASS_ETCD_CA`,
    ///   `WINDLASS_ETCD_CERT`, `WINDLASS_ETCD_KEY`. `etcd::Options` has the other settings.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `store`) for any other URL; [`Error::Unusable`] for a file of
    /// another program or a newer version, and for a file that is damaged or cannot be written;
    /// [`Error::OldSqlite`] for a file, if the program uses a SQLite library that can corrupt it.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with_clock(url, SystemClock::shared()).await
    }

    /// Opens a store like [`open`](Self::open), with a clock of your own.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub async fn open_with_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        #[cfg(feature = "sqlite-system")]
        if let Some(file) = sqlite::Location::of(url) {
            let opened = sqlite::SqliteStore::open(file.path(), file.options()?, clock.clone());
            let store = Arc::new(opened.await?);
            return Ok(Self::from_parts(store.clone(), store, clock));
        }
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::in_memory(clock)),
            #[cfg(feature = "etcd")]
            Some(("etcd" | "etcds", _)) => {
                let options = etcd::Options::parse(url)?.with_environment()?;
                let store = Arc::new(etcd::EtcdStore::connect(options, clock.clone()).await?);
                Ok(Self::from_parts(store.clone(), store, clock))
            }
            #[cfg(not(feature = "etcd"))]
            Some(("etcd" | "etcds", _)) => Err(built_without("etcd")),
            #[cfg(not(feature = "sqlite-system"))]
            Some(("sqlite", path)) if !path.is_empty() => Err(built_without("sqlite")),
            _ => Err(windlass_statemachine::Invalid::new(
                "store",
                format!(
                    "'{}' is not one of memory:, sqlite:PATH, etcd://HOST:PORT/NAMESPACE, etcds://HOST:PORT/NAMESPACE",
                    without_password(url)
                ),
            )
            .into()),
        }
    }

    /// Returns an empty store in memory.
    pub(crate) fn in_memory(clock: Arc<dyn Clock>) -> Self {
        let store = Arc::new(memory::MemoryStore::new(clock.clone()));
        Self::from_parts(store.clone(), store, clock)
    }

    /// Makes a store from a coordinator and a registry on the same data.
    pub fn from_parts(
        coordinator: Arc<dyn Coordinator>,
        registry: Arc<dyn Registry>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            changes: Arc::new(changes::Changes::new(registry.clone())),
            coordinator,
            registry,
            clock,
        }
    }

    /// Keeps data and results of tasks in `states`; the coordinator keeps the rest. See [`Split`].
    #[must_use]
    pub fn with_state_store(self, states: Arc<dyn StateStore>) -> Self {
        let split = Split::new(self.coordinator, self.registry, states);
        let split = Arc::new(split.with_clock(self.clock.clone()));
        Self::from_parts(split.clone(), split, self.clock)
    }

    /// Returns the part for runners.
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// Returns the part for clients.
    pub fn registry(&self) -> &Arc<dyn Registry> {
        &self.registry
    }

    /// Returns the part of the store that exports and imports whole tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when the store lacks it.
    pub fn transfer(&self) -> Result<&dyn Transfer, Error> {
        self.part("copy tasks", self.registry.transfer())
    }

    /// Returns the part of the store that examines it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when the store lacks it.
    pub fn doctor(&self) -> Result<&dyn Doctor, Error> {
        self.part("examine the store", self.registry.doctor())
    }

    /// Returns the feed of changes that all waits and streams of this process share.
    pub(crate) fn changes(&self) -> &Arc<changes::Changes> {
        &self.changes
    }

    fn part<T>(&self, operation: &'static str, part: Option<T>) -> Result<T, Error> {
        part.ok_or_else(|| Error::unsupported(self.registry.name(), operation))
    }

    /// Returns the clock that the store uses.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_lacks_a_store_says_how_to_get_it() {
        for feature in ["etcd", "sqlite"] {
            let error = built_without(feature);
            assert!(!error.is_retryable());
            let text = error.to_string();
            assert!(text.contains(&format!("without {feature}")), "{text}");
            assert!(text.contains(&format!("--features {feature}")), "{text}");
        }
    }

    #[tokio::test]
    async fn a_part_that_a_store_lacks_is_named_with_the_store() {
        let store = Store::open("memory:").await.unwrap();
        assert!(store.transfer().is_ok());
        let Err(error) = store.doctor() else {
            panic!("the memory store examines nothing");
        };
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            "could not examine the store: the memory store does not support it; use a store that does"
        );
    }

    /// Runs only in a build that lacks a store, such as one with the default features.
    #[cfg(not(all(feature = "etcd", feature = "sqlite-system")))]
    #[tokio::test]
    async fn a_store_that_is_not_built_in_is_named() {
        for (url, feature, there) in [
            ("etcd://h:1/ns", "etcd", cfg!(feature = "etcd")),
            ("etcds://h:1/ns", "etcd", cfg!(feature = "etcd")),
            ("sqlite:x.db", "sqlite", cfg!(feature = "sqlite-system")),
        ] {
            if !there {
                let error = Store::open(url).await.map(|_| ()).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    built_without(feature).to_string(),
                    "{url}"
                );
            }
        }
    }
}
