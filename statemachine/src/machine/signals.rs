//! [`Signals`]: the signals of a task that have no outcome yet.

use crate::{Command, Json, Outcome, QueuedCommand};

/// A signal that has no outcome yet.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) queued: QueuedCommand,
    pub(super) standing: Standing,
}

/// Who has had a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// No handler: it wakes the task.
    New,
    /// The handler, since its start.
    AtStart,
    /// The handler, if it takes the signal before it ends.
    Meanwhile,
    /// A handler that has ended, and has left it in the queue.
    Kept,
    /// Its outcome is known, and not stored.
    Decided(Outcome),
}

/// The signals of a task that have no outcome yet, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    open: Vec<Open>,
}

impl Signals {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a signal in its place.
    pub(super) fn insert(&mut self, open: Open) {
        let order = open.queued.order;
        let at = self.open.partition_point(|o| o.queued.order < order);
        self.open.insert(at, open);
    }

    /// Returns the order of the first signal that no handler has had.
    pub(super) fn first_new(&self) -> Option<u64> {
        let new = self.open.iter().find(|o| o.standing == Standing::New);
        new.map(|open| open.queued.order)
    }

    /// Returns whether one has an outcome that is not stored.
    pub(super) fn has_decided(&self) -> bool {
        let decided = |o: &Open| matches!(o.standing, Standing::Decided(_));
        self.open.iter().any(decided)
    }

    /// Returns the order of the last signal that was kept; 0 for none.
    pub(super) fn last_kept(&self) -> u64 {
        let kept = self.open.iter().rev();
        let kept = kept.clone().find(|o| o.standing == Standing::Kept);
        kept.map_or(0, |open| open.queued.order)
    }

    /// A handler starts: returns the signals that it gets.
    pub(super) fn start(&mut self) -> impl Iterator<Item = &QueuedCommand> {
        self.open.iter_mut().filter_map(|open| {
            if matches!(open.standing, Standing::Decided(_)) {
                return None;
            }
            open.standing = Standing::AtStart;
            Some(&open.queued)
        })
    }

    /// The handler has ended. Those that it had are kept, or end as unanswered. `took` is the order of
    /// the last command that it took: what came later it does not know of.
    pub(super) fn run_ended(&mut self, keep: bool, took: u64) {
        for open in &mut self.open {
            let had = match open.standing {
                Standing::AtStart => true,
                Standing::Meanwhile => open.queued.order <= took,
                _ => continue,
            };
            open.standing = match had {
                false => Standing::New,
                true if keep => Standing::Kept,
                true => Standing::Decided(Outcome::Unanswered),
            };
        }
    }

    /// Keeps the reply to a signal; a signal that has its outcome keeps it.
    pub(super) fn decide(&mut self, order: u64, reply: Json) {
        let of = |o: &&mut Open| o.queued.order == order && Self::is_answerable(o);
        if let Some(open) = self.open.iter_mut().find(of) {
            open.standing = Standing::Decided(Outcome::Answered { reply });
        }
    }

    fn is_answerable(open: &Open) -> bool {
        !matches!(open.standing, Standing::Decided(_))
    }

    /// Takes out the signal with this order, for a reply.
    pub(super) fn take(&mut self, order: u64) -> Option<Open> {
        let of = |o: &Open| o.queued.order == order && Self::is_answerable(o);
        let at = self.open.iter().position(of)?;
        Some(self.open.remove(at))
    }

    /// Takes out the next signal whose outcome is known, with its outcome.
    pub(super) fn take_decided(&mut self) -> Option<(Open, Outcome)> {
        let decided = |o: &Open| matches!(o.standing, Standing::Decided(_));
        let at = self.open.iter().position(decided)?;
        let open = self.open.remove(at);
        let Standing::Decided(outcome) = open.standing.clone() else {
            return None;
        };
        Some((open, outcome))
    }

    /// Puts back the signals of a refused write. What a handler had without a reply is judged again by
    /// what takes the place of its message.
    pub(super) fn put_back(&mut self, signals: Vec<Open>) {
        for mut open in signals {
            if let Standing::Decided(Outcome::Answered { .. } | Outcome::Unanswered) = open.standing
            {
                open.standing = Standing::AtStart;
            }
            self.insert(open);
        }
    }
}

/// Returns whether a command is a signal.
pub(super) fn is_signal(command: &Command) -> bool {
    matches!(command, Command::Signal(_))
}

/// Returns the command as a handler gets it: a signal with its place in the queue.
pub(super) fn delivered(queued: &QueuedCommand) -> Command {
    match &queued.command {
        Command::Signal(signal) => Command::Signal(signal.clone().at(queued.order)),
        other => other.clone(),
    }
}
