//! [`StateWord`]: a state, as filters take it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Invalid, StateKind};

use super::filter::Filter;

/// A state, as filters take it: one of the machine, or `running` or `queued`, which are the runnable tasks that a node runs
/// and those that wait for one.
///
/// # Example
///
/// ```
/// use windlass::{StateKind, store::{Filter, StateWord}};
///
/// let words = ["queued", "failed"].map(|word| word.parse::<StateWord>().unwrap());
/// let filter = Filter::new().state_words(words);
/// assert_eq!(filter.states, [StateKind::Runnable, StateKind::Failed]);
/// assert_eq!(filter.running, Some(false));
/// let wrong = "waiting".parse::<StateWord>().unwrap_err();
/// assert!(wrong.reason().starts_with("'waiting' is not one of running, queued, runnable,"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum StateWord {
    /// Runnable tasks that a node has claimed.
    Running,
    /// Runnable tasks that no node has claimed.
    Queued,
    /// Tasks in this state.
    State(StateKind),
}

impl StateWord {
    /// Returns every word: `running`, `queued`, and the states.
    pub fn all() -> impl Iterator<Item = Self> {
        let states = StateKind::ALL.into_iter().map(Self::State);
        [Self::Running, Self::Queued].into_iter().chain(states)
    }

    /// Returns the state of the machine.
    pub fn state(self) -> StateKind {
        match self {
            Self::Running | Self::Queued => StateKind::Runnable,
            Self::State(state) => state,
        }
    }

    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Queued => "queued",
            Self::State(state) => state.as_str(),
        }
    }
}

impl From<StateKind> for StateWord {
    fn from(state: StateKind) -> Self {
        Self::State(state)
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StateWord {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::all().find(|word| word.as_str() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::as_str).collect();
            let reason = format!("'{text}' is not one of {}", names.join(", "));
            Invalid::new("state", reason)
        })
    }
}

impl TryFrom<String> for StateWord {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<StateWord> for String {
    fn from(word: StateWord) -> Self {
        word.as_str().to_owned()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for StateWord {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StateWord".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = Self::all().map(Self::as_str).collect();
        schemars::json_schema!({"type": "string", "enum": words})
    }
}

impl Filter {
    /// Selects tasks in one of these states, where `running` and `queued` select among the runnable ones.
    #[must_use]
    pub fn state_words(mut self, words: impl IntoIterator<Item = impl Into<StateWord>>) -> Self {
        let words: Vec<StateWord> = words.into_iter().map(Into::into).collect();
        self.states = Vec::new();
        for word in &words {
            if !self.states.contains(&word.state()) {
                self.states.push(word.state());
            }
        }
        let has = |word| words.contains(&word);
        let both = has(StateWord::Running) == has(StateWord::Queued);
        let is_any = both || has(StateWord::State(StateKind::Runnable));
        self.running = (!is_any).then(|| has(StateWord::Running));
        self
    }

    /// Returns the words of the states that the filter selects.
    pub fn words_of_states(&self) -> Vec<StateWord> {
        let word = |state: &StateKind| match (state, self.running) {
            (StateKind::Runnable, Some(true)) => StateWord::Running,
            (StateKind::Runnable, Some(false)) => StateWord::Queued,
            (state, _) => StateWord::State(*state),
        };
        self.states.iter().map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Task, TaskState};

    use super::*;
    use crate::store::TaskRecord;

    #[test]
    fn words_select_runnable_tasks_with_and_without_a_claim() {
        let selected = |words: &[&str]| {
            let words = words.iter().map(|word| word.parse::<StateWord>().unwrap());
            let filter = Filter::new().state_words(words);
            let task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
            let now = Timestamp::UNIX_EPOCH;
            let mut record = TaskRecord::new(task, Ok(TaskState::new(now)), 1, now);
            let queued = filter.matches(&record);
            record.node = Some("n".parse().unwrap());
            let running = filter.matches(&record);
            record.state.as_mut().unwrap().status = windlass_statemachine::TaskStatus::Paused;
            (queued, running, filter.matches(&record))
        };
        assert_eq!(selected(&["queued"]), (true, false, false));
        assert_eq!(selected(&["running"]), (false, true, false));
        assert_eq!(selected(&["running", "paused"]), (false, true, true));
        for both in [
            &["running", "queued"][..],
            &["runnable"],
            &["queued", "runnable"],
        ] {
            assert_eq!(selected(both), (true, true, false), "{both:?}");
        }
    }

    #[test]
    fn the_words_of_a_filter_are_those_that_made_it() {
        for words in [
            &["queued", "failed"][..],
            &["running"],
            &["runnable", "killed"],
            &[],
        ] {
            let read = words.iter().map(|word| word.parse::<StateWord>().unwrap());
            let filter = Filter::new().state_words(read);
            let again: Vec<&str> = filter
                .words_of_states()
                .into_iter()
                .map(StateWord::as_str)
                .collect();
            assert_eq!(again, words);
        }
    }
}
