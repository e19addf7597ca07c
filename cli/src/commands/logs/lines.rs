//! [`HandlerLines`]: the lines that the handlers of a task have logged, from the store.

use windlass::{
    Client, TaskId,
    store::{LogCursor, LogPage, LogQuery},
};

use super::select::Wanted;
use crate::exit::Failure;

/// Reads the lines of the wanted attempt, and later those that were added.
pub(super) struct HandlerLines {
    client: Client,
    id: TaskId,
    wanted: Wanted,
    next: Option<LogCursor>,
}

impl HandlerLines {
    pub(super) fn new(client: Client, id: TaskId, wanted: Wanted) -> Self {
        let next = None;
        Self {
            client,
            id,
            wanted,
            next,
        }
    }

    /// Returns the lines of the wanted attempt at the first call, by default those of the last attempt. Later calls
    /// return the lines after them, also of further attempts.
    pub(super) async fn read(&mut self) -> Result<LogPage, Failure> {
        let page = match self.next {
            None => self.first().await?,
            Some(next) => {
                let query = LogQuery::default().after(next);
                let mut page = self.client.log_lines(&self.id, &query).await?;
                let wanted = self.wanted;
                page.lines
                    .retain(|line| wanted.is_reached(line.incarnation, line.attempt));
                page
            }
        };
        self.next = Some(page.next);
        Ok(page)
    }

    async fn first(&self) -> Result<LogPage, Failure> {
        let of = |incarnation, attempt| {
            let mut query = LogQuery::default();
            (query.incarnation, query.attempt) = (incarnation, attempt);
            query
        };
        let Wanted {
            incarnation,
            attempt,
        } = self.wanted;
        let query = of(incarnation, attempt);
        let page = self.client.log_lines(&self.id, &query).await?;
        let Some(last) = page.lines.last() else {
            return Ok(page);
        };
        let query = of(Some(last.incarnation), Some(last.attempt));
        Ok(self.client.log_lines(&self.id, &query).await?)
    }
}
