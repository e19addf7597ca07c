//! [`Reported`]: the last event about a task that the node has claimed or is claiming.

use windlass_statemachine::Fence;

use crate::store::TaskView;

/// The last event about a task that this node has claimed or is claiming.
#[derive(Debug)]
pub(super) enum Reported {
    View(TaskView),
    Gone { order: u64, fence: Option<Fence> },
}

impl Reported {
    /// Returns whether the claim with this fence, of the task with this order, has ended.
    pub(super) fn ends(&self, claimed: u64, of: Fence) -> bool {
        match self {
            Self::View(view) => view.order > claimed,
            Self::Gone { order, fence } => {
                *order > claimed || *order == claimed && fence.is_none_or(|upto| of <= upto)
            }
        }
    }

    /// Returns whether the event is older than the claim with this fence, of the task with this order:
    /// events and answers arrive independently.
    pub(super) fn is_before(&self, claimed: u64, of: Fence) -> bool {
        match self {
            Self::View(view) => view.order < claimed,
            Self::Gone { .. } => !self.ends(claimed, of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(order: u64) -> Reported {
        Reported::View(TaskView {
            id: "a".parse().unwrap(),
            kind: "k".parse().unwrap(),
            labels: None,
            data_version: 1,
            priority: 0,
            order,
            due: None,
            deadline: None,
            sleeping: false,
            claimed_by: None,
            commanded: false,
            fair_key: None,
        })
    }

    #[test]
    fn an_event_ends_a_claim_or_is_older_or_concerns_it() {
        let gone = |order, fence: Option<u64>| Reported::Gone {
            order,
            fence: fence.map(Fence),
        };
        for (reported, ends, is_before) in [
            (view(4), false, true),
            (view(5), false, false),
            (view(6), true, false),
            (gone(4, None), false, true),
            (gone(4, Some(100)), false, true),
            (gone(5, Some(8)), false, true),
            (gone(5, Some(9)), true, false),
            (gone(5, None), true, false),
            (gone(6, Some(1)), true, false),
        ] {
            assert_eq!(reported.ends(5, Fence(9)), ends);
            assert_eq!(reported.is_before(5, Fence(9)), is_before);
        }
    }
}
