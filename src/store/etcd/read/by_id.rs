//! Reads the tasks of a namespace in the order of their ids, block by block, each block at one revision.

use std::collections::BTreeMap;

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse};
use windlass_statemachine::TaskId;

use super::{
    blocks::{Count, Found, Ids},
    reader::Reader,
};
use crate::store::etcd::{
    client::{Fault, Limit, kvs},
    schema::{KeyValue, Part, Snapshot, keys::PROPS_APART, ranges::is_pointer},
};

/// The tasks that a list reads. Ended ones have their own folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folders {
    All,
    Live,
    Ended,
}

impl Folders {
    /// Returns the folders whose keys determine which tasks exist.
    pub(crate) fn of_tasks(self) -> &'static [&'static str] {
        match self {
            Self::All => &["tasks/", "finished/"],
            Self::Live => &["tasks/"],
            Self::Ended => &["finished/"],
        }
    }

    /// Returns every folder with a part of these tasks, starting with those of `of_tasks`.
    pub(crate) fn of_parts(self) -> &'static [&'static str] {
        match self {
            Self::All => &["tasks/", "finished/", "state/", "parked/", PROPS_APART],
            Self::Live => &["tasks/", "state/", "parked/", PROPS_APART],
            // A mark in `parked/` quarantines an ended task too.
            Self::Ended => &["finished/", "state/", "parked/"],
        }
    }
}

/// Counts the keys in these folders.
pub(crate) struct Counting<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) folders: &'static [&'static str],
}

impl Reader {
    fn range(&self, folder: &str, ids: &Ids, options: GetOptions) -> TxnOp {
        let key = |id: &[u8]| [self.keys.root().as_bytes(), folder.as_bytes(), id].concat();
        TxnOp::get(key(&ids.from), Some(options.with_range(key(&ids.end))))
    }

    /// Applies a key of one of the folders of [`Folders::of_parts`]; those of `of_tasks` come first.
    pub(crate) fn take_in(&self, folder: &str, kv: KeyValue, all: &mut BTreeMap<TaskId, Snapshot>) {
        let new = || Snapshot {
            fences: self.fences.clone(),
            ..Snapshot::default()
        };
        let key = kv.key().to_vec();
        if folder == "tasks/" {
            let Some((id, part)) = self.keys.split(&key) else {
                return;
            };
            let Ok(id) = TaskId::new(id) else { return };
            let found = all.entry(id).or_insert_with(new);
            match part {
                Part::Command(_) if is_pointer(&kv) => found.others.push(key.clone()),
                part => found.take(&part, kv),
            }
            return;
        }
        let id = self.keys.strip(&key, folder);
        let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
            return;
        };
        if folder == "finished/" {
            all.entry(id).or_insert_with(new).finished = Some(kv);
        } else if let Some(found) = all.get_mut(&id) {
            match folder {
                "state/" => found.state = Some(kv),
                PROPS_APART => found.props_apart = Some(kv),
                _ => found.parked = Some(kv),
            }
        }
    }

    /// Reads the keys of a block in one folder.
    pub(crate) async fn keys_of(&self, folder: &str, ids: &Ids) -> Result<Vec<KeyValue>, Fault> {
        let read = Txn::new().and_then([self.range(folder, ids, GetOptions::new())]);
        let answer = self.link.txn(read).await?;
        Ok(answer.op_responses().into_iter().flat_map(kvs).collect())
    }

    /// Reads the tasks of a block, by id.
    pub(crate) async fn block(
        &self,
        folders: Folders,
        ids: &Ids,
    ) -> Result<BTreeMap<TaskId, Snapshot>, Fault> {
        let parts = folders.of_parts();
        let gets = parts
            .iter()
            .map(|folder| self.range(folder, ids, GetOptions::new()));
        let read = Txn::new().and_then(gets.collect::<Vec<_>>());
        let answer = self.link.txn(read).await?;
        let mut all = BTreeMap::new();
        for (folder, got) in parts.iter().zip(answer.op_responses()) {
            for kv in kvs(got) {
                self.take_in(folder, kv, &mut all);
            }
        }
        all.retain(|_, found| found.exists());
        for found in all.values_mut() {
            found.queue.sort_by_key(|stored| stored.order);
        }
        // The parts of an id with which the end begins may come after the end: `a/owner` comes after
        // `a-b`.
        let is_cut = |id: &&TaskId| ids.end.starts_with(id.as_str().as_bytes());
        let cut: Vec<TaskId> = all.keys().filter(is_cut).cloned().collect();
        for (id, found) in cut.iter().zip(self.read_many(&cut).await) {
            let found = found?;
            match found.exists() {
                true => all.insert(id.clone(), found),
                false => all.remove(id),
            };
        }
        Ok(all)
    }
}

impl Count for Counting<'_> {
    async fn count(&self, ranges: &[Ids]) -> Result<Vec<Found>, Fault> {
        let folders = self.folders;
        let mut counted = Vec::with_capacity(ranges.len());
        while counted.len() < ranges.len() {
            let operations = self.reader.capacity.operations();
            let size = (operations / folders.len()).max(1);
            let rest = &ranges[counted.len()..];
            let some = &rest[..size.min(rest.len())];
            let options = || GetOptions::new().with_limit(1).with_keys_only();
            let gets = some.iter().flat_map(|ids| {
                let reader = self.reader;
                folders
                    .iter()
                    .map(move |folder| reader.range(folder, ids, options()))
            });
            let read = Txn::new().and_then(gets.collect::<Vec<_>>());
            let answer = match self.reader.link.txn(read).await {
                Ok(answer) => answer,
                Err(fault) => {
                    if matches!(fault, Fault::OverLimit(Limit::Operations, _)) {
                        let sent = some.len() * folders.len();
                        self.reader.capacity.learn(Limit::Operations, sent);
                    }
                    if self.reader.capacity.has_shrunk(operations, &fault) {
                        continue;
                    }
                    return Err(fault);
                }
            };
            let mut responses = answer.op_responses().into_iter();
            for _ in some {
                let of_folders = folders.iter().zip(responses.by_ref());
                let found = of_folders.filter_map(|(folder, got)| self.found(folder, got));
                counted.push(found.fold(Found::default(), |all, one| all.and(one)));
            }
        }
        Ok(counted)
    }
}

impl Counting<'_> {
    fn found(&self, folder: &str, response: TxnOpResponse) -> Option<Found> {
        let TxnOpResponse::Get(got) = response else {
            return None;
        };
        let key = got.kvs().first()?.key();
        let skip = self.reader.keys.root().len() + folder.len();
        Some(Found {
            keys: usize::try_from(got.count()).unwrap_or_default(),
            first: key.get(skip..)?.to_vec(),
        })
    }
}

impl Found {
    /// Returns the sum of two folders.
    fn and(self, other: Self) -> Self {
        let first = match (self.keys, other.keys) {
            (0, _) => other.first,
            (_, 0) => self.first,
            _ => self.first.min(other.first),
        };
        let keys = self.keys + other.keys;
        Self { keys, first }
    }
}
