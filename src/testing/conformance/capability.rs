//! [`Capability`]: a part of a store or its harness that a case needs beyond the duties of the traits.

#[cfg(doc)]
use super::{Harness, StateHarness};

/// A capability that a case needs, and that a store or its harness may lack.
///
/// [`conformance_tests!`](crate::conformance_tests) takes the capabilities that a store lacks, each
/// with the reason. The cases that need one of them are ignored tests with that reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// The data outlive the store: [`Harness::reopen`], [`StateHarness::reopen`].
    Reopen,
    /// The store uses a clock of the test: [`Harness::store_with_clock`].
    Clock,
    /// A stored state can be damaged: [`Harness::corrupt_state`], [`StateHarness::corrupt`].
    CorruptState,
    /// A damaged state can be restored: [`Harness::repair_state`].
    RepairState,
    /// A stored envelope can be damaged: [`Harness::corrupt_envelope`].
    CorruptEnvelope,
    /// A stored part of a log can be damaged: [`Harness::corrupt_log`].
    CorruptLog,
    /// A commit is one write of the store: it applies effects and compares the version that it follows
    /// ([`Harness::takes_effects`]).
    Effects,
    /// The store copies whole tasks: [`Registry::transfer`](crate::store::Registry::transfer).
    Transfer,
    /// The store examines itself: [`Registry::doctor`](crate::store::Registry::doctor).
    Examine,
    /// A claim respects the limits of its task: [`Task::limits`](windlass_statemachine::Task::limits).
    Limits,
    /// The store has remote workers: [`Coordinator::join_worker`](crate::store::Coordinator::join_worker).
    Workers,
}

impl Capability {
    /// Returns what the author of the store has to do.
    fn provided_by(self) -> &'static str {
        match self {
            Self::Reopen => "implement `reopen` of the harness",
            Self::Clock => "implement `store_with_clock` of the harness",
            Self::CorruptState => "implement `corrupt_state` (or `corrupt`) of the harness",
            Self::RepairState => "implement `repair_state` of the harness",
            Self::CorruptEnvelope => "implement `corrupt_envelope` of the harness",
            Self::CorruptLog => "implement `corrupt_log` of the harness",
            Self::Effects => "apply effects and return true from `takes_effects` of the harness",
            Self::Transfer => "return the store's transfer from `transfer` of the registry",
            Self::Examine => "return the store's doctor from `doctor` of the registry",
            Self::Limits => "let claims take the slots of limits",
            Self::Workers => {
                "implement `join_worker`, `worker`, `speak` and `held` of the coordinator"
            }
        }
    }
}

/// Returns the value of a capability. Fails the case if the store lacks the capability, so that a
/// case that checks nothing does not pass.
pub(super) fn need<T>(capability: Capability, provided: Option<T>) -> T {
    provided.unwrap_or_else(|| {
        let remedy = capability.provided_by();
        panic!(
            "could not run the case: the store lacks {capability:?}; {remedy}, or declare \
             `cannot {{ {capability:?}: \"the reason\" }}` in the macro that makes the tests"
        )
    })
}
