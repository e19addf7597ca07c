//! Which logs of a task are wanted.

use windlass::Fence;

use crate::logs::Claim;

/// The attempt that was named.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) incarnation: Option<u32>,
    pub(super) attempt: Option<u32>,
}

impl Wanted {
    fn is(&self, claim: &Claim) -> bool {
        self.incarnation.is_none_or(|n| n == claim.incarnation)
            && self.attempt.is_none_or(|n| n == claim.attempt)
    }

    /// Whether it is a later one.
    fn is_before(&self, claim: &Claim) -> bool {
        let incarnation = self.incarnation.unwrap_or(claim.incarnation);
        (incarnation, self.attempt.unwrap_or(0)) <= (claim.incarnation, claim.attempt)
    }

    /// The claims of the wanted attempt, in their order: the last attempt unless one was named.
    pub(super) fn choose(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        claims.sort_by_key(|claim| claim.fence);
        let last = claims.iter().rev().find(|claim| self.is(claim)).copied();
        claims.retain(|claim| {
            last.is_some_and(|l| (l.incarnation, l.attempt) == (claim.incarnation, claim.attempt))
        });
        claims
    }

    /// The first claim to follow that comes after this one, or is the first.
    pub(super) fn next(&self, claims: &[Claim], after: Option<Fence>) -> Option<Claim> {
        let mut claims = claims.iter().filter(|claim| self.is_before(claim));
        let following = |claim: &&Claim| after.is_none_or(|after| claim.fence > after);
        claims.find(following).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Vec<Claim> {
        let all = [(0, 1, 3), (0, 2, 5), (0, 2, 6), (1, 1, 9)];
        all.map(|(incarnation, attempt, fence)| Claim {
            incarnation,
            attempt,
            fence: Fence(fence),
        })
        .to_vec()
    }

    fn wanted(incarnation: Option<u32>, attempt: Option<u32>) -> Wanted {
        Wanted {
            incarnation,
            attempt,
        }
    }

    #[test]
    fn the_last_attempt_is_chosen_unless_one_is_named() {
        for (incarnation, attempt, fences) in [
            (None, None, vec![9]),
            (None, Some(1), vec![9]),
            (None, Some(2), vec![5, 6]),
            (Some(0), None, vec![5, 6]),
            (Some(0), Some(1), vec![3]),
            (Some(1), Some(2), vec![]),
        ] {
            let chosen = wanted(incarnation, attempt).choose(claims());
            let chosen: Vec<u64> = chosen.iter().map(|claim| claim.fence.0).collect();
            assert_eq!(chosen, fences, "{incarnation:?} {attempt:?}");
        }
    }

    #[test]
    fn following_goes_on_with_the_next_claims() {
        let next = |wanted: Wanted, after| wanted.next(&claims(), after).map(|c| c.fence.0);
        let any = wanted(None, None);
        assert_eq!(next(any, None), Some(3));
        assert_eq!(next(any, Some(Fence(5))), Some(6));
        assert_eq!(next(any, Some(Fence(9))), None);
        assert_eq!(next(wanted(Some(0), Some(2)), None), Some(5));
        assert_eq!(next(wanted(Some(0), Some(3)), None), Some(9));
        assert_eq!(next(wanted(Some(1), Some(2)), None), None);
    }
}
