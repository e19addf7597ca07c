//! [`Signals`]: the signals of a task that have no outcome yet.

use jiff::Timestamp;

use crate::{Command, Json, Outcome, QueuedCommand};

/// A signal that has no outcome yet.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) queued: QueuedCommand,
    /// When the machine received it.
    pub(super) received: Timestamp,
    pub(super) standing: Standing,
}

/// Which handler has received a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// No handler has received it: it wakes the task.
    New,
    /// The handler received it at its start.
    AtStart,
    /// The handler receives it if it takes it before it ends.
    Meanwhile,
    /// A handler that has ended left it in the queue.
    Kept,
    /// Its outcome is known but not stored yet.
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

    /// Inserts a signal by its order.
    pub(super) fn insert(&mut self, open: Open) {
        let order = open.queued.order;
        let at = self.open.partition_point(|o| o.queued.order < order);
        self.open.insert(at, open);
    }

    /// Returns the order of the first signal that no handler has received.
    pub(super) fn first_new(&self) -> Option<u64> {
        let new = self.open.iter().find(|o| o.standing == Standing::New);
        new.map(|open| open.queued.order)
    }

    /// Returns whether a signal has an outcome that is not stored yet.
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

    /// Notes the start of a handler, and returns the signals to deliver to it.
    pub(super) fn start(&mut self) -> impl Iterator<Item = &QueuedCommand> {
        self.open.iter_mut().filter_map(|open| {
            if matches!(open.standing, Standing::Decided(_)) {
                return None;
            }
            open.standing = Standing::AtStart;
            Some(&open.queued)
        })
    }

    /// Notes the end of the handler. The signals that it received are kept, or end as unanswered.
    /// `took` is the order of the last command that it received: later signals it has not seen.
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

    /// Records the reply to a signal. A signal that already has an outcome keeps it.
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
        // A write has room for a number of them, and the end of the task rejects the rest: replies come first.
        let answered = |o: &Open| matches!(o.standing, Standing::Decided(Outcome::Answered { .. }));
        let decided = |o: &Open| matches!(o.standing, Standing::Decided(_));
        let first = self.open.iter().position(answered);
        let at = first.or_else(|| self.open.iter().position(decided))?;
        let open = self.open.remove(at);
        let Standing::Decided(outcome) = open.standing.clone() else {
            return None;
        };
        Some((open, outcome))
    }

    /// Puts back the signals of a refused write. The message that replaces the refused one decides on
    /// signals without a reply.
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
