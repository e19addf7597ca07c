//! [`Filter`] and [`Page`]: the tasks that a list returns.

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Json, Kind, NodeName, StateKind, TaskId};

use super::record::TaskRecord;
use crate::store::Error;

/// The largest page of a list.
const MAX_PAGE: u32 = 10_000;

/// The most conditions of one sort in a filter: labels, states, values of props. A store compares all of them in one expression.
const MAX_CONDITIONS: usize = 100;

/// The most ids of a filter.
const MAX_IDS: usize = 10_000;

/// Selects tasks. A task must meet every condition that is set; the default selects all tasks.
///
/// # Example
///
/// ```
/// use windlass::store::Filter;
/// use windlass::StateKind;
///
/// let dead_letters = Filter::new().states([StateKind::Failed]).label("team", "billing");
/// assert!(!dead_letters.is_all());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Tasks in one of these states; empty for any.
    pub states: Vec<StateKind>,
    /// Of runnable tasks: only those that a node runs (`true`), or only those that wait for a node (`false`). It says
    /// nothing of tasks in other states. [`state_words`](Self::state_words) sets it.
    pub running: Option<bool>,
    /// Only tasks that are quarantined because their record cannot be read.
    pub quarantined: bool,
    /// Tasks of this kind.
    pub kind: Option<Kind>,
    /// Of a kind that begins so: `inbox/` selects `inbox/err`, and not `inbox`.
    pub kind_prefix: Option<String>,
    /// With each of these labels; `None` as a value means any value.
    pub labels: Vec<(String, Option<String>)>,
    /// Tasks whose id begins with this text.
    pub id_prefix: Option<String>,
    /// Tasks that this node has claimed.
    pub node: Option<NodeName>,
    /// Only tasks that a node has claimed.
    pub claimed: bool,
    /// Tasks that have a limit with this key. With [`claimed`](Self::claimed): those that have a slot of it.
    pub limit_key: Option<String>,
    /// Only tasks that wait for a signal that their handler has declared ([`TaskState::awaits_signal`](crate::TaskState::awaits_signal)).
    pub awaits_signal: bool,
    /// Tasks with this text in one of their stored errors; case is ignored.
    pub error: Option<String>,
    /// Tasks whose last error has this fingerprint ([`TaskRecord::fingerprint`]). Every task that meets the other
    /// conditions is read.
    pub fingerprint: Option<String>,
    /// Tasks with one of these ids; empty for any.
    pub ids: Vec<TaskId>,
    /// Tasks that were submitted in this range of time.
    pub submitted: TimeRange,
    /// Tasks that ended in this range of time. With a bound, only ended tasks match.
    pub ended: TimeRange,
    /// Tasks with each of these values in their props: a JSON pointer (RFC 6901) and the value, compared like
    /// [`Json::same_value`]. Every task that meets the other conditions is read, because props have no index.
    pub props: Vec<(String, Json)>,
}

/// A range of times. Without bounds it contains every time.
///
/// # Example
///
/// ```
/// use windlass::{jiff::Timestamp, store::TimeRange};
///
/// let since = TimeRange::new(Timestamp::UNIX_EPOCH, None);
/// assert!(since.contains(Timestamp::now()));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeRange {
    /// The first time in the range.
    pub from: Option<Timestamp>,
    /// The first time after the range.
    pub until: Option<Timestamp>,
}

impl TimeRange {
    /// Returns the range from the first time (included) to the second (excluded); `None` is no
    /// bound.
    pub fn new(from: impl Into<Option<Timestamp>>, until: impl Into<Option<Timestamp>>) -> Self {
        let (from, until) = (from.into(), until.into());
        Self { from, until }
    }

    /// Returns whether a time is in the range.
    pub fn contains(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.until.is_none_or(|until| time < until)
    }

    fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

impl Filter {
    /// Returns whether the filter says nothing of which tasks are meant. An empty prefix is a prefix of everything, and an empty
    /// text is in every error.
    pub fn is_all(&self) -> bool {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let stated = Self {
            kind_prefix: some(&self.kind_prefix),
            id_prefix: some(&self.id_prefix),
            error: some(&self.error),
            ..self.clone()
        };
        stated == Self::default()
    }

    /// Checks that the filter has no more conditions than a store compares at once.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `label`, `state`, `props_at`, `id`).
    pub fn check(&self) -> Result<(), Error> {
        let sorts = [
            ("label", self.labels.len(), MAX_CONDITIONS),
            ("state", self.states.len(), MAX_CONDITIONS),
            ("props_at", self.props.len(), MAX_CONDITIONS),
            ("id", self.ids.len(), MAX_IDS),
        ];
        for (field, many, most) in sorts {
            if many > most {
                let reason = format!("is given {many} times; a filter has at most {most}");
                return Err(Invalid::new(field, reason).into());
            }
        }
        Ok(())
    }

    /// Returns a hash of the filter, which almost certainly differs for other filters. Times are left
    /// out: a command with "of the last hour" has another time for each page.
    pub(crate) fn number(&self) -> u32 {
        let timeless = Self {
            submitted: TimeRange::default(),
            ended: TimeRange::default(),
            ..self.clone()
        };
        // FNV-1a, because it is the same in every process.
        let text = format!("{timeless:?}");
        text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }

    /// Returns whether the filter selects tasks of this kind.
    pub(crate) fn is_of_kind(&self, kind: &Kind) -> bool {
        let begins = |prefix: &String| kind.as_str().starts_with(prefix.as_str());
        self.kind.as_ref().is_none_or(|k| k == kind) && self.kind_prefix.as_ref().is_none_or(begins)
    }

    /// Whether only live tasks can match, so that a store need not read those that have ended.
    pub(crate) fn is_live_only(&self) -> bool {
        let live = !self.states.is_empty() && !self.states.iter().any(|code| code.is_terminal());
        live || self.claimed || self.awaits_signal || self.node.is_some()
    }

    /// Returns whether it has a range of times in which the tasks ended.
    pub(crate) fn is_of_ends(&self) -> bool {
        !self.ended.is_all()
    }

    /// Returns whether only ended tasks can match. A quarantined task has no state, so it does not.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_ended_only(&self) -> bool {
        let ended = !self.states.is_empty() && self.states.iter().all(|code| code.is_terminal());
        ended || !self.ended.is_all()
    }

    fn has_props(&self, props: &Json) -> bool {
        let mut wanted = self.props.iter();
        wanted.all(|(pointer, value)| props.at(pointer).is_some_and(|at| at.same_value(value)))
    }

    /// Returns whether the filter selects this record.
    pub fn matches(&self, record: &TaskRecord) -> bool {
        let state = record.state.as_ref().ok();
        let task = &record.task;
        (self.ids.is_empty() || self.ids.contains(&task.id))
            && self.submitted.contains(record.submitted_at)
            && (self.ended.is_all()
                || state.is_some_and(|s| s.code().is_terminal() && self.ended.contains(s.since)))
            && (self.states.is_empty() || state.is_some_and(|s| self.states.contains(&s.code())))
            && self.running.is_none_or(|running| {
                let is_runnable = state.is_some_and(|s| s.code() == StateKind::Runnable);
                !is_runnable || record.node.is_some() == running
            })
            && (!self.quarantined || record.state.is_err())
            && self.is_of_kind(&task.kind)
            && self.labels.iter().all(|(name, value)| {
                let has = task.labels.get(name);
                has.is_some_and(|has| value.as_ref().is_none_or(|v| v == has))
            })
            && self
                .id_prefix
                .as_ref()
                .is_none_or(|p| task.id.as_str().starts_with(p.as_str()))
            && self
                .node
                .as_ref()
                .is_none_or(|n| record.node.as_ref() == Some(n))
            && (!self.claimed || record.node.is_some())
            && self
                .limit_key
                .as_ref()
                .is_none_or(|key| task.limits.iter().any(|limit| limit.key() == key))
            && (!self.awaits_signal || state.is_some_and(|s| s.awaits_signal().is_some()))
            && self.error.as_ref().is_none_or(|text| {
                let text = text.to_lowercase();
                match &record.state {
                    Ok(state) => {
                        let mut errors = state.errors.entries().iter();
                        errors.any(|e| e.error.to_lowercase().contains(&text))
                    }
                    Err(e) => e.to_string().to_lowercase().contains(&text),
                }
            })
            && (self.fingerprint.as_ref()).is_none_or(|print| record.has_fingerprint(print))
            && self.has_props(&task.props)
    }
}

/// A page of a list.
///
/// # Example
///
/// ```
/// use windlass::store::Page;
///
/// let page = Page::new(100).after(7);
/// assert_eq!((page.after, page.limit), (7, 100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Only tasks after this submit order; 0 for the first page.
    pub after: u64,
    /// The most tasks of the page: 1 to 10,000.
    pub limit: u32,
}

impl Page {
    /// Returns the first page of this size.
    pub fn new(limit: u32) -> Self {
        let after = 0;
        Self { after, limit }
    }

    /// Begins after this submit order.
    #[must_use]
    pub fn after(mut self, after: u64) -> Self {
        self.after = after;
        self
    }

    /// Checks the size of the page.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `limit`).
    pub fn check(self) -> Result<(), Error> {
        if (1..=MAX_PAGE).contains(&self.limit) {
            return Ok(());
        }
        let reason = format!("is {}; give 1 to {MAX_PAGE}", self.limit);
        Err(Invalid::new("limit", reason).into())
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            after: 0,
            limit: 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: an unset variable of a shell made `--prefix ""` or `--error ""`, which selected tasks without `--all`.
    #[test]
    fn a_filter_by_empty_prefixes_selects_every_task() {
        let error = Filter {
            error: Some(String::new()),
            ..Filter::default()
        };
        assert!(error.is_all());
        let (mut id, mut kind) = (Filter::default(), Filter::default());
        id.id_prefix = Some(String::new());
        kind.kind_prefix = Some(String::new());
        assert!(id.is_all() && kind.is_all());
        id.id_prefix = Some("a".to_owned());
        kind.claimed = true;
        assert!(!id.is_all() && !kind.is_all());
    }

    #[test]
    fn a_page_has_1_to_10000_tasks() {
        let page = |limit| Page { after: 0, limit }.check();
        for limit in [1, 1000, 10_000] {
            assert!(page(limit).is_ok(), "{limit}");
        }
        for limit in [0, 10_001, u32::MAX] {
            let text = page(limit).unwrap_err().to_string();
            assert_eq!(text, format!("limit: is {limit}; give 1 to 10000"));
        }
    }
}
