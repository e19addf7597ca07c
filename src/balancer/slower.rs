//! [`Slower`]: a node claims later, the more claims it has.

use std::time::Duration;

use windlass_statemachine::Invalid;

use super::{Balancer, Cluster, Decision};
use crate::store::TaskView;

/// The longest pause for each claim that a node has.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest pause before a claim.
const LONGEST_TOTAL: Duration = Duration::from_secs(30);

/// Takes each task that it has room for, but waits before each claim, in proportion to the claims that the
/// node has. So the node with the fewest claims takes a free task. Releases nothing.
///
/// The pause is at most 30 seconds. A node that knows no other node that could take the task does not
/// wait. A pause is longer than the time by which the [`rank`](super::rank()) of nodes separates their
/// claims (50 ms for each node), when the numbers of claims differ enough.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::balancer::Slower;
///
/// let balancer = Slower::new(Duration::from_millis(30))?;
/// assert_eq!(Slower::default(), balancer);
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slower {
    per_claim: Duration,
}

impl Default for Slower {
    /// Returns the balancer with a pause of 30 ms for each claim.
    fn default() -> Self {
        Self {
            per_claim: Duration::from_millis(30),
        }
    }
}

impl Slower {
    /// Returns the balancer with this pause for each claim that the node has.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the pause is 0 or above 10 seconds.
    pub fn new(per_claim: Duration) -> Result<Self, Invalid> {
        if per_claim.is_zero() || per_claim > LONGEST {
            let reason = format!("{per_claim:?} is not between 1ns and {LONGEST:?}");
            return Err(Invalid::new("claim_delay", reason));
        }
        Ok(Self { per_claim })
    }
}

impl Balancer for Slower {
    fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
        let could_take = cluster.others.iter().any(|o| o.could_take(task.into()));
        let claims = u32::try_from(cluster.me.claims).unwrap_or(u32::MAX);
        let pause = self.per_claim.saturating_mul(claims).min(LONGEST_TOTAL);
        match could_take && !pause.is_zero() {
            true => Decision::TakeAfter(pause),
            false => Decision::Take,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Peer, tests::task},
        *,
    };

    fn decides(claims: u64, others: &[Peer]) -> Decision {
        let me = Peer {
            claims,
            ..Peer::new("me".parse().unwrap())
        };
        Slower::default().takes(&Cluster::new(&me, others), &task())
    }

    #[test]
    fn the_pause_grows_with_the_claims_up_to_a_bound() {
        let others = [Peer::new("b".parse().unwrap())];
        assert_eq!(decides(0, &others), Decision::Take);
        let after = |ms| Decision::TakeAfter(Duration::from_millis(ms));
        assert_eq!(decides(1, &others), after(30));
        assert_eq!(decides(20, &others), after(600));
        assert_eq!(decides(99_999, &others), after(30_000));
    }

    #[test]
    fn a_node_waits_only_for_nodes_that_could_take_the_task() {
        assert_eq!(decides(20, &[]), Decision::Take, "it is alone");
        let full = Peer {
            claims: 100,
            ..Peer::new("b".parse().unwrap())
        };
        let unable = Peer {
            kinds: Some(vec!["other".parse().unwrap()]),
            ..Peer::new("c".parse().unwrap())
        };
        assert_eq!(decides(20, &[full, unable]), Decision::Take);
    }

    #[test]
    fn absurd_pauses_are_named() {
        for pause in [Duration::ZERO, Duration::from_secs(11), Duration::MAX] {
            let error = Slower::new(pause).unwrap_err();
            assert_eq!(error.field(), "claim_delay");
        }
        assert!(Slower::new(LONGEST).is_ok());
    }
}
