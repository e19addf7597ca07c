//! The methods of [`Filter`], one for each condition.

use windlass_statemachine::{Json, Kind, NodeName, StateKind, TaskId};

use super::filter::{Filter, TimeRange};

impl Filter {
    /// Returns the filter that selects every task.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects tasks in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = StateKind>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Selects only quarantined tasks, if true.
    #[must_use]
    pub fn quarantined(mut self, only: bool) -> Self {
        self.quarantined = only;
        self
    }

    /// Selects tasks of this kind.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Selects tasks whose kind begins so: `inbox/` selects those of the kind `inbox/err`.
    #[must_use]
    pub fn kind_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.kind_prefix = Some(prefix.into());
        self
    }

    /// Adds a label that the tasks have, with this value.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), Some(value.into())));
        self
    }

    /// Adds a label that the tasks have, with any value.
    #[must_use]
    pub fn has_label(mut self, name: impl Into<String>) -> Self {
        self.labels.push((name.into(), None));
        self
    }

    /// Replaces the labels that the tasks have.
    #[must_use]
    pub fn labels(mut self, labels: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        self.labels = labels.into_iter().collect();
        self
    }

    /// Selects tasks whose id begins with this text.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Selects tasks that this node has claimed.
    #[must_use]
    pub fn node(mut self, node: NodeName) -> Self {
        self.node = Some(node);
        self
    }

    /// Selects tasks that have a limit with this key.
    #[must_use]
    pub fn limit_key(mut self, key: impl Into<String>) -> Self {
        self.limit_key = Some(key.into());
        self
    }

    /// Selects only tasks that a node has claimed, if true.
    #[must_use]
    pub fn claimed(mut self, only: bool) -> Self {
        self.claimed = only;
        self
    }

    /// Selects tasks with this text in one of their stored errors.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Selects tasks whose last error has this fingerprint.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }

    /// Selects tasks with one of these ids.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = TaskId>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }

    /// Selects tasks that were submitted in this range of time.
    #[must_use]
    pub fn submitted(mut self, range: TimeRange) -> Self {
        self.submitted = range;
        self
    }

    /// Selects tasks that ended in this range of time.
    #[must_use]
    pub fn ended(mut self, range: TimeRange) -> Self {
        self.ended = range;
        self
    }

    /// Replaces the required values of the props, each with its JSON pointer.
    #[must_use]
    pub fn props(mut self, props: impl IntoIterator<Item = (String, Json)>) -> Self {
        self.props = props.into_iter().collect();
        self
    }
}
