//! The slots of limits: a key for each slot, and the list of a claim's slots in the owner's key.
//!
//! A claim writes its owner's key and its slots in one revision. A slot of a limit on tasks at once is taken
//! while the owner's key of its task has the revision of the slot, so that any deletion of the owner's key
//! frees the slot in the same write. The key of a free slot may still exist.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Bound, Limit, TaskId};

use super::{json::parse, keys::Keys, kv::KeyValue};
use crate::store::rules::limits::{Pool, Taken, is_ahead};

/// A slot that a claim has taken, as listed in its owner's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// The key of the limit.
    pub(crate) key: String,
    pub(crate) slot: u32,
    /// The start, for a limit on starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Start>,
}

/// When a claim took a slot of a limit on starts, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) began: Timestamp,
    pub(crate) within_ms: u64,
}

/// The value of the key of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub(crate) task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Start>,
}

impl Start {
    fn within(&self) -> SignedDuration {
        SignedDuration::from_millis(i64::try_from(self.within_ms).unwrap_or(i64::MAX))
    }

    /// Returns whether the period is over.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        let over = self.began.checked_add(self.within());
        over.is_ok_and(|over| over <= now)
    }

    /// Returns whether a claim with this start, read now, has taken the slot from the claim with another start. A
    /// repeated claim names its first start, which is the older one. A start by a clock that was ahead does not
    /// count.
    pub(crate) fn replaces(&self, other: &Self, now: Timestamp) -> bool {
        self.began >= other.began || is_ahead(other.began, other.within(), now)
    }
}

fn taken(start: Option<Start>) -> Taken {
    start.map_or(Taken::Held, |start| Taken::Began(start.began))
}

impl Slot {
    /// Returns the slot with this number for a claim that is made `now`.
    pub(crate) fn new(limit: &Limit, slot: u32, now: Timestamp) -> Self {
        let start = match limit.bound() {
            Bound::AtOnce(_) => None,
            Bound::Starts { within, .. } => Some(Start {
                began: now,
                within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
            }),
        };
        Self {
            key: limit.key().to_owned(),
            slot,
            start,
        }
    }

    pub(crate) fn pool(&self) -> Pool {
        Pool {
            key: self.key.clone(),
            within: self
                .start
                .map(|start| Duration::from_millis(start.within_ms)),
        }
    }

    pub(crate) fn taken(&self) -> Taken {
        taken(self.start)
    }
}

impl SlotRecord {
    pub(crate) fn taken(&self) -> Taken {
        taken(self.start)
    }
}

/// The part of an owner's key that lists its slots.
#[derive(Deserialize)]
struct WithSlots {
    #[serde(default)]
    slots: Vec<Slot>,
}

/// Returns the slots of a claim from its owner's key. Most claims have none.
pub(crate) fn slots_of(owner: &KeyValue) -> Vec<Slot> {
    let named: &[u8] = b"\"slots\"";
    if !owner.value().windows(named.len()).any(|some| some == named) {
        return Vec::new();
    }
    parse::<WithSlots>(owner).map_or_else(|_| Vec::new(), |with| with.slots)
}

impl Keys {
    /// Returns the prefix of the slots of all limits.
    pub(crate) fn all_slots(&self) -> String {
        format!("{}meta/slots/", self.root())
    }

    /// Returns the prefix of the slots of all limits on starts.
    pub(crate) fn all_starts(&self) -> String {
        format!("{}meta/slots/r/", self.root())
    }

    /// Returns the prefix of the slots of a pool.
    pub(crate) fn pool(&self, pool: &Pool) -> String {
        let (root, key) = (self.root(), &pool.key);
        match pool.within {
            Some(within) => format!("{root}meta/slots/r/{}/{key}/", within.as_millis()),
            None => format!("{root}meta/slots/a/{key}/"),
        }
    }

    pub(crate) fn pool_slot(&self, pool: &Pool, slot: u32) -> String {
        format!("{}{slot}", self.pool(pool))
    }

    /// Splits the key of a slot into its pool and its number.
    pub(crate) fn split_slot(&self, key: &[u8]) -> Option<(Pool, u32)> {
        let (form, rest) = self.strip(key, "meta/slots/")?.split_once('/')?;
        let (within, rest) = match form {
            "a" => (None, rest),
            "r" => {
                let (millis, rest) = rest.split_once('/')?;
                (Some(Duration::from_millis(millis.parse().ok()?)), rest)
            }
            _ => return None,
        };
        let (key, slot) = rest.split_once('/')?;
        let key = key.to_owned();
        Some((Pool { key, within }, slot.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limit: Result<Limit, windlass_statemachine::Invalid>) -> Limit {
        limit.unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_key_of_a_slot_is_split_into_pool_and_number() {
        let keys = Keys::new("n");
        let limits = [
            limit(Limit::at_once("customer=a b", 3)),
            limit(Limit::starts("..", 3, Duration::from_secs(1))),
        ];
        for (limit, key) in limits.iter().zip(["a/customer=a b", "r/1000/.."]) {
            let key = format!("/n/meta/slots/{key}/17");
            let pool = Pool::of(limit);
            assert_eq!(keys.pool_slot(&pool, 17), key);
            assert_eq!(keys.split_slot(key.as_bytes()), Some((pool, 17)));
            assert!(keys.is_meta(key.as_bytes()), "{key}");
        }
        for key in [
            "/n/meta/slots/x/k/1",
            "/n/meta/slots/a/k/x",
            "/n/meta/slots/a/k/1/2",
            "/n/meta/slots/r/k/1",
            "/n/meta/slots/r/1s/k/1",
        ] {
            assert_eq!(keys.split_slot(key.as_bytes()), None, "{key}");
            assert!(!keys.is_meta(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn an_owner_names_its_slots_and_older_nodes_name_none() {
        let of = |value: &str| slots_of(&KeyValue::new("/n/tasks/a/owner", value, 1));
        assert_eq!(of(r#"{"node":"m"}"#), []);
        assert_eq!(of("m"), []);
        let now = Timestamp::UNIX_EPOCH;
        let slots = [
            Slot::new(&limit(Limit::at_once("k", 3)), 2, now),
            Slot::new(
                &limit(Limit::starts("r", 3, Duration::from_secs(1))),
                0,
                now,
            ),
        ];
        let text = serde_json::to_string(&slots).unwrap_or_else(|e| panic!("{e}"));
        let read = of(&format!(r#"{{"node":"m","lease":7,"slots":{text}}}"#));
        assert_eq!(read, slots);
        assert_eq!(
            [read[0].taken(), read[1].taken()],
            [Taken::Held, Taken::Began(now)]
        );
        let start = read[1].start.unwrap_or_else(|| panic!("no start"));
        let after = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        assert_eq!(
            [start.is_over(after(999)), start.is_over(after(1000))],
            [false, true]
        );
    }
}
