//! [`HandlerLines`]: the lines that the handlers of a task have logged, from the store.

use std::collections::HashSet;

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
    /// The damaged parts that were returned. Each page names them again.
    damaged: HashSet<u64>,
}

impl HandlerLines {
    pub(super) fn new(client: Client, id: TaskId, wanted: Wanted) -> Self {
        Self {
            client,
            id,
            wanted,
            next: None,
            damaged: HashSet::new(),
        }
    }

    /// Returns the lines of the wanted attempt at the first call, by default those of the last attempt. Later calls
    /// return the lines after them, also of further attempts.
    pub(super) async fn read(&mut self) -> Result<LogPage, Failure> {
        let mut page = match self.next {
            None => self.first().await?,
            Some(next) => {
                let query = LogQuery::default().after(next);
                let mut page = self.client.log_lines(&self.id, &query).await?;
                let wanted = self.wanted;
                page.lines
                    .retain(|line| wanted.is_reached(line.incarnation, line.attempt));
                page.damaged
                    .retain(|part| wanted.is_reached(part.incarnation, part.attempt));
                page
            }
        };
        self.next = Some(page.next);
        page.damaged.retain(|part| self.damaged.insert(part.part));
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
        let lines = page.lines.last();
        let last = lines.map(|line| (line.incarnation, line.attempt));
        let damaged = page.damaged.last();
        let damaged = damaged.map(|part| (part.incarnation, part.attempt));
        let Some((incarnation, attempt)) = last.max(damaged) else {
            return Ok(page);
        };
        let query = of(Some(incarnation), Some(attempt));
        Ok(self.client.log_lines(&self.id, &query).await?)
    }
}
