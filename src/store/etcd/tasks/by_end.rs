//! Lists by end, from the index of ended tasks.

use super::query::{LIST, Queries};
use crate::store::{
    Error, Filter, Span, TaskRecord,
    etcd::{
        client::Fault,
        read::{
            blocks::{self, Ids},
            by_id::Counting,
        },
        schema::{
            ended::{End, digits},
            keys::ENDED,
        },
    },
    rules::list::{Selection, place},
};

/// The most ended tasks of the first block, and of the largest one.
const FIRST_BLOCK: usize = 64;
const LARGEST_BLOCK: usize = 1000;

impl Queries {
    /// Returns the tasks of a span by end. Reads the index block by block until it has them, and the tasks in each
    /// block. A filter that few ended tasks match reads all of them.
    pub(super) async fn by_end(
        &self,
        filter: &Filter,
        span: Span,
    ) -> Result<Vec<TaskRecord>, Error> {
        let failed = |fault: Fault| fault.into_error(LIST);
        let mut selection = Selection::of(span.clone());
        if filter.is_live_only() {
            return Ok(Vec::new());
        }
        let count = Counting {
            reader: &self.reader,
            folders: &[ENDED],
        };
        let now = digits(self.clock.now().as_microsecond());
        let mut now = Some(now.as_bytes()).filter(|_| span.after.is_none());
        let mut ids = times_of(filter, &span);
        let mut most = (span.limit * 2).clamp(FIRST_BLOCK, LARGEST_BLOCK);
        while ids.from < ids.end {
            let block = match span.ascending {
                true => blocks::first(&count, &ids, most).await,
                false => blocks::last(&count, &ids, now.take(), most).await,
            };
            let Some(block) = block.map_err(failed)? else {
                break;
            };
            self.take_ends(filter, &block, &mut selection).await?;
            match span.ascending {
                true => ids.from = block.end,
                false => ids.end = block.from,
            }
            // Further ends in the same microsecond may come before the last one.
            let is_whole = selection.furthest().is_some_and(|at| {
                let at = digits(at).into_bytes();
                match span.ascending {
                    true => ids.from >= [at.as_slice(), b"0"].concat(),
                    false => ids.end <= at,
                }
            });
            if is_whole {
                break;
            }
            most = (most * 2).min(LARGEST_BLOCK);
        }
        Ok(selection.into_tasks())
    }

    /// Takes the tasks of a block of the index.
    async fn take_ends(
        &self,
        filter: &Filter,
        block: &Ids,
        selection: &mut Selection,
    ) -> Result<(), Error> {
        let failed = |fault: Fault| fault.into_error(LIST);
        let keys = &self.reader.keys;
        let listed = self.reader.keys_of(ENDED, block).await.map_err(failed)?;
        let ends = listed.iter().filter_map(|kv| End::read(keys, kv));
        let may_match = |end: &End| {
            let prefix = filter.id_prefix.as_deref().unwrap_or_default();
            let state = end.state.as_ref();
            end.id.as_str().starts_with(prefix)
                && (filter.states.is_empty()
                    || state.is_none_or(|code| filter.states.contains(code)))
        };
        let ends: Vec<End> = ends.filter(may_match).collect();
        let named: Vec<_> = ends.iter().map(|end| end.id.clone()).collect();
        for (end, found) in ends.iter().zip(self.reader.read_many(&named).await) {
            let found = found.map_err(failed)?;
            if !found.exists() {
                continue;
            }
            let record = found.record(&end.id)?;
            // A task that was retried or deleted in the meantime is a different one.
            let is_it = place(&record, selection.order()).is_some_and(|place| place.at == end.at);
            if is_it && filter.matches(&record) {
                selection.take(record);
            }
        }
        Ok(())
    }
}

/// Returns the part of the index with the ends that a span may include.
fn times_of(filter: &Filter, span: &Span) -> Ids {
    let mut ids = Ids {
        from: Vec::new(),
        end: vec![0xff],
    };
    if let Some(from) = filter.ended.from {
        ids.from = digits(from.as_microsecond()).into_bytes();
    }
    if let Some(until) = filter.ended.until {
        ids.end = digits(until.as_microsecond().saturating_add(1)).into_bytes();
    }
    match &span.after {
        Some(place) if span.ascending => {
            ids.from = digits(place.at).into_bytes().max(ids.from);
        }
        Some(place) => {
            let end = digits(place.at.saturating_add(1)).into_bytes();
            ids.end = end.min(ids.end);
        }
        None => {}
    }
    ids
}
