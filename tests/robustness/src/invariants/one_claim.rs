//! G1: nobody claims a task that somebody has.

use windlass::store::What;

use super::Found;
use crate::world::World;

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        let mut holder = None;
        for change in &subject.history {
            match &change.what {
                What::Claimed { node, fence, .. } => {
                    // Its own holder may claim it anew: that is how an unknown outcome is resolved.
                    if let Some(holder) = holder
                        && holder != node
                    {
                        let how = format!("{node} claimed it ({fence}) while {holder} had it");
                        found.push((id.clone(), how));
                    }
                    holder = Some(node);
                }
                What::Dropped { .. } | What::Lost { .. } => {
                    if holder.is_none() {
                        let how = format!("change {} ends a claim; nobody had it", change.seq);
                        found.push((id.clone(), how));
                    }
                    holder = None;
                }
                What::Moved { to, .. } if to.is_terminal() => holder = None,
                _ => {}
            }
        }
        if subject.record.node.as_ref() != holder {
            let stored = &subject.record.node;
            let how = format!("its record says {stored:?} has it, its history {holder:?}");
            found.push((id.clone(), how));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    #[test]
    fn one_after_the_other_holds() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            claimed("a", 3),
            dropped(3),
            claimed("b", 5),
        ];
        holds(check(&of_history(history)));
    }

    #[test]
    fn two_at_a_time_are_caught() {
        let history = vec![submitted(), claimed("a", 2), claimed("b", 3)];
        caught(
            check(&of_history(history)),
            "b claimed it (3) while a had it",
        );
    }

    #[test]
    fn two_ends_of_one_claim_are_caught() {
        let history = vec![submitted(), claimed("a", 2), dropped(2), lost(2)];
        caught(check(&of_history(history)), "nobody had it");
    }

    #[test]
    fn a_record_that_disagrees_is_caught() {
        let mut task = subject(vec![submitted(), claimed("a", 2), lost(2)]);
        task.record.node = Some("a".parse().unwrap());
        caught(check(&world(task)), "its record says");
    }
}
