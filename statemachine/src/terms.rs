//! The terms of a task: how many run at the same time, by when it starts and ends, and its unique key.

mod keys;

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::{
    Invalid, Meta,
    retry::MAX_WAIT,
    text::{is_blank, is_unprintable},
};

/// How many limits a task may have.
pub const MAX_LIMITS: usize = 8;
/// The longest key of a limit or of a unique task, in bytes.
pub const MAX_KEY_BYTES: usize = 128;
/// The greatest number of a limit.
pub const MAX_LIMIT: u32 = 10_000;

/// A limit that a task shares with every task of the namespace that has a limit with the same key; for a limit on starts
/// also with the same period.
///
/// Two limits are equal when they have the same key and count the same, whether or not the keys come from
/// [templates](Self::template).
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_statemachine::Limit;
///
/// let limit = Limit::at_once("customer=acme", 3)?;
/// assert_eq!(serde_json::to_string(&limit).unwrap(), r#"{"key":"customer=acme","at_once":3}"#);
/// let limit = Limit::starts("api", 100, Duration::from_secs(60))?;
/// assert_eq!(serde_json::to_string(&limit).unwrap(), r#"{"key":"api","starts":100,"within":"1m"}"#);
/// assert_eq!(Limit::at_once("a/b", 3).unwrap_err().field(), "limits.key");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "LimitForm", into = "LimitForm")]
pub struct Limit {
    key: String,
    bound: Bound,
    /// The key as it was given, if it contains values of the props.
    template: Option<Box<str>>,
}

impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.bound) == (&other.key, other.bound)
    }
}

impl Eq for Limit {}

impl Hash for Limit {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.key, self.bound).hash(to);
    }
}

/// What a [`Limit`] counts, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// At most this many tasks are claimed at the same time.
    AtOnce(u32),
    /// At most `most` claims begin within any period of this length.
    Starts {
        /// How many claims.
        most: u32,
        /// The length of the period.
        within: Duration,
    },
}

impl Limit {
    /// At most `most` tasks with this key are claimed at the same time.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the key is not 1 to 128 bytes of printable text without `/`, or the number is not
    /// from 1 to 10,000.
    pub fn at_once(key: impl Into<String>, most: u32) -> Result<Self, Invalid> {
        Self::new(key.into(), Bound::AtOnce(most))
    }

    /// At most `most` claims of tasks with this key and period begin within any period of the length `within`. A limit with
    /// another period is another limit.
    ///
    /// # Errors
    ///
    /// As [`at_once`](Self::at_once); also for a period that is not from 1 ms to a week.
    pub fn starts(key: impl Into<String>, most: u32, within: Duration) -> Result<Self, Invalid> {
        Self::new(key.into(), Bound::Starts { most, within })
    }

    fn new(key: String, bound: Bound) -> Result<Self, Invalid> {
        check_key("limits.key", &key)?;
        let (field, most) = match bound {
            Bound::AtOnce(most) => ("limits.at_once", most),
            Bound::Starts { most, .. } => ("limits.starts", most),
        };
        if !(1..=MAX_LIMIT).contains(&most) {
            let reason = format!("{most} is not from 1 to {MAX_LIMIT}");
            return Err(Invalid::new(field, reason));
        }
        if let Bound::Starts { within, .. } = bound
            && !(Duration::from_millis(1)..=MAX_WAIT).contains(&within)
        {
            let reason = format!("{within:?} is not from 1 ms to a week");
            return Err(Invalid::new("limits.within", reason));
        }
        Ok(Self {
            key,
            bound,
            template: None,
        })
    }

    /// Returns the name that tasks under the same limit have in common.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the key as it was given, if it names values of the props: `customer={prop:customer.id}`. When the task
    /// gets other props, the key is filled in again ([`Task::limits_with`](crate::Task::limits_with)). `None` for a key
    /// that does not depend on the props.
    pub fn template(&self) -> Option<&str> {
        self.template.as_deref()
    }

    /// Returns what is counted, and how far.
    pub fn bound(&self) -> Bound {
        self.bound
    }
}

/// Checks the key of a limit, or a unique key.
fn check_key(field: &'static str, key: &str) -> Result<(), Invalid> {
    if is_blank(key)
        || key.len() > MAX_KEY_BYTES
        || key.contains('/')
        || key.chars().any(is_unprintable)
    {
        let reason =
            format!("{key:?} is not 1 to {MAX_KEY_BYTES} bytes of printable text without '/'");
        return Err(Invalid::new(field, reason));
    }
    Ok(())
}

/// A limit that a task shares with every task that has one with the same key: `at_once`, or `starts` and `within`.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitForm {
    /// The name that tasks under the same limit have in common.
    key: String,
    /// How many tasks with the key are claimed at the same time: 1 to 10,000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "number"
    )]
    at_once: Option<u32>,
    /// How many claims of tasks with the key begin within any period of the length `within`: 1 to 10,000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "number"
    )]
    starts: Option<u32>,
    /// The length of the period: 1 ms to a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    within: Option<Span>,
    /// The key before the values of the props were filled in: `customer={prop:customer.id}`. Other props fill it in
    /// again. Windlass writes it; a limit that is given has its places in `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<String>,
}

/// Reads the number of a limit. For a value of another type, the error names the range of a limit, not that
/// of the integer type.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(from)? else {
        return Ok(None);
    };
    let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
    number.map(Some).ok_or_else(|| {
        D::Error::custom(format!(
            "is {value}, not a whole number from 1 to {MAX_LIMIT}"
        ))
    })
}

/// A length of time as text.
#[derive(Serialize, Deserialize)]
struct Span(#[serde(with = "crate::retry::friendly")] Duration);

impl TryFrom<LimitForm> for Limit {
    type Error = Invalid;

    fn try_from(form: LimitForm) -> Result<Self, Invalid> {
        let limit = match (form.at_once, form.starts, form.within) {
            (Some(most), None, None) => Self::at_once(form.key, most)?,
            (None, Some(most), Some(Span(within))) => Self::starts(form.key, most, within)?,
            _ => {
                let reason = "need a `key` with `at_once`, or with `starts` and `within`: {\"key\":\"api\",\"starts\":100,\"within\":\"1m\"}";
                return Err(Invalid::new("limits", reason));
            }
        };
        if let Some(template) = &form.template {
            check_key("limits.template", template)?;
        }
        Ok(Self {
            template: form.template.map(String::into_boxed_str),
            ..limit
        })
    }
}

impl From<Limit> for LimitForm {
    fn from(limit: Limit) -> Self {
        let (at_once, starts, within) = match limit.bound {
            Bound::AtOnce(most) => (Some(most), None, None),
            Bound::Starts { most, within } => (None, Some(most), Some(Span(within))),
        };
        Self {
            key: limit.key,
            at_once,
            starts,
            within,
            template: limit.template.map(String::from),
        }
    }
}

/// A key that no other task may have for the period `within` after the submit of this task.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use windlass_statemachine::Unique;
///
/// let unique = Unique::new("mail-ann", Duration::from_secs(3600))?;
/// assert_eq!(serde_json::to_string(&unique).unwrap(), r#"{"key":"mail-ann","within":"1h"}"#);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UniqueForm", into = "UniqueForm")]
pub struct Unique {
    key: String,
    within: Duration,
}

/// The longest period of a [`Unique`] task.
pub const MAX_UNIQUE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Unique {
    /// Returns a key and the period for which it is taken, from the submit on.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the key is not 1 to 128 bytes of printable text without `/`, or the period is not
    /// from 1 ms to 366 days.
    pub fn new(key: impl Into<String>, within: Duration) -> Result<Self, Invalid> {
        let key = key.into();
        check_key("unique.key", &key)?;
        if !(Duration::from_millis(1)..=MAX_UNIQUE).contains(&within) {
            let reason = format!("{within:?} is not from 1 ms to 366 days");
            return Err(Invalid::new("unique.within", reason));
        }
        Ok(Self { key, within })
    }

    /// Returns the name that only one task has at a time.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns for how long after the submit of its task the key is taken.
    pub fn within(&self) -> Duration {
        self.within
    }
}

/// A key that no other task may have for the period `within` after the submit of this task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct UniqueForm {
    /// The name that only one task has at a time.
    key: String,
    /// For how long after its submit the key is taken: 1 ms to 366 days.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    within: Span,
}

impl TryFrom<UniqueForm> for Unique {
    type Error = Invalid;

    fn try_from(form: UniqueForm) -> Result<Self, Invalid> {
        Self::new(form.key, form.within.0)
    }
}

impl From<Unique> for UniqueForm {
    fn from(unique: Unique) -> Self {
        Self {
            key: unique.key,
            within: Span(unique.within),
        }
    }
}

/// The rarely used fields of a [`Task`](crate::Task), in the form in which a store keeps them next to the
/// others.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Limit, Task};
///
/// let mut task = Task::new("a".parse()?, "k".parse()?);
/// assert!(task.terms().is_none());
/// task.limits = vec![Limit::at_once("api", 3)?];
/// let mut read = Task::new("a".parse()?, "k".parse()?);
/// read.set_terms(task.terms().unwrap());
/// assert_eq!(read, task);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// [`Task::limits`](crate::Task::limits).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// [`Task::start_by`](crate::Task::start_by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
    /// [`Task::end_by`](crate::Task::end_by).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_by: Option<Timestamp>,
    /// [`Task::unique`](crate::Task::unique).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// [`Task::meta`](crate::Task::meta).
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// [`Task::free_id`](crate::Task::free_id).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_id: bool,
}

/// Checks the limits of one task.
///
/// # Errors
///
/// [`Invalid`] (field `limits`) for more than 8 limits, for two on tasks at once with the same key, and for two on starts with the
/// same key and period.
pub fn check_limits(limits: &[Limit]) -> Result<(), Invalid> {
    if limits.len() > MAX_LIMITS {
        let reason = format!("are {}; at most {MAX_LIMITS} are allowed", limits.len());
        return Err(Invalid::new("limits", reason));
    }
    let period = |limit: &Limit| match limit.bound {
        Bound::AtOnce(_) => None,
        Bound::Starts { within, .. } => Some(within.as_millis()),
    };
    for (n, limit) in limits.iter().enumerate() {
        let same = |other: &Limit| limit.key == other.key && period(limit) == period(other);
        if limits[..n].iter().any(same) {
            let reason = format!(
                "have the key {:?} twice; give it one limit on tasks at once, and one on starts for each period",
                limit.key
            );
            return Err(Invalid::new("limits", reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
