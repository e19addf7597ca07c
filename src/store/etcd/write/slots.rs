//! The writes of a claim and its end to the slots of limits.

use windlass_statemachine::NodeName;

use super::edit::Edit;
use crate::store::{
    Error,
    etcd::schema::{Owner, Slot, SlotRecord, Snapshot, TaskKey, json::write},
};

/// A slot that a claim takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) slot: Slot,
    /// When the key of the slot was last written; 0 if it does not exist. `None`: the claim is a repeated one,
    /// and the key stays as it is.
    pub(crate) revision: Option<i64>,
}

/// The slots that a claim takes, and the lease of the node to which the claim is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots<'a> {
    pub(crate) token: i64,
    pub(crate) picks: &'a [Pick],
}

impl Slots<'_> {
    pub(super) fn names(&self) -> Vec<Slot> {
        self.picks.iter().map(|pick| pick.slot.clone()).collect()
    }
}

impl Edit<'_> {
    /// Writes the owner of the task, and the slots of limits that it takes.
    pub(crate) fn put_owner(
        &mut self,
        node: &NodeName,
        lease: u64,
        slots: &Slots<'_>,
    ) -> Result<(), Error> {
        let owner = Owner {
            node: node.clone(),
            lease: Some(lease),
            slots: slots.names(),
        };
        let key = self.keys.owner(self.id);
        self.item.put_on(&key, write("owner", &owner)?, slots.token);
        self.take_slots(slots)
    }

    /// Takes slots, if their keys are unchanged. Slots of limits on tasks at once end with the
    /// lease.
    fn take_slots(&mut self, slots: &Slots<'_>) -> Result<(), Error> {
        for Pick { slot, revision } in slots.picks {
            let Some(revision) = revision else { continue };
            let key = self.keys.pool_slot(&slot.pool(), slot.slot);
            self.item.touch_slot(&key);
            self.item.when_at(&key, *revision);
            let record = SlotRecord {
                task: self.id.clone(),
                start: slot.start,
            };
            let text = write("slots", &record)?;
            match slot.start {
                None => self.item.put_on(&key, text, slots.token),
                Some(_) => self.item.put(&key, text),
            }
        }
        Ok(())
    }

    /// Deletes the keys of the slots that end with a claim. The caller compares the claim.
    pub(crate) fn free_slots(&mut self, slots: &[Slot]) {
        for slot in slots.iter().filter(|slot| slot.start.is_none()) {
            let key = self.keys.pool_slot(&slot.pool(), slot.slot);
            self.item.touch_slot(&key);
            self.item.delete(&key);
        }
    }

    /// Deletes the owner's key, and the keys of its slots while they still belong to the claim.
    pub(crate) fn delete_owner(&mut self, found: &Snapshot) {
        self.delete(TaskKey::Owner);
        for slot in found.slots().iter().filter(|slot| slot.start.is_none()) {
            let key = self.keys.pool_slot(&slot.pool(), slot.slot);
            self.item.touch_slot(&key);
            self.item.delete_at(&key, found.revision_of(TaskKey::Owner));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Limit, TaskId};

    use super::*;
    use crate::store::etcd::{
        schema::{KeyValue, Keys},
        write::{
            Item,
            item::{Guard, Op},
        },
    };

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> T {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn picks() -> Vec<Pick> {
        let hour = std::time::Duration::from_secs(3600);
        let limits = [Limit::at_once("k", 3), Limit::starts("r", 3, hour)];
        let limits = limits.map(|limit| limit.unwrap_or_else(|e| panic!("{e}")));
        let slot = |limit| Slot::new(limit, 1, Timestamp::UNIX_EPOCH);
        let pick = |(limit, revision)| Pick {
            slot: slot(limit),
            revision: Some(revision),
        };
        limits.iter().zip([0, 5]).map(pick).collect()
    }

    fn edited(edit: impl FnOnce(&mut Edit<'_>)) -> Item {
        let (keys, id): (_, TaskId) = (Keys::new("n"), parsed("a"));
        let mut item = Item::of(&id);
        edit(&mut Edit::new(&keys, &id, &mut item));
        item
    }

    #[test]
    fn a_claim_takes_its_slots_if_they_are_as_found_and_names_them_in_the_owner() {
        let picks = picks();
        let slots = Slots {
            token: 9,
            picks: &picks,
        };
        let item = edited(|edit| {
            let put = edit.put_owner(&parsed("m"), 7, &slots);
            put.unwrap_or_else(|e| panic!("{e}"));
        });
        let (k, r) = ("/n/meta/slots/a/k/1", "/n/meta/slots/r/3600000/r/1");
        let when = [Guard::At(k.to_owned(), 0), Guard::At(r.to_owned(), 5)];
        assert_eq!(item.when, when);
        let start = r#""start":{"began":"1970-01-01T00:00:00Z","within_ms":3600000}"#;
        let named = format!(r#"[{{"key":"k","slot":1}},{{"key":"r","slot":1,{start}}}]"#);
        let owner = format!(r#"{{"node":"m","lease":7,"slots":{named}}}"#);
        let then = [
            Op::PutOn("/n/tasks/a/owner".to_owned(), owner, 9),
            Op::PutOn(k.to_owned(), r#"{"task":"a"}"#.to_owned(), 9),
            Op::Put(r.to_owned(), format!(r#"{{"task":"a",{start}}}"#)),
        ];
        assert_eq!(item.then, then);
        assert_eq!(
            item.touches,
            ["ta".to_owned(), format!("s{k}"), format!("s{r}")]
        );
    }

    #[test]
    fn the_end_of_a_claim_frees_the_slots_of_tasks_at_once_and_no_other() {
        let slots: Vec<Slot> = picks().into_iter().map(|pick| pick.slot).collect();
        let item = edited(|edit| edit.free_slots(&slots));
        let key = "/n/meta/slots/a/k/1".to_owned();
        assert_eq!(item.then, [Op::Delete(key.clone())]);
        let text = serde_json::to_string(&slots).unwrap_or_else(|e| panic!("{e}"));
        let value = format!(r#"{{"node":"m","lease":7,"slots":{text}}}"#);
        let found = Snapshot {
            owner: Some(KeyValue::new("/n/tasks/a/owner", &value, 8)),
            ..Snapshot::default()
        };
        let item = edited(|edit| edit.delete_owner(&found));
        let owner = Op::Delete("/n/tasks/a/owner".to_owned());
        assert_eq!(item.then, [owner, Op::DeleteAt(key, 8)]);
    }
}
