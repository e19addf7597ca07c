//! The limits that tasks use at present, for operators. Reads the live tasks, because the lines exist only in
//! the memory of each node.

use std::collections::HashMap;

use windlass_statemachine::Limit;

use super::query::{Queries, may_be_held};
use crate::store::{
    Error, LimitUse,
    etcd::{
        client::Fault,
        read::Folders,
        schema::{SlotRecord, end_of, json::parse, kv::KeyValue},
    },
    rules::limits::usage::Usage,
};

impl Queries {
    /// Returns the limits with a slot in use or a task that waits.
    pub(crate) async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error> {
        let failed = |fault: Fault| fault.into_error("read the slots of limits");
        let from = self.reader.keys.all_slots();
        let (end, mut slots) = (end_of(&from), Vec::new());
        let mut take = |kv: KeyValue| slots.push(kv);
        let read = self.reader.link.scan(0, &from, &end, &mut take).await;
        read.map_err(failed)?;
        // Without any slot keys, no limit was ever in use.
        if slots.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let mut usage = Usage::default();
        let mut free = Vec::new();
        for (id, found) in self.all("", Folders::Live).await? {
            let taken = found.slots();
            let record = found.record(&id)?;
            for slot in taken.iter().filter(|slot| slot.start.is_none()) {
                usage.slot(slot.pool(), slot.slot, slot.taken());
            }
            if !taken.is_empty() {
                record
                    .task
                    .limits
                    .iter()
                    .for_each(|limit| usage.limit(limit));
            }
            if may_be_held(&record, now) {
                free.push(record.task.limits);
            }
        }
        for kv in &slots {
            // A key that cannot be read counts as free.
            if let Some((pool, slot)) = self.reader.keys.split_slot(kv.key())
                && let Ok(record) = parse::<SlotRecord>(kv)
                && record.start.is_some_and(|start| !start.is_over(now))
            {
                usage.slot(pool, slot, record.taken());
            }
        }
        let mut known: HashMap<Limit, bool> = HashMap::new();
        for limits in free {
            let is_full = |limit: &&Limit| usage.is_full(limit, &mut known, now);
            if let Some(full) = limits.iter().find(is_full) {
                usage.waiting(full, 1);
            }
        }
        Ok(usage.list(now))
    }
}
