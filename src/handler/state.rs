//! [`Shared`]: the values that the handlers of a node share, by type.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use windlass_statemachine::Invalid;

use super::mark::Mark;

/// The node has no shared value of a type that a handler needs.
///
/// A run that ends with this error is a fault of its node: see [`TaskContext::state`](crate::TaskContext::state).
#[derive(Clone, thiserror::Error)]
#[error(
    "there is no state of the type {type_name}; add it to the node with `.state(value)` before the start"
)]
pub struct MissingState {
    type_name: &'static str,
    mark: Mark,
}

impl PartialEq for MissingState {
    fn eq(&self, other: &Self) -> bool {
        self.type_name == other.type_name
    }
}

impl Eq for MissingState {}

impl fmt::Debug for MissingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl MissingState {
    fn new(type_name: &'static str) -> Self {
        Self {
            type_name,
            mark: Mark::default(),
        }
    }

    /// Returns whether the return value of the handler contains a copy of this error, or a panic has dropped one.
    pub(super) fn ends_run(&self) -> bool {
        self.mark.is_held() || self.mark.by_panic()
    }

    /// Returns the name of the type, as [`type_name`] has it.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }
}

/// A type of which a handler needs a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    id: TypeId,
    type_name: &'static str,
}

impl Needed {
    pub(crate) fn of<T: Send + Sync + 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
        }
    }
}

/// The values that the handlers of a node share, at most one of each type. Clones hold the same
/// values.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    values: Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// A type for which two values were set.
    twice: Option<&'static str>,
}

impl Shared {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let values = Arc::make_mut(&mut self.values);
        if values.insert(TypeId::of::<T>(), Arc::new(value)).is_some() {
            self.twice = Some(type_name::<T>());
        }
    }

    /// Checks that there is at most one value of each type.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let Some(twice) = self.twice else {
            return Ok(());
        };
        let reason =
            format!("there are two values of the type {twice}; put one into a type of its own");
        Err(Invalid::new("state", reason))
    }

    /// Checks that there is a value of each of these types.
    pub(crate) fn has(&self, needed: &[Needed]) -> Result<(), MissingState> {
        let missing = needed.iter().find(|one| !self.values.contains_key(&one.id));
        missing.map_or(Ok(()), |one| Err(MissingState::new(one.type_name)))
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Result<&T, MissingState> {
        let value = self.values.get(&TypeId::of::<T>());
        let value = value.and_then(|value| value.downcast_ref());
        value.ok_or_else(|| MissingState::new(type_name::<T>()))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.len();
        f.debug_struct("Shared").field("values", &values).finish()
    }
}
