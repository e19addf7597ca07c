//! The claims of a node that was killed end, and its tasks are claimed again, within a time.

use std::time::Duration;

use windlass::{
    NodeName,
    store::{Change, ChangeKind},
};

use super::Found;
use crate::{witness::Said, world::World};

/// From the death of an owner on.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    /// Its claims have ended by then.
    pub lost: Duration,
    /// Its tasks are claimed again by then. Only where nodes have room and nothing else keeps a task
    /// from being claimed.
    pub claimed: Option<Duration>,
}

/// One process that was killed: its node, and its life in microseconds of the wall clock.
#[derive(Debug)]
struct Death<'a> {
    node: &'a NodeName,
    born: i64,
    died: i64,
}

/// Returns the takeovers that took longer.
pub fn check(world: &World, within: Within) -> Found {
    let mut found = Found::new();
    for death in deaths(world) {
        for (id, subject) in &world.subjects {
            for (at, change) in subject.history.iter().enumerate() {
                let ChangeKind::Claimed { node, fence, .. } = &change.what else {
                    continue;
                };
                let time = change.at.as_microsecond();
                if node != death.node || time < death.born || time > death.died {
                    continue;
                }
                let rest = &subject.history[at + 1..];
                let lost = rest
                    .iter()
                    .position(|c| matches!(&c.what, ChangeKind::Lost { fence: by } if by == fence));
                let Some(lost) = lost else {
                    continue;
                };
                let claimed = rest[lost..]
                    .iter()
                    .find(|c| matches!(c.what, ChangeKind::Claimed { .. }));
                let mut late = |what: &str, change: Option<&Change>, within: Duration| {
                    let took = change.map(|c| c.at.as_microsecond() - death.died);
                    let allowed = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
                    if took.is_none_or(|took| took > allowed) {
                        let took = took.map(|took| took / 1000);
                        let how = format!(
                            "{node} was killed; claim {fence} was {what} after {took:?} ms, not within {within:?}"
                        );
                        found.push((id.clone(), how));
                    }
                };
                late("lost", Some(&rest[lost]), within.lost);
                if let Some(within) = within.claimed {
                    late("taken over", claimed, within);
                }
            }
        }
    }
    found
}

/// How many claims were lost by nodes that were killed.
pub fn count(world: &World) -> usize {
    let at_once = Within {
        lost: Duration::ZERO,
        claimed: None,
    };
    check(world, at_once).len()
}

fn deaths(world: &World) -> Vec<Death<'_>> {
    let clock = world.witness.iter().find_map(|line| match line.said {
        Said::Clock { wall } => Some(wall - i64::try_from(line.at).unwrap_or(i64::MAX)),
        _ => None,
    });
    let Some(offset) = clock else {
        return Vec::new();
    };
    let wall = |at: u64| i64::try_from(at).unwrap_or(i64::MAX).saturating_add(offset);
    let mut deaths = Vec::new();
    for line in &world.witness {
        let Said::Launched { node } = &line.said else {
            continue;
        };
        if let Some(died) = world.died(line.pid) {
            deaths.push(Death {
                node,
                born: wall(line.at),
                died: wall(died),
            });
        }
    }
    deaths
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::sample::*;
    use super::*;

    const WITHIN: Within = Within {
        lost: Duration::from_secs(2),
        claimed: Some(Duration::from_secs(3)),
    };

    /// Node `a` is killed at 10 s; its claim is lost and the task claimed again at these times.
    fn killed(lost_at: i64, claimed_at: Option<i64>) -> World {
        let history = vec![submitted(), claimed("a", 2), lost(2), claimed("b", 4)];
        let mut task = subject(history);
        let times = [1, 5, lost_at, claimed_at.unwrap_or(0)];
        for (change, at) in task.history.iter_mut().zip(times) {
            change.at = Timestamp::from_second(1_000 + at).unwrap();
        }
        if claimed_at.is_none() {
            task.history.pop();
        }
        let mut world = world(task);
        let node = "a".parse().unwrap();
        world.witness = vec![
            line(
                0,
                1,
                Said::Clock {
                    wall: 1_000_000_000,
                },
            ),
            line(1_000_000, 7, Said::Launched { node }),
            line(10_000_000, 7, Said::Killed),
        ];
        world
    }

    #[test]
    fn a_takeover_in_time_holds() {
        holds(check(&killed(11, Some(12)), WITHIN));
        assert_eq!(count(&killed(11, Some(12))), 1);
    }

    #[test]
    fn a_late_one_is_caught() {
        caught(
            check(&killed(13, Some(13)), WITHIN),
            "was lost after Some(3000)",
        );
        caught(
            check(&killed(11, Some(14)), WITHIN),
            "taken over after Some(4000)",
        );
        caught(check(&killed(11, None), WITHIN), "taken over after None");
    }

    #[test]
    fn the_claim_of_another_life_does_not_count() {
        let mut world = killed(13, Some(13));
        world.witness[1].at = 6_000_000;
        holds(check(&world, WITHIN));
    }
}
