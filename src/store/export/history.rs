//! The history of an exported task: new positions for its changes, and the comparison of two
//! histories.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_statemachine::{Author, TaskId, TaskState};

use super::Exported;
use crate::store::{Change, ChangeKind, CommandRecord};

/// A change in the history of a task, without the numbers of its store.
#[derive(Debug, PartialEq)]
struct Line {
    at: Timestamp,
    by: Option<Author>,
    what: ChangeKind,
    /// Whether a store may keep the task without this change.
    is_prunable: bool,
}

/// A change without its number.
struct Place {
    at: Timestamp,
    by: Option<Author>,
    what: ChangeKind,
}

impl Exported {
    /// Returns whether both histories agree as far back as both go: the same submit, the same commands, and
    /// the same newest changes in the same order. A store may have pruned the older ones.
    pub fn has_history_of(&self, other: &Self) -> bool {
        let (one, other) = (self.lines(), other.lines());
        let changes = |lines: &[Line]| lines.iter().filter(|line| line.is_prunable).count();
        let kept = changes(&one).min(changes(&other));
        let newest = |lines: Vec<Line>| -> Vec<Line> {
            let mut over = changes(&lines) - kept;
            let mut keep = |line: &Line| {
                let is_over = line.is_prunable && over > 0;
                over -= usize::from(is_over);
                !is_over
            };
            lines.into_iter().filter(|line| keep(line)).collect()
        };
        newest(one) == newest(other)
    }

    /// Returns the history without the numbers of its store: commands are named by their position
    /// among the commands.
    fn lines(&self) -> Vec<Line> {
        let numbers = self.commands.iter().map(|command| command.order).zip(1..);
        let numbers: BTreeMap<u64, u64> = numbers.collect();
        let number = |order: &u64| numbers.get(order).copied();
        let lines = self.places().into_values().map(|Place { at, by, what }| {
            let reported = matches!(
                what,
                ChangeKind::Submitted { .. } | ChangeKind::Commanded { .. }
            );
            let what = match what {
                ChangeKind::Commanded { command } => ChangeKind::Commanded {
                    command: number(&command).unwrap_or_default(),
                },
                ChangeKind::Moved {
                    message,
                    from,
                    to,
                    fence,
                    command,
                } => ChangeKind::Moved {
                    message,
                    from,
                    to,
                    fence,
                    command: command.as_ref().and_then(number),
                },
                what => what,
            };
            Line {
                at,
                by,
                what,
                is_prunable: !reported,
            }
        });
        lines.collect()
    }

    /// Returns the changes by their positions. The submit and the commands are included even when
    /// the history was pruned.
    fn places(&self) -> BTreeMap<u64, Place> {
        let mut places = BTreeMap::new();
        for change in self.history.iter().filter(|c| c.seq >= self.order) {
            if change.what != ChangeKind::Deleted {
                let (at, by) = (change.at, change.by.clone());
                let what = match change.what.clone() {
                    // Nothing else is copied of a command that cannot be read.
                    ChangeKind::MalformedCommand { command, .. } => {
                        ChangeKind::Commanded { command }
                    }
                    what => what,
                };
                places.insert(change.seq, Place { at, by, what });
            }
        }
        for command in &self.commands {
            let what = ChangeKind::Commanded {
                command: command.order,
            };
            let (at, by) = (command.sent_at, command.by.clone());
            places.insert(command.order, Place { at, by, what });
        }
        let (state, by) = match places.remove(&self.order) {
            Some(Place {
                what: ChangeKind::Submitted { state },
                by,
                ..
            }) => (state, by),
            _ => {
                let state = TaskState::submitted(self.task.start_at, self.submitted_at);
                (state.code(), None)
            }
        };
        let submitted = Place {
            at: self.submitted_at,
            by,
            what: ChangeKind::Submitted { state },
        };
        places.insert(self.order, submitted);
        places
    }

    /// Returns the number of positions that the task needs.
    pub fn len(&self) -> u64 {
        self.places().len() as u64
    }

    /// Returns `false`: every task needs a position.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Assigns new positions, from `first` on without gaps, in the order of the old ones. The submit
    /// and the commands are in the history again even when it was pruned.
    #[must_use]
    pub fn renumbered(self, first: u64) -> Self {
        let places = self.places();
        let numbers: BTreeMap<u64, u64> = places.keys().copied().zip(first..).collect();
        let new = |old: u64| numbers.get(&old).copied();
        let mut state = self.state;
        let last_order = state.last_command.as_ref().map(|last| last.order);
        if let Some(order) = state
            .paused
            .as_mut()
            .and_then(|paused| paused.command.as_mut())
        {
            *order = new(*order).unwrap_or(first);
        }
        if let Some(last) = &mut state.last_command {
            // A command that is no longer kept came before the kept ones.
            let before = numbers.range(..=last.order).next_back();
            last.order = before.map_or(first, |(_, new)| *new);
        }
        let kept = numbers.range(..=state.kept_signals).next_back();
        state.kept_signals = kept.map_or(0, |(_, new)| *new);
        let new_last = state.last_command.as_ref().map(|last| last.order);
        state.deliveries.retain(|delivery| {
            // The delivery of the last command stays beside it, even if the command is no longer kept.
            let is_last = Some(delivery.order) == last_order;
            let order = if is_last {
                new_last
            } else {
                new(delivery.order)
            };
            delivery.order = order.unwrap_or_default();
            order.is_some()
        });
        state.settled_signals.retain_mut(|settled| {
            let order = new(settled.order);
            settled.order = order.unwrap_or_default();
            order.is_some()
        });
        let task: &TaskId = &self.task.id;
        let history = places
            .into_iter()
            .zip(first..)
            .map(|((_, Place { at, by, what }), seq)| {
                let what = match what {
                    ChangeKind::Commanded { .. } => ChangeKind::Commanded { command: seq },
                    ChangeKind::Moved {
                        message,
                        from,
                        to,
                        fence,
                        command,
                    } => ChangeKind::Moved {
                        message,
                        from,
                        to,
                        fence,
                        command: command.and_then(new),
                    },
                    what => what,
                };
                Change::new(seq, at, task.clone(), what).by(by)
            });
        let history = history.collect();
        let commands = self.commands.into_iter().map(|command| CommandRecord {
            order: new(command.order).unwrap_or(first),
            ..command
        });
        Self {
            state,
            order: first,
            commands: commands.collect(),
            history,
            task: self.task,
            submitted_at: self.submitted_at,
            fence: self.fence,
            lost_by: self.lost_by,
            log: self.log,
            holds_key: self.holds_key,
            replaces: self.replaces,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Fence, StateKind};

    use super::{
        super::tests::{at, exported},
        *,
    };

    /// A signal after the copy did not wake the task: its order was smaller than that of the signal kept in the other
    /// store.
    #[test]
    fn kept_signals_stay_those_that_were_kept() {
        let mut before = exported();
        before.state.kept_signals = before.commands[1].order;
        let after = before.clone().renumbered(5);
        assert_eq!(after.state.kept_signals, after.commands[1].order);
        assert_eq!(before.difference(&after), None);
        before.state.kept_signals = 0;
        assert_eq!(before.renumbered(5).state.kept_signals, 0);
    }

    #[test]
    fn places_are_new_and_in_their_old_order() {
        let before = exported();
        let after = before.clone().renumbered(5);
        assert_eq!(before.len(), 5);
        assert_eq!(after.order, 5);
        let orders: Vec<u64> = after.commands.iter().map(|c| c.order).collect();
        assert_eq!(orders, [6, 8]);
        let seqs: Vec<u64> = after.history.iter().map(|c| c.seq).collect();
        assert_eq!(seqs, [5, 6, 7, 8, 9]);
        assert_eq!(
            after.history[0].what,
            ChangeKind::Submitted {
                state: StateKind::Runnable
            }
        );
        assert_eq!(after.history[1].what, ChangeKind::Commanded { command: 6 });
        let ChangeKind::Moved { command, fence, .. } = after.history[2].what else {
            panic!("{:?}", after.history);
        };
        assert_eq!((command, fence), (Some(6), Fence(900)));
        assert_eq!(after.state.last_command.as_ref().unwrap().order, 6);
        assert_eq!(before.difference(&after), None);
        assert_eq!(after.clone().renumbered(5), after);
    }

    #[test]
    fn histories_agree_as_far_as_both_go_back() {
        let (one, other) = (exported(), exported().renumbered(5));
        assert!(one.has_history_of(&other) && other.has_history_of(&one));
        // A store may keep a shorter history.
        let mut pruned = other.clone();
        let is_move = |change: &Change| matches!(change.what, ChangeKind::Moved { .. });
        pruned.history.retain(|change| !is_move(change));
        assert!(one.has_history_of(&pruned) && pruned.has_history_of(&one));
        type Changed = fn(&mut Exported);
        let changes: [(&str, Changed); 4] = [
            ("the state of the submit", |e| {
                e.history[0].what = ChangeKind::Submitted {
                    state: StateKind::Sleeping,
                };
            }),
            ("a time", |e| e.history[2].at = at(9)),
            ("the command of a change", |e| {
                if let ChangeKind::Moved { command, .. } = &mut e.history[2].what {
                    *command = None;
                }
            }),
            ("the newest change", |e| drop(e.history.pop())),
        ];
        for (what, change) in changes {
            let mut changed = other.clone();
            change(&mut changed);
            assert!(!one.has_history_of(&changed), "{what}");
            assert!(!changed.has_history_of(&one), "{what}");
        }
    }

    #[test]
    fn the_delivery_of_the_last_command_stays_with_it() {
        let mut before = exported();
        before.state.delivered(70, at(2));
        before.commands.remove(0);
        let state = before.renumbered(1).state;
        let last = state.last_command.unwrap();
        assert_eq!(state.deliveries[0].order, last.order);
        assert_eq!(state.deliveries[0].at, at(2));
    }

    #[test]
    fn a_forgotten_command_stays_before_the_others() {
        let mut before = exported();
        before.commands.remove(0);
        let after = before.renumbered(1);
        assert!(after.state.last_command.unwrap().order < after.commands[0].order);
    }
}
