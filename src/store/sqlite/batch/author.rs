//! The author of a transaction's changes.

use windlass_statemachine::{Author, TaskId};

use super::{Batch, Sql};

impl Batch<'_> {
    /// Calls `work`, whose changes have this author.
    pub(in crate::store::sqlite) fn on_behalf<T, E: From<rusqlite::Error>>(
        &mut self,
        author: Option<&Author>,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(author) = author {
            self.by = (Some(author.clone()), self.number_of_author(author)?);
        }
        let result = work(self);
        self.by = (None, 0);
        result
    }

    /// Calls `work`, whose changes have the handler of task `n` as their author.
    pub(in crate::store::sqlite) fn on_behalf_of_task<T>(
        &mut self,
        (n, id): (i64, &TaskId),
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.by = (Some(Author::task(id)), -n);
        let result = work(self);
        self.by = (None, 0);
        result
    }

    /// Returns the author of the present changes.
    pub(in crate::store::sqlite) fn author(&self) -> Option<&Author> {
        self.by.0.as_ref()
    }

    fn number_of_author(&mut self, author: &Author) -> Sql<i64> {
        if let Some((known, number)) = &self.author
            && known == author
        {
            return Ok(*number);
        }
        let number = self.first(
            "INSERT INTO windlass_authors (name, last) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET last = excluded.last RETURNING id",
            (author.as_str(), self.next()),
            |row| row.get(0),
        )?;
        let number = number.unwrap_or_default();
        self.author = Some((author.clone(), number));
        Ok(number)
    }
}
