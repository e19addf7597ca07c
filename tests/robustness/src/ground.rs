//! Opens a store by its name. A split store has a name of our own making: the coordinator's, `+`, and
//! the file of the states.

use std::{path::Path, sync::Arc};

use windlass::store::{
    Store,
    sqlite::{Options, SqliteStates},
};

use crate::BoxError;

/// The text between the coordinator's name and the file of the states.
const BESIDE: &str = "+states:";

/// Returns the name of a store whose states are in their own file.
pub fn split(coordinator: &str, states: &Path) -> String {
    format!("{coordinator}{BESIDE}{}", states.display())
}

/// Opens a store.
///
/// # Errors
///
/// Those of the store.
pub async fn open(name: &str) -> Result<Store, BoxError> {
    open_through(name, |store| store).await
}

/// Opens a store whose coordinator is wrapped by `through`; the states of a split store are outside
/// of that.
///
/// # Errors
///
/// Those of the store.
pub async fn open_through(
    name: &str,
    through: impl FnOnce(Store) -> Store,
) -> Result<Store, BoxError> {
    let (coordinator, states) = match name.split_once(BESIDE) {
        Some((coordinator, states)) => (coordinator, Some(states)),
        None => (name, None),
    };
    let store = through(Store::open(coordinator).await?);
    let Some(states) = states else {
        return Ok(store);
    };
    let states = SqliteStates::open(states, Options::default()).await?;
    Ok(store.with_state_store(Arc::new(states)))
}
