//! Fences: the revision that wrote a claim, and more where tasks came from another store.
//!
//! A task that comes from another store may have had greater fences than this etcd has revisions. So
//! the namespace remembers from which revision on how much is added: bases only grow, and with them the
//! fences, from one mark to the next.

use std::sync::{Arc, PoisonError, RwLock};

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Fence, Invalid};

use super::{
    Inner,
    errors::Fault,
    keys::end_of,
    read::{kv, revision},
    records,
};
use crate::store::Error;

/// `/NS/meta/fences`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Marks {
    /// From this revision on, this is added; in order.
    #[serde(default)]
    marks: Vec<(i64, u64)>,
}

/// What is added to revisions. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Fences(Arc<RwLock<Marks>>);

fn number(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

impl Marks {
    fn fence(&self, revision: i64) -> Fence {
        let passed = self.marks.iter().rev().find(|(from, _)| *from <= revision);
        let base = passed.map_or(0, |(_, base)| *base);
        Fence(number(revision).saturating_add(base))
    }

    fn revision(&self, fence: Fence) -> i64 {
        let mut marks = self.marks.iter().rev();
        let passed = marks.find(|(from, base)| number(*from).saturating_add(*base) <= fence.0);
        let base = passed.map_or(0, |(_, base)| *base);
        i64::try_from(fence.0 - base.min(fence.0)).unwrap_or(i64::MAX)
    }
}

impl Fences {
    /// The fence of the claim that was written at this revision.
    pub(super) fn of(&self, revision: i64) -> Fence {
        let marks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        marks.fence(revision)
    }

    /// The revision that a claim was written at.
    pub(super) fn revision(&self, fence: Fence) -> i64 {
        let marks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        marks.revision(fence)
    }

    fn set(&self, marks: Marks) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = marks;
    }
}

impl Inner {
    /// Reads what is added here. Every node does so when it joins: as long as one lives, nothing
    /// changes.
    pub(super) async fn load_fences(&self) -> Result<(), Fault> {
        if let Some(kv) = self.get_key(&self.keys.fences()).await? {
            let unreadable = |reason| {
                let key = self.keys.fences();
                Fault::Refused(Error::Corrupt { what: key, reason })
            };
            self.fences.set(records::parse(&kv).map_err(unreadable)?);
        }
        Ok(())
    }

    /// Makes sure that every claim from now on has a greater fence than this one.
    pub(super) async fn fences_above(&self, fence: Fence) -> Result<(), Error> {
        const OPERATION: &str = "raise the fences";
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let key = self.keys.fences();
        for _ in 0..5 {
            let read = self
                .link
                .txn(Txn::new().and_then([TxnOp::get(&*key, None)]));
            let read = read.await.map_err(failed)?;
            let now = read.header().map_or(0, |header| header.revision());
            let stored = kv(read.op_responses().into_iter().next());
            let marks = stored.as_ref().map(records::parse::<Marks>).transpose();
            let mut marks = marks.map_err(|reason| Error::Corrupt {
                what: key.clone(),
                reason,
            })?;
            let mut marks = marks.take().unwrap_or_default();
            if marks.fence(now + 1) > fence {
                self.fences.set(marks);
                return Ok(());
            }
            marks.marks.push((now + 1, fence.0));
            let nodes = self.keys.nodes();
            let unchanged =
                Compare::mod_revision(&*key, CompareOp::Equal, revision(stored.as_ref()));
            // A node has read what was there when it joined.
            let no_node = Compare::create_revision(&*nodes, CompareOp::Equal, 0);
            let txn = Txn::new()
                .when([unchanged, no_node.with_range(end_of(&nodes))])
                .and_then([TxnOp::put(&*key, records::write("fences", &marks)?, None)])
                .or_else([TxnOp::get(
                    &*nodes,
                    Some(
                        etcd_client::GetOptions::new()
                            .with_range(end_of(&nodes))
                            .with_limit(1),
                    ),
                )]);
            let done = self.link.txn(txn).await.map_err(failed)?;
            if done.succeeded() {
                self.fences.set(marks);
                return Ok(());
            }
            if kv(done.op_responses().into_iter().next()).is_some() {
                let reason = "has nodes that live, and they would go on with lesser fences than \
                              those of the tasks that come; stop them first";
                return Err(Invalid::new("namespace", reason).into());
            }
        }
        Err(Error::unavailable(OPERATION, "they change too often"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_grow_from_mark_to_mark_and_lead_back() {
        let marks = Marks {
            marks: vec![(10, 1000), (20, 5000)],
        };
        let mut last = Fence(0);
        for revision in 1..40 {
            let fence = marks.fence(revision);
            assert!(fence > last);
            assert_eq!(marks.revision(fence), revision);
            last = fence;
        }
        assert_eq!(marks.fence(9), Fence(9));
        assert_eq!(marks.fence(10), Fence(1010));
        assert_eq!(marks.fence(20), Fence(5020));
    }
}
