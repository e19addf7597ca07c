//! [`Decision`]: whether a node takes a task, and when.

use std::time::Duration;

use tokio::time::Instant;

/// Whether a node takes a task.
///
/// # Example
///
/// ```
/// use windlass::balancer::Decision;
///
/// assert_eq!(Decision::from(true), Decision::Take);
/// assert_eq!(Decision::from(false), Decision::NotNow);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The node takes the task, in the order of the nodes' [`rank`](super::rank()).
    Take,
    /// The node takes the task if the task is still free after this pause. The pause starts when the
    /// balancer is asked about the free task for the first time. Nodes with a shorter pause take the
    /// task before.
    TakeAfter(Duration),
    /// The node does not take the task now. The balancer is asked again after about a second, while the
    /// task is free.
    NotNow,
    /// The node does not take the task before this time. The balancer is not asked about the task before,
    /// whatever other nodes do with the task. It is asked at this time if the task is free then, and
    /// earlier only when the task has a command or reaches its deadline
    /// ([`commanded`](crate::store::TaskView::commanded)).
    NotBefore(Instant),
}

impl From<bool> for Decision {
    /// Returns [`Take`](Decision::Take) or [`NotNow`](Decision::NotNow).
    fn from(takes: bool) -> Self {
        if takes { Self::Take } else { Self::NotNow }
    }
}
