//! Queries of operators: one task, lists, counts. A list reads all tasks.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, StateKind, TaskId};

use crate::{
    clock::Clock,
    store::{
        Error, Filter, Order, Page, Span, TaskCount, TaskRecord, TaskStats,
        etcd::{
            client::Fault,
            node::SlotTable,
            read::Reader,
            schema::{Snapshot, end_of, keys::PROPS_APART},
        },
        rules::{self, limits::Pool, list::Selection, stats::Counter},
    },
};

/// How often a list starts again when the history is compacted meanwhile.
const ROUNDS: usize = 3;

/// The folders of all tasks, and of the live ones.
const ALL: &[&str] = &["tasks/", "finished/", "state/", "parked/", PROPS_APART];
pub(super) const LIVE: &[&str] = &["tasks/", "state/", "parked/", PROPS_APART];

/// Returns whether a limit may hold a task back: it could be claimed.
pub(super) fn may_be_held(record: &TaskRecord, now: Timestamp) -> bool {
    let state = record.state.as_ref();
    let may = state.is_ok_and(|s| !s.is_waiting() && rules::claim::is_claimable(s, false, now));
    may && record.node.is_none() && !record.task.limits.is_empty()
}

/// Runs the queries of operators.
pub(crate) struct Queries {
    pub(crate) reader: Reader,
    pub(crate) clock: Arc<dyn Clock>,
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
        let prefix = filter.id_prefix.as_deref().unwrap_or("");
        let mut matching = Vec::new();
        // Ended tasks have a folder of their own.
        let folders = match filter.is_live_only() {
            true => LIVE,
            false => ALL,
        };
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

    /// Returns the tasks of a span. Ended tasks have a folder of their own, and there is no other index.
    pub(crate) async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        let prefix = filter.id_prefix.as_deref().unwrap_or("");
        let folders = match filter.is_live_only() || span.order == Order::Due {
            true => LIVE,
            false => ALL,
        };
        let mut selection = Selection::of(span);
        for (id, found) in self.all(prefix, folders).await? {
            let record = found.record(&id)?;
            if filter.matches(&record) {
                selection.take(record);
            }
        }
        let mut tasks = selection.into_tasks();
        self.name_limits(&mut tasks).await?;
        Ok(tasks)
    }

    /// Sets the limits that hold tasks back. Reads their slots; tasks without limits cost no read.
    async fn name_limits(&self, records: &mut [TaskRecord]) -> Result<(), Error> {
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
        let mut counts = BTreeMap::<(Kind, Option<StateKind>), (u64, u64)>::new();
        for (id, found) in self.all("", ALL).await? {
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

    /// Counts by a read of every task, at one revision.
    pub(crate) async fn stats(&self) -> Result<TaskStats, Error> {
        let mut counter = Counter::new(self.clock.now());
        let mut limited = Vec::new();
        for (id, found) in self.all("", ALL).await? {
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

    /// Reads every task whose id begins with `prefix`, with all that belongs to it at one revision.
    pub(super) async fn all(
        &self,
        prefix: &str,
        folders: &[&str],
    ) -> Result<HashMap<TaskId, Snapshot>, Error> {
        let mut round = 1;
        loop {
            match self.try_all(prefix, folders).await {
                Ok(all) => return Ok(all),
                Err(Fault::Compacted) if round < ROUNDS => round += 1,
                Err(fault) => return Err(fault.into_error("list the tasks")),
            }
        }
    }

    async fn try_all(
        &self,
        prefix: &str,
        folders: &[&str],
    ) -> Result<HashMap<TaskId, Snapshot>, Fault> {
        let mut all: HashMap<TaskId, Snapshot> = HashMap::new();
        let mut revision = 0;
        let new = || Snapshot {
            fences: self.reader.fences.clone(),
            ..Snapshot::default()
        };
        for folder in folders.iter().copied() {
            let from = format!("{}{folder}{prefix}", self.reader.keys.root());
            let end = end_of(&from);
            revision = (self.reader.link)
                .scan(revision, &from, &end, &mut |kv| {
                    let key = kv.key().to_vec();
                    if folder == "tasks/" {
                        let Some((id, part)) = self.reader.keys.split(&key) else {
                            return;
                        };
                        let Ok(id) = TaskId::new(id) else { return };
                        all.entry(id).or_insert_with(new).take(&part, kv);
                        return;
                    }
                    let id = self.reader.keys.strip(&key, folder);
                    let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
                        return;
                    };
                    match folder {
                        "finished/" => all.entry(id).or_insert_with(new).finished = Some(kv),
                        "state/" => {
                            all.entry(id).and_modify(|b| b.state = Some(kv));
                        }
                        PROPS_APART => {
                            all.entry(id).and_modify(|b| b.props_apart = Some(kv));
                        }
                        _ => {
                            all.entry(id).and_modify(|b| b.parked = Some(kv));
                        }
                    }
                })
                .await?;
        }
        all.retain(|_, found| found.exists());
        Ok(all)
    }
}
