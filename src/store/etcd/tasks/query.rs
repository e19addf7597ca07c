//! Queries of operators: single tasks, lists, counts. A list by id reads blocks of ids until it has its tasks, a list
//! by end reads blocks of the index of ended tasks; other lists read all tasks.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId};

use crate::{
    clock::Clock,
    store::{
        Error, FailedTasks, Filter, Order, Page, Span, TaskCount, TaskRecord, TaskStats,
        etcd::{
            client::Fault,
            index::Index,
            node::SlotTable,
            read::{
                Folders, Reader,
                blocks::{self, Ids},
                by_id::Counting,
            },
            schema::{Snapshot, end_of},
        },
        rules::{
            self, failures,
            limits::Pool,
            list::{Selection, is_behind, place},
            stats::Counter,
        },
    },
};

/// How often a list starts again when the history is compacted during the list.
const ROUNDS: usize = 3;

/// The fewest keys of the first block of a list by id, and the most of the largest one.
const FIRST_BLOCK: usize = 64;
const LARGEST_BLOCK: usize = 4000;
/// The most ids that are read one by one.
const FEW_IDS: usize = 10_000;

/// Returns whether a limit may hold a task back, because it could otherwise be claimed.
pub(super) fn may_be_held(record: &TaskRecord, now: Timestamp) -> bool {
    let state = record.state.as_ref();
    let may = state.is_ok_and(|s| !s.is_waiting() && rules::claim::is_claimable(s, false, now));
    may && record.node.is_none() && !record.task.limits.is_empty()
}

pub(super) const LIST: &str = "list the tasks";

/// Returns which tasks a list with this filter reads.
fn folders_of(filter: &Filter) -> Folders {
    if filter.is_live_only() {
        Folders::Live
    } else if filter.is_ended_only() {
        Folders::Ended
    } else {
        Folders::All
    }
}

/// Returns the prefix of default ids of a time.
fn moment(at: Timestamp) -> String {
    let millis = format!("{:012x}", at.as_millisecond().max(0));
    let (high, low) = millis.split_at(millis.len() - 4);
    format!("{high}-{low}-7")
}

/// Runs the queries of operators.
pub(crate) struct Queries {
    pub(crate) reader: Reader,
    pub(crate) clock: Arc<dyn Clock>,
    /// The index in memory, if this process keeps one.
    pub(crate) index: Option<Index>,
}

impl Queries {
    pub(crate) async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let found = self.reader.found(id, "read a task").await?;
        if !found.exists() {
            return Err(Error::no_task(id));
        }
        let mut record = found.record(id)?;
        self.name_limits(std::slice::from_mut(&mut record)).await?;
        Ok(record)
    }

    pub(crate) async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        page.check()?;
        if let Some(current) = self.indexed().await {
            let span = Span::of_page(page);
            let mut tasks = self.by_index(&current, filter, span).await?;
            self.name_limits(&mut tasks).await?;
            return Ok(tasks);
        }
        let prefix = filter.id_prefix.as_deref().unwrap_or("");
        let mut matching = Vec::new();
        let folders = folders_of(filter);
        for (id, found) in self.all(prefix, folders).await? {
            let record = found.record(&id)?;
            if record.order > page.after && filter.matches(&record) {
                matching.push(record);
            }
        }
        matching.sort_by_key(|record| record.order);
        matching.truncate(page.limit as usize);
        self.name_limits(&mut matching).await?;
        Ok(matching)
    }

    /// Returns the tasks of a span. The order of the keys is that of the ids, and there is no other
    /// index.
    pub(crate) async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        let folders = match span.order {
            Order::Due | Order::Late => Folders::Live,
            _ => folders_of(filter),
        };
        let mut tasks = if !filter.ids.is_empty() && filter.ids.len() <= FEW_IDS {
            self.named(filter, span).await?
        } else if span.order != Order::Late
            && let Some(current) = self.indexed().await
        {
            // The index in memory has no order by lateness.
            self.by_index(&current, filter, span).await?
        } else if span.order == Order::Ended {
            self.by_end(filter, span).await?
        } else if span.order == Order::Id {
            self.by_id(filter, &span, folders).await?
        } else {
            let prefix = filter.id_prefix.as_deref().unwrap_or("");
            let mut selection = Selection::of(span);
            for (id, found) in self.all(prefix, folders).await? {
                let record = found.record(&id)?;
                if filter.matches(&record) {
                    selection.take(record);
                }
            }
            selection.into_tasks()
        };
        self.name_limits(&mut tasks).await?;
        Ok(tasks)
    }

    /// Returns the tasks of a span of a filter that names their ids.
    async fn named(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        let mut selection = Selection::of(span);
        for (id, found) in filter
            .ids
            .iter()
            .zip(self.reader.read_many(&filter.ids).await)
        {
            let found = found.map_err(|fault| fault.into_error(LIST))?;
            if !found.exists() {
                continue;
            }
            let record = found.record(id)?;
            if filter.matches(&record) {
                selection.take(record);
            }
        }
        Ok(selection.into_tasks())
    }

    /// Returns the tasks of a span by id. Reads the ids block by block until it has them, with growing blocks: a filter
    /// that few tasks match reads all tasks.
    async fn by_id(
        &self,
        filter: &Filter,
        span: &Span,
        folders: Folders,
    ) -> Result<Vec<TaskRecord>, Error> {
        let failed = |fault: Fault| fault.into_error(LIST);
        let prefix = filter.id_prefix.as_deref().unwrap_or("");
        let mut ids = Ids {
            from: prefix.into(),
            // Text never contains this byte.
            end: [prefix.as_bytes(), &[0xff]].concat(),
        };
        let after = span.after.as_ref().and_then(|place| place.id.as_ref());
        match (after, span.ascending) {
            (Some(id), true) => ids.from = [id.as_str().as_bytes(), &[0]].concat().max(ids.from),
            (Some(id), false) => ids.end = id.as_str().as_bytes().to_vec().min(ids.end),
            (None, _) => {}
        }
        let now = moment(self.clock.now());
        let mut now = Some(now.as_bytes()).filter(|_| after.is_none());
        let count = Counting {
            reader: &self.reader,
            folders: folders.of_tasks(),
        };
        // A live task has up to a few keys.
        let mut most = (span.limit * 2).clamp(FIRST_BLOCK, LARGEST_BLOCK);
        let mut tasks = Vec::new();
        while ids.from < ids.end && tasks.len() < span.limit {
            let block = match span.ascending {
                true => blocks::first(&count, &ids, most).await,
                false => blocks::last(&count, &ids, now.take(), most).await,
            };
            let Some(block) = block.map_err(failed)? else {
                break;
            };
            let found = self.reader.block(folders, &block).await.map_err(failed)?;
            let mut records = Vec::with_capacity(found.len());
            for (id, found) in &found {
                records.push(found.record(id)?);
            }
            if span.ascending {
                ids.from = block.end;
            } else {
                records.reverse();
                ids.end = block.from;
            }
            let is_of_it = |record: &TaskRecord| {
                let place = place(record, Order::Id);
                place.is_some_and(|place| is_behind(span, &place)) && filter.matches(record)
            };
            tasks.extend(records.into_iter().filter(is_of_it));
            most = (most * 2).min(LARGEST_BLOCK);
        }
        tasks.truncate(span.limit);
        Ok(tasks)
    }

    /// Sets the limits that hold tasks back. Reads their slots; tasks without limits cost no read.
    pub(super) async fn name_limits(&self, records: &mut [TaskRecord]) -> Result<(), Error> {
        let now = self.clock.now();
        let is_held = |record: &&mut TaskRecord| may_be_held(record, now);
        let held: Vec<_> = records.iter_mut().filter(is_held).collect();
        let limits = held.iter().flat_map(|record| &record.task.limits);
        let pools: HashSet<Pool> = limits.map(Pool::of).collect();
        let failed = |fault: Fault| fault.into_error("read the slots of limits");
        let slots = SlotTable::of_pools(&self.reader, pools)
            .await
            .map_err(failed)?;
        for record in held {
            let by = slots.limited_by(&record.task.limits, now).await;
            record.limited_by = by.map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        if let Some(current) = self.indexed().await {
            return Ok(current.states());
        }
        let mut counts = BTreeMap::<(Kind, Option<StateKind>), (u64, u64)>::new();
        for (id, found) in self.all("", Folders::All).await? {
            let record = found.record(&id)?;
            let state = record.state.ok().map(|state| state.code());
            let (tasks, claimed) = counts.entry((record.task.kind, state)).or_default();
            *tasks += 1;
            *claimed += u64::from(found.owner.is_some());
        }
        let counts = counts.into_iter();
        let count = |((kind, state), (tasks, claimed))| TaskCount {
            kind,
            state,
            tasks,
            claimed,
        };
        Ok(counts.map(count).collect())
    }

    /// Counts with the index, or with a read of every task, at one revision.
    pub(crate) async fn stats(&self) -> Result<TaskStats, Error> {
        if let Some(current) = self.indexed().await {
            return self.stats_of(&current).await;
        }
        let mut counter = Counter::new(self.clock.now());
        let mut limited = Vec::new();
        for (id, found) in self.all("", Folders::All).await? {
            let record = found.record(&id)?;
            match may_be_held(&record, self.clock.now()) {
                true => limited.push(record),
                false => counter.take(&record),
            }
        }
        self.name_limits(&mut limited).await?;
        limited.iter().for_each(|record| counter.take(record));
        Ok(counter.into_stats(true))
    }

    /// Groups the failed tasks with the index, or the last ones that ended.
    pub(crate) async fn failures(&self, limit: usize) -> Result<FailedTasks, Error> {
        if let Some(current) = self.indexed().await {
            return Ok(current.failures(limit));
        }
        let filter = Filter::new().states([StateKind::Failed]);
        let span = Span {
            order: Order::Ended,
            ascending: false,
            after: None,
            limit: failures::READ,
            without_props: true,
            only_waiting: false,
        };
        let records = self.span(&filter, span).await?;
        let is_complete = records.len() < failures::READ;
        Ok(FailedTasks::of(&records, limit, is_complete))
    }

    /// Reads every task whose id begins with `prefix`, with everything that belongs to it at one
    /// revision.
    pub(super) async fn all(
        &self,
        prefix: &str,
        folders: Folders,
    ) -> Result<BTreeMap<TaskId, Snapshot>, Error> {
        let mut round = 1;
        loop {
            match self.try_all(prefix, folders).await {
                Ok(all) => return Ok(all),
                Err(Fault::Compacted) if round < ROUNDS => round += 1,
                Err(fault) => return Err(fault.into_error(LIST)),
            }
        }
    }

    async fn try_all(
        &self,
        prefix: &str,
        folders: Folders,
    ) -> Result<BTreeMap<TaskId, Snapshot>, Fault> {
        let mut all = BTreeMap::new();
        let mut revision = 0;
        for folder in folders.of_parts() {
            let from = format!("{}{folder}{prefix}", self.reader.keys.root());
            let end = end_of(&from);
            let mut take = |kv| self.reader.take_in(folder, kv, &mut all);
            let scanned = self.reader.link.scan(revision, &from, &end, &mut take);
            revision = scanned.await?;
        }
        all.retain(|_, found| found.exists());
        Ok(all)
    }
}
