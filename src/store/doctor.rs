//! [`Doctor`]: the part of a store that examines it.

use async_trait::async_trait;

use super::{
    Error,
    examine::{Examination, Finding},
};

/// The part of a store that checks its records. A store may lack it
/// ([`Registry::doctor`](super::Registry::doctor)).
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
///
/// # Duties of an implementation
///
/// 1. **Examinations.** An examination reports each record that cannot be read with the name of its
///    task, and nothing about records in order. A repair deletes only the damaged parts of a log.
///    Cases: `examine::a_store_in_order_has_nothing_wrong`,
///    `examine::an_unreadable_state_is_reported`, `examine::an_unreadable_envelope_is_reported`,
///    `logs::a_damaged_part_is_found_and_repaired`.
#[async_trait]
pub trait Doctor: Send + Sync + 'static {
    /// Examines the store. On request, repairs what can be repaired safely.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when it cannot be examined at all.
    async fn examine(&self, how: &Examination) -> Result<Vec<Finding>, Error>;
}
