//! The parts of changes: what one operation writes. Calls of clients, transactions and the effects of
//! messages share them.

mod before;
mod clear;
mod delete;
mod part;
mod reschedule;
mod retry;
mod submit;
mod unique;

use crate::store::etcd::read::Access;

pub(crate) use before::Before;
pub(crate) use clear::{Clearing, Leftover};
pub(crate) use part::At;
pub(crate) use retry::Retried;

/// Makes the parts. Clones share their state.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) clearing: Clearing,
}

impl Parts {
    pub(crate) fn access(&self) -> &Access {
        &self.clearing.access
    }
}
