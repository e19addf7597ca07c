//! [`Releases`]: tasks whose owner's key was deleted, and whose mark may still arrive.
//!
//! A sleep or a pause releases the claim: it deletes the owner's key and writes the mark, in one
//! revision. Two watches on one stream deliver both, in either order. Without its mark the task
//! looks claimable, and every node would try to claim it.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;
use windlass_statemachine::TaskId;

/// How long a task waits for its mark after the message that ended its claim.
const GRACE: Duration = Duration::from_millis(2);

/// The tasks that wait for their mark, and until when.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// The revision that deleted the owner's key, and the deadline.
    waiting: HashMap<TaskId, (i64, Instant)>,
    /// The deadlines in order, including those of tasks that no longer wait.
    deadlines: VecDeque<(Instant, TaskId)>,
    /// Every mark up to this revision has arrived.
    marks: i64,
}

impl Releases {
    /// Begins the wait of a task whose owner's key was deleted at this revision, by a message that
    /// arrived `now`.
    pub(crate) fn released(&mut self, id: &TaskId, at: i64, now: Instant) {
        if at <= self.marks {
            return;
        }
        let deadline = now + GRACE;
        self.waiting.insert(id.clone(), (at, deadline));
        self.deadlines.push_back((deadline, id.clone()));
    }

    /// Ends the wait of a task: its mark has arrived, or it was claimed again or deleted.
    pub(crate) fn settled(&mut self, id: &TaskId) {
        self.waiting.remove(id);
    }

    /// Notes that every mark up to this revision has arrived. Ends the wait of tasks that were
    /// released by then: they have no mark.
    pub(crate) fn marks_are_at(&mut self, revision: i64) {
        self.marks = self.marks.max(revision);
        if !self.waiting.is_empty() {
            self.waiting.retain(|_, (at, _)| *at > revision);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn holds(&self, id: &TaskId) -> bool {
        self.waiting.contains_key(id)
    }

    /// Ends the wait of the tasks whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((deadline, id)) = self.deadlines.front()
            && (*deadline <= now || !self.is_deadline(*deadline, id))
        {
            if self.is_deadline(*deadline, id) {
                self.waiting.remove(id);
            }
            self.deadlines.pop_front();
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        let mut live = self.deadlines.iter();
        live.find(|(deadline, id)| self.is_deadline(*deadline, id))
            .map(|(deadline, _)| *deadline)
    }

    fn is_deadline(&self, deadline: Instant, id: &TaskId) -> bool {
        self.waiting.get(id).is_some_and(|(_, of)| *of == deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TaskId {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_release_waits_for_its_mark_and_for_a_bounded_time() {
        let (mut releases, begun) = (Releases::default(), Instant::now());
        releases.released(&id("a"), 10, begun);
        releases.released(&id("b"), 11, begun + ms(1));
        assert!(releases.holds(&id("a")) && releases.holds(&id("b")));
        assert!(!releases.holds(&id("other")));
        releases.settled(&id("a"));
        assert!(!releases.holds(&id("a")));
        assert_eq!(releases.next(), Some(begun + ms(1) + GRACE));
        releases.expire(begun + GRACE);
        assert!(releases.holds(&id("b")));
        releases.expire(begun + ms(1) + GRACE);
        assert!(releases.is_empty());
        assert_eq!(releases.next(), None);
        assert!(releases.deadlines.is_empty());
    }

    #[test]
    fn other_messages_do_not_put_a_deadline_off() {
        let (mut releases, begun) = (Releases::default(), Instant::now());
        releases.released(&id("a"), 10, begun);
        for n in 0..100 {
            releases.released(&id(&format!("t{n}")), 11, begun + ms(n / 50));
            releases.marks_are_at(9);
            assert_eq!(releases.next(), Some(begun + GRACE));
        }
        releases.expire(begun + GRACE);
        assert!(!releases.holds(&id("a")));
    }

    #[test]
    fn nothing_waits_once_the_marks_of_its_revision_have_come() {
        let (mut releases, now) = (Releases::default(), Instant::now());
        releases.released(&id("a"), 10, now);
        releases.released(&id("b"), 11, now);
        releases.marks_are_at(10);
        assert!(!releases.holds(&id("a")) && releases.holds(&id("b")));
        releases.released(&id("c"), 10, now);
        assert!(!releases.holds(&id("c")), "its mark would have come");
        releases.marks_are_at(11);
        assert!(releases.is_empty());
    }

    #[test]
    fn a_task_that_is_claimed_and_released_again_waits_for_its_last_mark() {
        let (mut releases, begun) = (Releases::default(), Instant::now());
        releases.released(&id("a"), 10, begun);
        releases.settled(&id("a"));
        releases.released(&id("a"), 12, begun + ms(1));
        releases.expire(begun + GRACE);
        assert!(releases.holds(&id("a")));
        releases.expire(begun + ms(1) + GRACE);
        assert!(releases.is_empty());
    }
}
