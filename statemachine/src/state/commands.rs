//! What a state says of the commands that were applied to its task.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Outcome, TaskState};

/// The last command that was applied to a task; signals are not counted. It shows whether a command has taken effect
/// to a reader that has only a state store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LastCommand {
    /// The place of the command in the queue.
    pub order: u64,
    /// The outcome of the command.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl LastCommand {
    /// Returns a command by its place in the queue, with its outcome.
    pub fn new(order: u64, outcome: Outcome) -> Self {
        Self { order, outcome }
    }
}

/// A signal that got its outcome in the same write as the state, when the state is stored apart from
/// the queue. After a crash between the two writes the queue gets the outcome from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettledSignal {
    /// The place of the signal in the queue.
    pub order: u64,
    /// The outcome of the signal.
    pub outcome: Outcome,
}

/// How many deliveries a state keeps.
pub const KEPT_DELIVERIES: usize = 8;

/// When a command reached the owner of its task. A state keeps the last [`KEPT_DELIVERIES`] of commands and signals that have
/// their outcome.
///
/// # Example
///
/// ```
/// use jiff::Timestamp;
/// use windlass_statemachine::{Outcome, StateKind, TaskState, state::Delivery};
///
/// let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
/// state.delivered(7, Timestamp::UNIX_EPOCH);
/// assert_eq!(*state.deliveries, [Delivery::new(7, Timestamp::UNIX_EPOCH)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The place of the command in the queue.
    pub order: u64,
    /// When the owner received it, in microseconds. Of commands to remote workers it is not known.
    pub at: Timestamp,
}

impl Delivery {
    /// Returns the delivery of a command at this time.
    pub fn new(order: u64, at: Timestamp) -> Self {
        // Stores keep microseconds.
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        Self { order, at }
    }
}

/// The stored form: the order, and microseconds since 1970.
impl Serialize for Delivery {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.order, self.at.as_microsecond()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Delivery {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (order, at) = <(u64, i64)>::deserialize(from)?;
        let at = Timestamp::from_microsecond(at).map_err(serde::de::Error::custom)?;
        Ok(Self { order, at })
    }
}

impl TaskState {
    /// Notes when a command reached the owner, and drops the oldest delivery beyond [`KEPT_DELIVERIES`].
    pub fn delivered(&mut self, order: u64, at: Timestamp) {
        self.deliveries.push(Delivery::new(order, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_deliveries_are_kept_and_come_out_as_they_went_in() {
        let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
        for order in 1..20 {
            state.delivered(order, Timestamp::from_second(order as i64).unwrap());
        }
        let orders: Vec<u64> = state.deliveries.iter().map(|one| one.order).collect();
        assert_eq!(orders, (12..20).collect::<Vec<_>>());
        let text = serde_json::to_string(&state.deliveries[0]).unwrap();
        assert_eq!(text, "[12,12000000]");
        assert_eq!(
            serde_json::from_str::<Delivery>(&text).unwrap(),
            state.deliveries[0]
        );
        for wrong in ["[1]", "[-1,1]", "[1,9223372036854775807]", "{}"] {
            assert!(serde_json::from_str::<Delivery>(wrong).is_err(), "{wrong}");
        }
    }
}
