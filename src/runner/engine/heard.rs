//! [`Heard`]: what events say of a task that the node has, or is claiming.

use windlass_statemachine::Fence;

use crate::store::TaskView;

/// The last that was heard of a task that this node is busy with.
pub(super) enum Heard {
    View(TaskView),
    Gone { order: u64, fence: Option<Fence> },
}

impl Heard {
    /// Whether the claim with this fence, of the task with this order, is over by now.
    pub(super) fn ends(&self, claimed: u64, of: Fence) -> bool {
        match self {
            Self::View(view) => view.order > claimed,
            Self::Gone { order, fence } => {
                *order > claimed || *order == claimed && fence.is_none_or(|upto| of <= upto)
            }
        }
    }

    /// Whether it was reported before the task with this order was claimed with this fence: events
    /// and answers come by different ways.
    pub(super) fn is_before(&self, claimed: u64, of: Fence) -> bool {
        match self {
            Self::View(view) => view.order < claimed,
            Self::Gone { .. } => !self.ends(claimed, of),
        }
    }
}

/// When a task was claimed that the current list has not named so far.
#[derive(Clone, Copy)]
pub(super) enum Unlisted {
    /// Before the list began: when the list does not name the task, the claim is over.
    Before,
    /// While the list was read: the list may have passed the task before.
    Meanwhile,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(order: u64) -> Heard {
        Heard::View(TaskView {
            id: "a".parse().unwrap(),
            kind: "k".parse().unwrap(),
            labels: None,
            data_version: 1,
            priority: 0,
            order,
            due: None,
            sleeping: false,
            claimed_by: None,
            commanded: false,
        })
    }

    #[test]
    fn an_event_ends_a_claim_or_is_older_or_concerns_it() {
        let gone = |order, fence: Option<u64>| Heard::Gone {
            order,
            fence: fence.map(Fence),
        };
        for (heard, ends, is_before) in [
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
            assert_eq!(heard.ends(5, Fence(9)), ends);
            assert_eq!(heard.is_before(5, Fence(9)), is_before);
        }
    }
}
