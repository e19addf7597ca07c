//! The slots of limits, as a batch of claims reads them. Each claim picks different slots.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use etcd_client::{Txn, TxnOp};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use windlass_statemachine::{Limit, TaskId};

use crate::store::{
    LimitedBy,
    etcd::{
        client::{Fault, kv},
        read::Reader,
        schema::{Slot, SlotRecord, Snapshot, json::parse},
        write::slots::Pick,
    },
    rules::limits::{
        Free, NextSlot, Pool, Taken, free, next_slot,
        reserve::{Reserver, with_kept},
    },
};

/// How many ranges of slots are read at once.
const AT_ONCE: usize = 16;
/// The most owners of slots that one transaction reads.
const OWNERS: usize = 100;

/// The key of a slot, as it was read, or as a claim of the batch is about to write it.
#[derive(Debug, Clone)]
struct Found {
    revision: i64,
    /// `None`: the slot is free, and its key still exists.
    taken: Option<Taken>,
    /// The task whose claim wrote the key; `None` when a claim of this batch takes it.
    task: Option<TaskId>,
}

/// A claim without a free slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Full {
    /// The first of its limits that is full.
    pub(crate) limit: Limit,
    /// The last revision that wrote one of the slots. A watch that has reached this revision knows
    /// about them.
    pub(crate) revision: i64,
}

/// A claim that was refused because a limit is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) task: TaskId,
    /// `None`: others kept taking the slots that it picked.
    pub(crate) full: Option<Full>,
}

type Slots = HashMap<Pool, BTreeMap<u32, Found>>;

/// The slots of the limits of some tasks. Clones share them.
#[derive(Clone)]
pub(crate) struct SlotTable {
    reader: Reader,
    slots: Arc<Mutex<Slots>>,
    /// The pools whose owners were checked.
    checked: Arc<Mutex<HashSet<Pool>>>,
}

/// Returns the limits of a task, by its envelope. Most tasks have none.
fn limits_of(found: &Snapshot) -> Vec<Limit> {
    let named: &[u8] = b"\"limits\"";
    let value = found.task.as_ref().map_or(&[][..], |kv| kv.value());
    if !value.windows(named.len()).any(|some| some == named) {
        return Vec::new();
    }
    let terms = found
        .envelope()
        .ok()
        .and_then(|(envelope, _)| envelope.terms);
    terms.map_or_else(Vec::new, |terms| terms.limits)
}

impl SlotTable {
    /// Reads the slots of the limits of these tasks. Tasks without limits cost no read.
    pub(crate) async fn read(
        reader: &Reader,
        tasks: impl IntoIterator<Item = &Snapshot>,
    ) -> Result<Self, Fault> {
        let limits = tasks.into_iter().flat_map(limits_of);
        let pools: HashSet<Pool> = limits.map(|limit| Pool::of(&limit)).collect();
        Self::of_pools(reader, pools).await
    }

    /// Reads the slots of these pools.
    pub(crate) async fn of_pools(
        reader: &Reader,
        pools: impl IntoIterator<Item = Pool>,
    ) -> Result<Self, Fault> {
        let reads = pools.into_iter().map(|pool| async move {
            let slots = read_pool(reader, &pool).await?;
            Ok::<_, Fault>((pool, slots))
        });
        let reads: Vec<_> = reads.collect();
        let read: Vec<_> = stream::iter(reads)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(Self {
            reader: reader.clone(),
            slots: Arc::new(Mutex::new(read.into_iter().collect())),
            checked: Arc::default(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks one slot of each limit, except the slots that are kept for the reserver.
    pub(crate) async fn pick(
        &self,
        limits: &[Limit],
        reserver: Option<&Reserver>,
        now: Timestamp,
    ) -> Result<Result<Vec<Pick>, Full>, Fault> {
        loop {
            let full = match pick(&mut self.slots(), (limits, reserver), now) {
                Ok(picks) => return Ok(Ok(picks)),
                Err(full) => full,
            };
            if !self.free_keys_that_remain(&Pool::of(&full.limit)).await? {
                return Ok(Err(full));
            }
        }
    }

    /// Returns the first of these limits that is full.
    pub(crate) async fn limited_by(
        &self,
        limits: &[Limit],
        now: Timestamp,
    ) -> Result<Option<LimitedBy>, Fault> {
        for limit in limits {
            let pool = Pool::of(limit);
            let mut free = self.free(limit, now);
            if free.slots == 0 && self.free_keys_that_remain(&pool).await? {
                free = self.free(limit, now);
            }
            if free.slots == 0 {
                return Ok(Some(LimitedBy {
                    until: free.until,
                    ..LimitedBy::new(limit.clone())
                }));
            }
        }
        Ok(None)
    }

    fn free(&self, limit: &Limit, now: Timestamp) -> Free {
        let slots = self.slots();
        let of_pool = slots.get(&Pool::of(limit)).into_iter().flatten();
        free(
            limit,
            of_pool.filter_map(|(n, found)| Some((*n, found.taken?))),
            now,
        )
    }

    /// Looks for slots of a full pool whose claim has ended while their key still exists. Returns whether
    /// there are any. Looks only once.
    async fn free_keys_that_remain(&self, pool: &Pool) -> Result<bool, Fault> {
        let is_first = {
            let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
            checked.insert(pool.clone())
        };
        if pool.within.is_some() || !is_first {
            return Ok(false);
        }
        let held: Vec<(u32, i64, TaskId)> = {
            let slots = self.slots();
            let of_pool = slots.get(pool).into_iter().flatten();
            let held = of_pool
                .filter_map(|(slot, found)| Some((*slot, found.revision, found.task.clone()?)));
            held.collect()
        };
        let mut is_any = false;
        for some in held.chunks(self.reader.capacity.operations().clamp(1, OWNERS)) {
            let keys = some.iter().map(|(_, _, task)| self.reader.keys.owner(task));
            let gets: Vec<TxnOp> = keys.map(|key| TxnOp::get(key, None)).collect();
            let answer = self.reader.link.txn(Txn::new().and_then(gets)).await?;
            for ((slot, revision, _), owner) in some.iter().zip(answer.op_responses()) {
                if kv(Some(owner)).is_some_and(|owner| owner.mod_revision() == *revision) {
                    continue;
                }
                let mut slots = self.slots();
                let found = slots
                    .get_mut(pool)
                    .and_then(|of_pool| of_pool.get_mut(slot));
                if let Some(found) = found.filter(|found| found.revision == *revision) {
                    found.taken = None;
                    is_any = true;
                }
            }
        }
        Ok(is_any)
    }
}

async fn read_pool(reader: &Reader, pool: &Pool) -> Result<BTreeMap<u32, Found>, Fault> {
    let (kvs, _) = reader.link.get_all(&reader.keys.pool(pool)).await?;
    let found = kvs.iter().filter_map(|kv| {
        let (_, slot) = reader.keys.split_slot(kv.key())?;
        // A key that cannot be read counts as free: its value does not belong to a claim of
        // windlass.
        let record = parse::<SlotRecord>(kv).ok();
        let found = Found {
            revision: kv.mod_revision(),
            taken: record.as_ref().map(SlotRecord::taken),
            task: record.map(|record| record.task),
        };
        Some((slot, found))
    });
    Ok(found.collect())
}

/// Picks one slot of each limit, or none.
fn pick(
    slots: &mut Slots,
    (limits, reserver): (&[Limit], Option<&Reserver>),
    now: Timestamp,
) -> Result<Vec<Pick>, Full> {
    let mut picks = Vec::with_capacity(limits.len());
    for limit in limits {
        let pool = Pool::of(limit);
        let of_pool = slots.entry(pool.clone()).or_default();
        let taken = of_pool
            .iter()
            .filter_map(|(slot, found)| Some((*slot, found.taken?)));
        let taken = with_kept(reserver, &pool, taken.collect(), now);
        let NextSlot::Free(slot) = next_slot(limit, taken, now) else {
            return Err(Full {
                limit: limit.clone(),
                revision: of_pool
                    .values()
                    .map(|found| found.revision)
                    .max()
                    .unwrap_or(0),
            });
        };
        picks.push(Pick {
            slot: Slot::new(limit, slot, now),
            revision: Some(of_pool.get(&slot).map_or(0, |found| found.revision)),
        });
    }
    for Pick { slot, revision } in &picks {
        let found = Found {
            revision: revision.unwrap_or(0),
            taken: Some(slot.taken()),
            task: None,
        };
        slots
            .entry(slot.pool())
            .or_default()
            .insert(slot.slot, found);
    }
    Ok(picks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit(limit: Result<Limit, windlass_statemachine::Invalid>) -> Limit {
        limit.unwrap_or_else(|e| panic!("{e}"))
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_claims_of_a_batch_pick_different_slots_of_all_their_limits_or_none() {
        let many = limit(Limit::at_once("many", 3));
        let one = limit(Limit::at_once("one", 1));
        let limits = [many.clone(), one.clone()];
        let mut slots = Slots::new();
        let picked = |picked: Result<Vec<Pick>, Full>| {
            let picks = picked.map_err(|full| full.limit)?;
            Ok::<Vec<u32>, Limit>(picks.iter().map(|pick| pick.slot.slot).collect())
        };
        assert_eq!(
            picked(pick(&mut slots, (&limits, None), at(0))),
            Ok(vec![0, 0])
        );
        assert_eq!(picked(pick(&mut slots, (&limits, None), at(0))), Err(one));
        let alone = [many.clone()];
        assert_eq!(picked(pick(&mut slots, (&alone, None), at(0))), Ok(vec![1]));
        assert_eq!(picked(pick(&mut slots, (&alone, None), at(0))), Ok(vec![2]));
        assert_eq!(picked(pick(&mut slots, (&alone, None), at(0))), Err(many));
    }

    #[test]
    fn a_claim_leaves_the_slot_that_is_kept_for_another_task() {
        let one = [limit(Limit::at_once("one", 1))];
        let reserver = Reserver {
            order: 1,
            limits: vec![one[0].clone(), limit(Limit::at_once("two", 1))],
        };
        let mut slots = Slots::new();
        let refused = pick(&mut slots, (&one, Some(&reserver)), at(0));
        assert_eq!(refused.map_err(|full| full.limit), Err(one[0].clone()));
        assert!(pick(&mut slots, (&one, None), at(0)).is_ok());
    }

    #[test]
    fn a_pick_compares_the_key_of_a_slot_that_is_free_again() {
        let rate = limit(Limit::starts("r", 1, Duration::from_millis(100)));
        let found = |taken| Found {
            revision: 7,
            taken,
            task: None,
        };
        let mut slots = Slots::new();
        let began = found(Some(Taken::Began(at(5))));
        slots.insert(Pool::of(&rate), [(0, began)].into());
        let limits = [rate];
        let full = pick(&mut slots, (&limits, None), at(104)).map_err(|full| full.revision);
        assert_eq!(full, Err(7));
        let picks = pick(&mut slots, (&limits, None), at(105)).unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!((picks[0].slot.slot, picks[0].revision), (0, Some(7)));
        let at_once = [limit(Limit::at_once("k", 1))];
        slots.insert(Pool::of(&at_once[0]), [(0, found(None))].into());
        let picks = pick(&mut slots, (&at_once, None), at(0)).unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!((picks[0].slot.slot, picks[0].revision), (0, Some(7)));
    }
}
