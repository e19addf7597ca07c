//! The lines that handlers log.

use windlass_statemachine::{Invalid, TaskId};

use super::{Client, name};
use crate::store::{Error, LogPage, LogQuery, rules};

impl Client {
    /// Returns the lines that the handlers of a task have logged ([`TaskContext::log`](crate::TaskContext::log)),
    /// oldest first, with the number of those that are gone and the parts that cannot be read. A log is bounded, so one
    /// page has all lines.
    ///
    /// To follow a log, ask again with [`LogQuery::after`]. A running handler adds lines at most once a second, and a
    /// change of the task may add some ([`changes`](Self::changes)).
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// See [`TaskContext::log`](crate::TaskContext::log).
    pub async fn log_lines(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
        query: &LogQuery,
    ) -> Result<LogPage, Error> {
        let log = self
            .store
            .registry()
            .log_parts(&name(id)?, query.after.part)
            .await?;
        Ok(rules::log_lines::page(log, query))
    }
}
