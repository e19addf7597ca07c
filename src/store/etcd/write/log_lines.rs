//! The keys of the lines that handlers log. Pure.

use windlass_statemachine::{Fence, TaskId};

use super::{edit::Edit, item::Item};
use crate::store::{
    Error, Logged,
    etcd::schema::{Keys, json::write},
    rules::log_lines::{self, LogHead, PartPlace},
};

/// The most bytes of text and the most lines of one write: a few keys, next to a transition.
const BYTES: usize = 16 * 1024;
const LINES: usize = 256;

/// The log of a task, as this process knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownLog {
    pub(crate) head: LogHead,
    /// The revision that last wrote the last part; 0 if there is none.
    pub(crate) revision: i64,
}

impl KnownLog {
    /// Adds lines of a claim to a write, which then compares that the last part is the known one. Returns the log
    /// after the write; `None` when the log has these lines already.
    pub(crate) fn add_to(
        &self,
        item: &mut Item,
        (keys, id): (&Keys, &TaskId),
        fence: Fence,
        lines: &[Logged],
    ) -> Result<Option<LogHead>, Error> {
        let added = log_lines::add(&self.head, fence, lines);
        if added.put.is_empty() {
            return Ok(None);
        }
        if let Some(last) = self.head.parts.last() {
            item.when_at(&keys.log_part(id, *last), self.revision);
        }
        for place in &added.removed {
            item.delete(&keys.log_part(id, *place));
        }
        for part in &added.put {
            let key = keys.log_part(id, PartPlace::of(part));
            item.put(&key, write("log", part)?);
        }
        Ok(Some(added.head))
    }
}

impl Edit<'_> {
    /// Adds the lines of a commit, if there are any. Returns the log after the write.
    pub(crate) fn put_log(
        &mut self,
        known: Option<&KnownLog>,
        fence: Fence,
        lines: Option<&[Logged]>,
    ) -> Result<Option<LogHead>, Error> {
        match (known, lines) {
            (Some(known), Some(lines)) => {
                known.add_to(self.item, (self.keys, self.id), fence, lines)
            }
            _ => Ok(None),
        }
    }
}

/// Splits lines into those of single writes.
pub(crate) fn writes(lines: &[Logged]) -> Vec<&[Logged]> {
    let (mut writes, mut rest) = (Vec::new(), lines);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(LINES).take_while(|line| {
            bytes += line.text.len();
            bytes <= BYTES
        });
        let count = fits.count().max(1);
        let (write, more) = rest.split_at(count);
        writes.push(write);
        rest = more;
    }
    writes
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_write_has_a_bounded_number_of_lines_and_bytes() {
        let line = |n: u64, bytes: usize| Logged::new(n, Timestamp::UNIX_EPOCH, "x".repeat(bytes));
        let lengths = |lines: &[Logged]| -> Vec<usize> {
            writes(lines).into_iter().map(<[Logged]>::len).collect()
        };
        assert!(lengths(&[]).is_empty());
        let short: Vec<_> = (1..=600).map(|n| line(n, 1)).collect();
        assert_eq!(lengths(&short), [256, 256, 88]);
        let long: Vec<_> = (1..=9).map(|n| line(n, 4096)).collect();
        assert_eq!(lengths(&long), [4, 4, 1]);
        assert_eq!(
            lengths(&[line(1, 99_999)]),
            [1],
            "one line is always written"
        );
    }
}
