//! [`Place`]: how far a bulk operation has come.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    TaskId,
    store::{Cursor, Error, Store, TaskPage},
};

use super::{Spec, dry_run::query};

/// Where the next step of an operation begins. A cursor is valid in one store: a copy or an import gives the tasks new submit
/// orders. In another store the place is found again by the last task that the operation has seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Place {
    /// The identity of the store.
    store: String,
    /// The position in that store.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(super) cursor: Cursor,
    /// The last task before this place.
    last: TaskId,
    /// When that task was submitted.
    submitted_at: Timestamp,
}

impl Place {
    /// Returns the place after a page; `None` after the last page.
    pub(super) fn after(store: &str, page: &TaskPage) -> Option<Self> {
        let (cursor, last) = (page.next.clone()?, page.tasks.last()?);
        Some(Self {
            store: store.to_owned(),
            cursor,
            last: last.task.id.clone(),
            submitted_at: last.submitted_at,
        })
    }

    /// Makes the place one of this store, whose identity is `identity`. Returns false if the last task is gone.
    pub(super) async fn find_again(
        &mut self,
        store: &Store,
        spec: &Spec,
        identity: &str,
    ) -> Result<bool, Error> {
        if self.store == identity {
            return Ok(true);
        }
        let of_submit = |at: Timestamp| at.as_microsecond() == self.submitted_at.as_microsecond();
        let record = match store.registry().get(&self.last).await {
            Ok(record) if of_submit(record.submitted_at) => record,
            Ok(_) | Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let found = query(&spec.filter, spec.action)?.after(&record);
        let Some(cursor) = found else {
            return Ok(false);
        };
        self.cursor = cursor;
        identity.clone_into(&mut self.store);
        Ok(true)
    }
}
