//! [`Access`]: how components read and write, and what time it is for them.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::reader::Reader;
use crate::{
    clock::Clock,
    store::etcd::{
        schema::Keys,
        write::{Item, Pipeline},
    },
};

/// What every component begins with. Clones are the same.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) reader: Reader,
    pub(crate) pipeline: Pipeline,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Access {
    pub(crate) fn keys(&self) -> &Keys {
        &self.reader.keys
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A write of a task that uses so many places in the numbers of its revision.
    pub(crate) fn item(&self, id: &TaskId, places: u32) -> Item {
        Item::of(id).at(self.pipeline.places(places), places)
    }
}
