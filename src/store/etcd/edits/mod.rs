//! The parts of changes: what one operation writes. Calls of clients, transactions and the effects of
//! messages share them.

mod before;
mod clear;
mod delete;
mod operation;
mod reschedule;
mod retry;
mod submit;
mod unique;

use crate::store::etcd::read::Access;

pub(crate) use before::Before;
pub(crate) use clear::{Clearing, Leftover};
pub(crate) use operation::{OperationInput, POINTERS};
pub(crate) use retry::Retried;

/// Makes the edits. Clones share their state.
#[derive(Clone)]
pub(crate) struct Edits {
    pub(crate) clearing: Clearing,
}

impl Edits {
    pub(crate) fn access(&self) -> &Access {
        &self.clearing.access
    }
}
