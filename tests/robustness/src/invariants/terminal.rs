//! G6: an ended task does not change; only an explicit retry starts it again.

use windlass::store::ChangeKind;

use super::Found;
use crate::world::World;

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, history) in world.histories() {
        let mut ended = None;
        for change in history {
            match (&change.what, ended) {
                (ChangeKind::Retried, Some(_)) => ended = None,
                (ChangeKind::Retried, None) => {
                    found.push((id.clone(), "it was retried while it lived".to_owned()));
                }
                (what, Some(end)) => {
                    let how = format!("change {} follows its end ({end}): {what:?}", change.seq);
                    found.push((id.clone(), how));
                }
                (ChangeKind::Moved { to, .. }, None) if to.is_terminal() => {
                    ended = Some(change.seq);
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use windlass::{ActionKind, StateKind};

    use super::super::sample::*;
    use super::*;

    #[test]
    fn an_end_and_a_retry_hold() {
        let history = vec![
            submitted(),
            claimed("a", 2),
            completed(2),
            ChangeKind::Retried,
            claimed("a", 5),
        ];
        holds(check(&of_history(history)));
    }

    #[test]
    fn whatever_follows_an_end_is_caught() {
        let after = [
            claimed("b", 4),
            checkpointed(2),
            dropped(2),
            ChangeKind::Commanded { command: 4 },
            moved(
                2,
                ActionKind::Run,
                StateKind::Completed,
                StateKind::Runnable,
            ),
        ];
        for what in after {
            let history = vec![submitted(), claimed("a", 2), completed(2), what];
            caught(check(&of_history(history)), "change 4 follows its end (3)");
        }
    }

    #[test]
    fn a_retry_of_a_living_task_is_caught() {
        let history = vec![submitted(), ChangeKind::Retried];
        caught(check(&of_history(history)), "retried while it lived");
    }

    #[test]
    fn what_follows_the_end_of_a_task_that_was_deleted_later_is_caught() {
        let history = vec![submitted(), claimed("a", 2), completed(2), checkpointed(2)];
        caught(check(&of_gone(history)), "change 4 follows its end (3)");
    }
}
