//! [`Scope`]: the tasks that a token may see and change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass::{
    Invalid, Kind, Task,
    statemachine::task,
    store::{Filter, TaskRecord},
};

/// The most kinds of a scope: each task is compared with all of them.
const MOST_KINDS: usize = 1000;

/// The tasks that a token may see and change: those of some kinds, with some labels. The empty scope has every task.
///
/// A task outside of the scope does not exist for the token: it is not shown, and an operation on it is refused as one on
/// a task that does not exist. That an id or a unique key is taken can be learned.
///
/// # Example
///
/// ```
/// use windlass_server::Scope;
///
/// let scope: Scope = serde_json::from_str(r#"{"kinds":["mail","inbox/*"],"labels":{"team":"a"}}"#).unwrap();
/// let mail = "mail".parse().unwrap();
/// assert!(scope.has(&mail, &[("team".to_owned(), "a".to_owned())].into()));
/// assert!(!scope.has(&mail, &[("team".to_owned(), "b".to_owned())].into()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Scope {
    /// The kinds; `inbox/*` stands for every kind that begins with `inbox/`. Empty: every kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// The labels that a task has to have, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Scope {
    /// Returns the scope of some kinds and labels.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `kinds`) for a text that is not a kind, or the beginning of kinds followed by `*`.
    pub fn new(
        kinds: impl IntoIterator<Item = String>,
        labels: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Invalid> {
        let scope = Self {
            kinds: kinds.into_iter().collect(),
            labels: labels.into_iter().collect(),
        };
        scope.check()?;
        Ok(scope)
    }

    /// Checks the kinds and labels.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let sizes = [
            ("kinds", self.kinds.len(), MOST_KINDS),
            ("labels", self.labels.len(), task::MAX_LABELS),
        ];
        for (field, many, most) in sizes {
            if many > most {
                let what = format!("are {many}; a scope has at most {most}");
                return Err(Invalid::new(field, what));
            }
        }
        for kind in &self.kinds {
            let stem = kind.strip_suffix('*').unwrap_or(kind);
            if stem.contains('*') {
                let what = format!(
                    "'{kind}' has a '*' that is not at its end; 'inbox/*' stands for every kind below inbox/"
                );
                return Err(Invalid::new("kinds", what));
            }
            if stem.is_empty() {
                let what = "'*' stands for every kind; leave out the kinds for that";
                return Err(Invalid::new("kinds", what));
            }
            Kind::new(stem.trim_end_matches('/'))
                .map_err(|error| Invalid::new("kinds", error.to_string()))?;
        }
        if self.labels.keys().any(String::is_empty) {
            return Err(Invalid::new("labels", "a label has no name"));
        }
        Ok(())
    }

    /// Returns whether the scope has every task.
    pub fn is_everything(&self) -> bool {
        self.kinds.is_empty() && self.labels.is_empty()
    }

    /// Returns whether tasks of a kind with these labels are in the scope.
    pub fn has(&self, kind: &Kind, labels: &BTreeMap<String, String>) -> bool {
        self.has_kind(kind)
            && self
                .labels
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
    }

    /// Returns whether a kind is in the scope.
    pub fn has_kind(&self, kind: &Kind) -> bool {
        let is_of = |pattern: &String| match pattern.strip_suffix('*') {
            Some(stem) => kind.as_str().starts_with(stem),
            None => kind.as_str() == pattern,
        };
        self.kinds.is_empty() || self.kinds.iter().any(is_of)
    }

    /// Returns whether a task is in the scope.
    pub(crate) fn has_task(&self, task: &Task) -> bool {
        self.has(&task.kind, &task.labels)
    }

    /// Returns whether a stored task is in the scope.
    pub(crate) fn has_record(&self, record: &TaskRecord) -> bool {
        self.has_task(&record.task)
    }

    /// Restricts a filter to the scope, as far as a filter can: the caller still checks each task.
    pub(crate) fn narrow(&self, filter: &mut Filter) {
        for (name, value) in &self.labels {
            filter.labels.push((name.clone(), Some(value.clone())));
        }
        if let [only] = &*self.kinds
            && filter.kind.is_none()
            && filter.kind_prefix.is_none()
        {
            match only.strip_suffix('*') {
                Some(stem) => filter.kind_prefix = Some(stem.to_owned()),
                None => filter.kind = Kind::new(only.clone()).ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(kinds: &[&str]) -> Scope {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned());
        Scope::new(kinds, []).unwrap_or_else(|e| panic!("{e}"))
    }

    fn has(scope: &Scope, kind: &str) -> bool {
        scope.has_kind(&kind.parse().unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn a_scope_has_its_kinds_and_no_others() {
        let some = scope(&["mail", "inbox/*", "pre*"]);
        for kind in ["mail", "inbox/new", "prefix", "pre"] {
            assert!(has(&some, kind), "{kind}");
        }
        for kind in ["mails", "inbox", "inbo/x", "post"] {
            assert!(!has(&some, kind), "{kind}");
        }
        assert!(has(&Scope::default(), "anything"));
        assert!(Scope::default().is_everything() && !some.is_everything());
    }

    #[test]
    fn a_scope_has_a_bound_in_kinds_and_labels() {
        let kinds = |many: usize| (0..many).map(|n| format!("k{n}"));
        assert!(Scope::new(kinds(1000), []).is_ok());
        let wrong = Scope::new(kinds(1001), []).unwrap_err();
        assert_eq!(wrong.field(), "kinds");
        let labels = (0..33).map(|n| (format!("l{n}"), String::new()));
        assert_eq!(Scope::new([], labels).unwrap_err().field(), "labels");
    }

    #[test]
    fn a_scope_that_no_task_can_match_is_refused() {
        for kinds in [["*"], [""], ["/*"], ["team*/x"], ["a**"]] {
            let wrong = Scope::new(kinds.map(str::to_owned), []).unwrap_err();
            assert_eq!(wrong.field(), "kinds", "{kinds:?}");
        }
        let wrong = Scope::new([], [(String::new(), String::new())]).unwrap_err();
        assert_eq!(wrong.field(), "labels");
    }
}
