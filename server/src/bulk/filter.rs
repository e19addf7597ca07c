//! [`BulkFilter`]: a filter in JSON.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use windlass::{
    Invalid, Kind, NodeName, TaskId,
    store::{Filter, StateWord, TimeRange},
};

/// Which tasks a bulk operation selects, with the names of the parameters of `GET /v1/tasks`. A task has to match all of
/// them.
///
/// # Example
///
/// ```
/// use windlass_server::bulk::BulkFilter;
///
/// let filter: BulkFilter = serde_json::from_str(r#"{"kind":"inbox/*","state":["failed"]}"#).unwrap();
/// assert_eq!(filter.to_filter()?.kind_prefix.as_deref(), Some("inbox/"));
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BulkFilter {
    /// Only tasks in one of these states, where `running` and `queued` are the runnable tasks that a node runs and those
    /// that wait for one. By default those to which the action can apply: live tasks for a command, ended ones for
    /// a retry, any for a deletion.
    #[serde(deserialize_with = "some", skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateWord>,
    /// Only tasks of this kind; `inbox/*` for every kind that begins with `inbox/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only tasks with each of these labels: `team`, or `team=billing`.
    #[serde(deserialize_with = "some", skip_serializing_if = "Vec::is_empty")]
    pub label: Vec<String>,
    /// Only tasks with one of these ids.
    #[serde(deserialize_with = "some", skip_serializing_if = "Vec::is_empty")]
    pub id: Vec<TaskId>,
    /// Only tasks whose id begins with this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only tasks that this node has claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Only tasks that a node has claimed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
    /// Only quarantined tasks: their record cannot be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
    /// Only tasks with this text in one of their errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only tasks whose last error has this fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Only tasks that have a limit with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// Only tasks that were submitted at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_from: Option<Timestamp>,
    /// Only tasks that were submitted before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_until: Option<Timestamp>,
    /// Only tasks that ended at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_from: Option<Timestamp>,
    /// Only tasks that ended before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_until: Option<Timestamp>,
}

/// Reads a list that is not empty: an empty one would select every task, which its writer hardly means.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(from)?;
    match list.is_empty() {
        true => Err(D::Error::custom(
            "an empty list selects nothing; leave the field out to select without it",
        )),
        false => Ok(list),
    }
}

impl BulkFilter {
    /// Returns the filter for a store.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `kind`, `label`).
    pub fn to_filter(&self) -> Result<Filter, Invalid> {
        let mut filter = Filter::default();
        filter = filter.state_words(self.state.iter().copied());
        if let Some(kind) = &self.kind {
            match kind.strip_suffix('*') {
                Some(stem) => filter.kind_prefix = Some(stem.to_owned()),
                None => filter.kind = Some(Kind::new(kind.clone())?),
            }
        }
        for label in &self.label {
            let (name, value) = match label.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (label.as_str(), None),
            };
            if name.is_empty() {
                let what = format!("'{label}' has no name; write it like team or team=billing");
                return Err(Invalid::new("label", what));
            }
            filter.labels.push((name.to_owned(), value));
        }
        filter.ids.clone_from(&self.id);
        filter.id_prefix.clone_from(&self.prefix);
        filter.node.clone_from(&self.node);
        (filter.claimed, filter.quarantined) = (self.claimed, self.quarantined);
        filter.error.clone_from(&self.error);
        filter.fingerprint.clone_from(&self.fingerprint);
        filter.limit_key.clone_from(&self.limit_key);
        filter.submitted = TimeRange::new(self.submitted_from, self.submitted_until);
        filter.ended = TimeRange::new(self.ended_from, self.ended_until);
        Ok(filter)
    }

    /// Returns the form of a filter of a store.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `props_at`) for a filter of values of props: a bulk operation has none.
    pub fn of(filter: &Filter) -> Result<Self, Invalid> {
        if !filter.props.is_empty() {
            let what = "is no filter of a bulk operation; select the tasks by kind, label or state";
            return Err(Invalid::new("props_at", what));
        }
        let prefix = filter.kind_prefix.as_ref().map(|stem| format!("{stem}*"));
        let label = filter.labels.iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        });
        Ok(Self {
            state: filter.words_of_states(),
            kind: prefix.or_else(|| filter.kind.as_ref().map(ToString::to_string)),
            label: label.collect(),
            id: filter.ids.clone(),
            prefix: filter.id_prefix.clone(),
            node: filter.node.clone(),
            claimed: filter.claimed,
            quarantined: filter.quarantined,
            error: filter.error.clone(),
            fingerprint: filter.fingerprint.clone(),
            limit_key: filter.limit_key.clone(),
            submitted_from: filter.submitted.from,
            submitted_until: filter.submitted.until,
            ended_from: filter.ended.from,
            ended_until: filter.ended.until,
        })
    }
}
