//! [`Usage`]: the limits that tasks use at present, for operators.

use std::collections::BTreeMap;
#[cfg(feature = "etcd")]
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Limit;

use super::{Pool, Taken, Used, free, numbers};
use crate::store::{LimitForm, LimitUse};

/// The slots in use and the lines of a namespace, as read from a store.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pools: BTreeMap<Pool, InUse>,
}

#[derive(Debug, Default)]
struct InUse {
    /// The limit with the greatest number.
    limit: Option<Limit>,
    used: Used,
    waiting: u64,
}

impl Usage {
    /// Counts a slot in use.
    pub(crate) fn slot(&mut self, pool: Pool, slot: u32, taken: Taken) {
        let pool = self.pools.entry(pool).or_default();
        pool.used.insert(slot, taken);
    }

    /// Records a limit of a task that is claimed or waits in a line, as the task declares it. Of equal ones it keeps one whose
    /// key comes from a template, because that says where the key comes from.
    pub(crate) fn limit(&mut self, limit: &Limit) {
        let pool = self.pools.entry(Pool::of(limit)).or_default();
        let rank = |limit: &Limit| (numbers(limit).0, limit.template().is_some());
        if pool.limit.as_ref().map(rank) < Some(rank(limit)) {
            pool.limit = Some(limit.clone());
        }
    }

    /// Counts tasks that wait in the line of a limit.
    pub(crate) fn waiting(&mut self, limit: &Limit, tasks: u64) {
        self.limit(limit);
        self.waiting_for(Pool::of(limit), tasks);
    }

    /// Counts tasks that wait in a line, of which it is not known how they declare the limit.
    pub(crate) fn waiting_for(&mut self, pool: Pool, tasks: u64) {
        self.pools.entry(pool).or_default().waiting += tasks;
    }

    /// Returns whether no slot of a limit is free. `known`: the results so far, because many tasks have the
    /// same limits.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_full(
        &self,
        limit: &Limit,
        known: &mut HashMap<Limit, bool>,
        now: Timestamp,
    ) -> bool {
        if let Some(is_full) = known.get(limit) {
            return *is_full;
        }
        let used = self.pools.get(&Pool::of(limit)).map(|pool| &pool.used);
        let used = used.into_iter().flatten();
        let is_full = free(limit, used.map(|(slot, taken)| (*slot, *taken)), now).slots == 0;
        known.insert(limit.clone(), is_full);
        is_full
    }

    /// Returns the limits with a slot in use or a task that waits, by key.
    pub(crate) fn list(self, now: Timestamp) -> Vec<LimitUse> {
        let pools = self.pools.into_iter();
        let counted = pools.map(|(pool, in_use)| in_use.counted(pool, now));
        counted
            .filter(|one| one.taken > 0 || one.waiting > 0)
            .collect()
    }
}

impl InUse {
    fn counted(self, pool: Pool, now: Timestamp) -> LimitUse {
        let within = pool
            .within
            .and_then(|within| SignedDuration::try_from(within).ok());
        let counts = |taken: &&Taken| taken.over(within, now).is_none_or(|over| over > now);
        let taken = self.used.values().filter(counts).count();
        let next = self.limit.as_ref().and_then(|limit| {
            let used = self.used.iter().map(|(slot, taken)| (*slot, *taken));
            free(limit, used, now).until
        });
        LimitUse {
            key: pool.key,
            form: match pool.within {
                Some(_) => LimitForm::Starts,
                None => LimitForm::AtOnce,
            },
            within: pool.within,
            limit: self.limit,
            taken: u32::try_from(taken).unwrap_or(u32::MAX),
            waiting: self.waiting,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    fn pool(key: &str, within: Option<Duration>) -> Pool {
        let key = key.to_owned();
        Pool { key, within }
    }

    #[test]
    fn a_limit_is_listed_while_it_has_a_slot_in_use_or_a_line() {
        let mut usage = Usage::default();
        let held = Limit::at_once("held", 3).unwrap();
        usage.slot(pool("held", None), 0, Taken::Held);
        usage.slot(pool("held", None), 4, Taken::Held);
        usage.limit(&Limit::at_once("held", 2).unwrap());
        usage.limit(&held);
        usage.limit(&Limit::at_once("held", 1).unwrap());
        usage.limit(&Limit::at_once("idle", 1).unwrap());
        usage.slot(pool("over", MINUTE), 0, Taken::Began(at(10)));
        usage.slot(pool("ended", MINUTE), 0, Taken::Began(at(50)));
        let rate = Limit::starts("rate", 2, Duration::from_secs(60)).unwrap();
        usage.slot(pool("rate", MINUTE), 0, Taken::Began(at(20)));
        usage.slot(pool("rate", MINUTE), 1, Taken::Began(at(30)));
        usage.waiting(&rate, 7);
        let listed = usage.list(at(70));
        let shown: Vec<_> = listed
            .iter()
            .map(|one| (one.key.as_str(), one.limit.clone(), one.taken, one.waiting))
            .collect();
        assert_eq!(
            shown,
            [
                ("ended", None, 1, 0),
                ("held", Some(held), 2, 0),
                ("rate", Some(rate), 2, 7),
            ]
        );
        let next: Vec<_> = listed.iter().map(|one| one.next).collect();
        assert_eq!(next, [None, None, Some(at(80))]);
    }
}
