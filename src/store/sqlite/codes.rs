//! The numbers that stand for words in the tables. They are part of the file format: a number never
//! changes its meaning.

use jiff::Timestamp;
use windlass_statemachine::{ActionKind, Fence, Kind, NodeName, StateKind, machine::Step};

use crate::store::ChangeKind;

/// Returns the number of a state: its place in the transition table.
pub(super) fn from_code(code: StateKind) -> i64 {
    code as i64
}

pub(super) fn to_code(number: i64) -> Option<StateKind> {
    StateKind::ALL.get(usize::try_from(number).ok()?).copied()
}

/// Returns a time as the tables store it: whole microseconds since 1970.
pub(super) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

pub(super) fn time(micros: i64) -> Timestamp {
    let bound = if micros < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_microsecond(micros).unwrap_or(bound)
}

/// The columns of a row of `changes` that say what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) what: i64,
    pub(super) detail: i64,
    pub(super) fence: i64,
    pub(super) command: i64,
}

/// A command was sent to a node. This is not the change of a task.
pub(super) const NODE: i64 = 0;
pub(super) const SUBMITTED: i64 = 1;
pub(super) const CLAIMED: i64 = 2;
pub(super) const MOVED: i64 = 3;
pub(super) const CHECKPOINTED: i64 = 4;
pub(super) const DROPPED: i64 = 5;
pub(super) const LOST: i64 = 6;
const COMMANDED: i64 = 7;
pub(super) const RETRIED: i64 = 8;
pub(super) const QUARANTINED: i64 = 9;
pub(super) const DELETED: i64 = 10;
const RESCHEDULED: i64 = 11;
/// A task is reported to nodes differently because of the line of a limit. This is not a change of the task,
/// and not part of its chain.
const HELD: i64 = 12;

/// The changes that start work, or let a task continue. A file that was copied into another store refuses
/// them.
pub(super) const STARTS: [i64; 5] = [SUBMITTED, CLAIMED, COMMANDED, RETRIED, RESCHEDULED];

/// Returns whether the move with this detail has ended its task.
pub(super) fn is_last_move(detail: i64) -> bool {
    to_code(detail & 15).is_some_and(StateKind::is_terminal)
}

/// Returns whether the change has given its task another kind.
pub(super) fn is_other_kind(what: i64, detail: i64) -> bool {
    what == RESCHEDULED && detail >> 8 != 0
}

impl Log {
    fn plain(what: i64) -> Self {
        Self {
            what,
            ..Self::default()
        }
    }

    fn claim(what: i64, fence: i64) -> Self {
        Self {
            fence,
            ..Self::plain(what)
        }
    }

    fn detailed(what: i64, detail: i64) -> Self {
        Self {
            detail,
            ..Self::plain(what)
        }
    }

    pub(super) fn node(lease: i64) -> Self {
        Self::detailed(NODE, lease)
    }

    pub(super) fn submitted(code: StateKind) -> Self {
        Self::detailed(SUBMITTED, from_code(code))
    }

    pub(super) fn claimed(lease: i64, fence: i64, abandoned: bool) -> Self {
        Self {
            detail: lease * 2 + i64::from(abandoned),
            ..Self::claim(CLAIMED, fence)
        }
    }

    pub(super) fn moved(step: &Step, fence: i64) -> Self {
        Self {
            what: MOVED,
            detail: (step.message as i64) << 8 | from_code(step.from) << 4 | from_code(step.to),
            fence,
            command: step.command.map_or(0, |c| c as i64),
        }
    }

    pub(super) fn checkpointed(fence: i64) -> Self {
        Self::claim(CHECKPOINTED, fence)
    }

    pub(super) fn dropped(fence: i64) -> Self {
        Self::claim(DROPPED, fence)
    }

    pub(super) fn lost(fence: i64) -> Self {
        Self::claim(LOST, fence)
    }

    pub(super) fn commanded(order: i64) -> Self {
        Self {
            command: order,
            ..Self::plain(COMMANDED)
        }
    }

    pub(super) fn retried() -> Self {
        Self::plain(RETRIED)
    }

    /// `kind` is the number of the new kind; 0 for a task that keeps its kind.
    fn rescheduled(from: StateKind, to: StateKind, kind: i64) -> Self {
        let detail = kind << 8 | from_code(from) << 4 | from_code(to);
        Self::detailed(RESCHEDULED, detail)
    }

    pub(super) fn quarantined() -> Self {
        Self::plain(QUARANTINED)
    }

    pub(super) fn held() -> Self {
        Self::plain(HELD)
    }

    pub(super) fn deleted() -> Self {
        Self::plain(DELETED)
    }

    /// Returns whether the task is no longer live after this change: it has ended, or is gone.
    pub(super) fn ends(self) -> bool {
        self.what == DELETED || self.what == MOVED && is_last_move(self.detail)
    }

    /// Returns the columns of a change. `named` is the number of a name in it: a lease of the node that claimed, or the
    /// new kind; 0 for a change without one.
    pub(super) fn of(what: &ChangeKind, seq: i64, named: i64) -> Self {
        match what {
            ChangeKind::Submitted { state } => Self::submitted(*state),
            ChangeKind::Claimed {
                fence, abandoned, ..
            } => Self::claimed(named, fence.0 as i64, *abandoned),
            ChangeKind::Moved {
                message,
                from,
                to,
                fence,
                command,
            } => {
                let step = Step {
                    message: *message,
                    from: *from,
                    to: *to,
                    command: *command,
                };
                Self::moved(&step, fence.0 as i64)
            }
            ChangeKind::Checkpointed { fence } => Self::checkpointed(fence.0 as i64),
            ChangeKind::Dropped { fence } => Self::dropped(fence.0 as i64),
            ChangeKind::Lost { fence } => Self::lost(fence.0 as i64),
            // Only stores on etcd have malformed ones, and their copies leave the text out.
            ChangeKind::Commanded { .. } | ChangeKind::MalformedCommand { .. } => {
                Self::commanded(seq)
            }
            ChangeKind::Retried => Self::retried(),
            ChangeKind::Rescheduled { from, to, kind } => {
                Self::rescheduled(*from, *to, kind.as_ref().map_or(0, |_| named))
            }
            ChangeKind::Quarantined => Self::quarantined(),
            ChangeKind::Deleted => Self::deleted(),
        }
    }

    /// Returns the change; `None` for a row that is not the change of a task, or that a newer program
    /// has written. `node` is the node that claimed, `kind` the new kind.
    pub(super) fn read(self, node: Option<NodeName>, kind: Option<Kind>) -> Option<ChangeKind> {
        let fence = Fence(self.fence as u64);
        Some(match self.what {
            SUBMITTED => ChangeKind::Submitted {
                state: to_code(self.detail)?,
            },
            CLAIMED => ChangeKind::Claimed {
                node: node?,
                fence,
                abandoned: self.detail & 1 == 1,
            },
            MOVED => ChangeKind::Moved {
                message: *ActionKind::ALL.get(usize::try_from(self.detail >> 8).ok()?)?,
                from: to_code(self.detail >> 4 & 15)?,
                to: to_code(self.detail & 15)?,
                fence,
                command: (self.command != 0).then_some(self.command as u64),
            },
            CHECKPOINTED => ChangeKind::Checkpointed { fence },
            DROPPED => ChangeKind::Dropped { fence },
            LOST => ChangeKind::Lost { fence },
            COMMANDED => ChangeKind::Commanded {
                command: self.command as u64,
            },
            RETRIED => ChangeKind::Retried,
            RESCHEDULED => ChangeKind::Rescheduled {
                from: to_code(self.detail >> 4 & 15)?,
                to: to_code(self.detail & 15)?,
                kind,
            },
            QUARANTINED => ChangeKind::Quarantined,
            DELETED => ChangeKind::Deleted,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_states_and_messages_are_their_places() {
        for (n, code) in StateKind::ALL.into_iter().enumerate() {
            assert_eq!(from_code(code), n as i64);
            assert_eq!(to_code(n as i64), Some(code));
        }
        assert_eq!(to_code(7), None);
        for (n, message) in ActionKind::ALL.into_iter().enumerate() {
            assert_eq!(message as usize, n);
        }
    }

    #[test]
    fn every_move_comes_out_as_it_went_in() {
        for message in ActionKind::ALL {
            for from in StateKind::ALL {
                for to in StateKind::ALL {
                    let step = Step {
                        message,
                        from,
                        to,
                        command: Some(7),
                    };
                    let what = Log::moved(&step, 9).read(None, None);
                    let expected = ChangeKind::Moved {
                        message,
                        from,
                        to,
                        fence: Fence(9),
                        command: Some(7),
                    };
                    assert_eq!(what, Some(expected));
                }
            }
        }
    }

    #[test]
    fn every_change_of_the_due_time_comes_out_as_it_went_in() {
        for from in StateKind::ALL {
            for to in StateKind::ALL {
                for kind in [None, Some(Kind::new("inbox/err").unwrap())] {
                    let what = ChangeKind::Rescheduled { from, to, kind };
                    let log = Log::of(&what, 0, 7);
                    let ChangeKind::Rescheduled { kind, .. } = what.clone() else {
                        panic!("{what:?}")
                    };
                    assert_eq!(is_other_kind(log.what, log.detail), kind.is_some());
                    assert_eq!(log.read(None, kind), Some(what));
                }
            }
        }
    }

    #[test]
    fn times_keep_their_microseconds() {
        for text in ["1969-12-31T23:59:59.999999Z", "9999-12-30T21:59:59.999999Z"] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(time(micros(at)), at);
        }
    }
}
