//! [`Finding`]: the result of one check of a store, with advice.

#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
pub(crate) mod circle;
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
mod latency;
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
pub(crate) mod log_parts;

use jiff::Timestamp;
use serde::Serialize;

#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
pub(crate) use latency::Latency;

use super::{Advice, Error, Remedy};

/// The options of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// Repairs what can be repaired safely: deletes records that belong to no task, ends claims of
    /// nodes that have certainly ended, writes a log back. Claimed and unreadable records stay.
    pub repair: bool,
    /// Reads the whole file of a SQLite store and compares each index with its table, instead of
    /// the quick check, which only counts the rows of an index. Takes as long as reading the file.
    pub full: bool,
    /// Compacts the history of an etcd up to now. Other programs on this etcd lose its history too.
    pub compact: bool,
    /// Raises the fences of an etcd that was restored to an earlier state, above this one and above every fence that
    /// a node had seen. No node may be live.
    pub raise_fences: Option<u64>,
    /// The quota of the etcd members in bytes, for members that do not report it.
    pub quota: Option<u64>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything is in order.
    Ok,
    /// The check could not be made.
    Unknown,
    /// The store works, but an operator should look at it.
    Warning,
    /// Something is wrong.
    Error,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check: a word that never changes.
    pub check: &'static str,
    /// The severity.
    pub verdict: Verdict,
    /// What was found, in one line.
    pub found: String,
    /// What to do; empty when there is nothing to do.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub advice: &'static str,
    /// The step of the advice that a program can offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// The number of repairs.
    #[serde(skip_serializing_if = "is_zero")]
    pub repaired: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Finding {
    /// Returns a finding that everything is in order.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found, "")
    }

    /// Returns a finding with this verdict; `advice` says what to do.
    pub fn new(
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        advice: impl Into<Advice>,
    ) -> Self {
        let Advice { text, remedy } = advice.into();
        Self {
            check,
            verdict,
            found: found.into(),
            advice: text,
            remedy,
            repaired: 0,
        }
    }

    /// Returns the finding of a check that could not be made, with the reason.
    pub fn unknown(check: &'static str, why: &Error, advice: impl Into<Advice>) -> Self {
        Self::new(check, Verdict::Unknown, why.to_string(), advice)
    }

    /// Returns the finding about records that should not exist. The verdict is [`Verdict::Ok`] when there
    /// are none, or all were repaired.
    pub fn none_of(
        check: &'static str,
        (verdict, what): (Verdict, &str),
        found: &Strays,
        repaired: u64,
        advice: impl Into<Advice>,
    ) -> Self {
        if found.count == 0 {
            return Self::ok(check, format!("no {what}"));
        }
        let names = found.names.join(", ");
        let more = if found.count > found.names.len() as u64 {
            ", …"
        } else {
            ""
        };
        let text = format!("{} {what}: {names}{more}", found.count);
        let left = repaired < found.count;
        Self {
            repaired,
            ..Self::new(
                check,
                if left { verdict } else { Verdict::Ok },
                text,
                if left {
                    advice.into()
                } else {
                    Advice::default()
                },
            )
        }
    }
}

/// Returns the finding about a node that has joined in the future of this clock.
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
pub(crate) fn joined_ahead(node: &str, joined_at: Timestamp, now: Timestamp) -> Option<Finding> {
    let ahead = seconds_ahead(joined_at, now)?;
    let found = format!("node {node} joined {ahead} s in the future of this clock");
    let advice = "compare the clock of its machine with this one's, and with the members' of etcd: the one that differs is wrong. \
                  Set it right, and start its nodes again; wake-ups follow the clocks";
    Some(Finding::new("clock", Verdict::Warning, found, advice))
}

/// By how many seconds a clock has to be ahead before it is reported: clocks differ, and messages take time.
const AHEAD: i64 = 2;

/// Returns by how many seconds a time that a node has written, such as that of its join, is in the future of this clock; `None`
/// below two seconds.
///
/// ```
/// use jiff::{SignedDuration, Timestamp};
/// use windlass::store::examine::seconds_ahead;
///
/// let now = Timestamp::now();
/// assert_eq!(seconds_ahead(now + SignedDuration::from_secs(90), now), Some(90));
/// assert_eq!(seconds_ahead(now + SignedDuration::from_secs(1), now), None);
/// ```
pub fn seconds_ahead(written: Timestamp, now: Timestamp) -> Option<i64> {
    let ahead = written.duration_since(now).as_secs();
    (ahead >= AHEAD).then_some(ahead)
}

/// Records that should not exist: their number, and the names of the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strays {
    /// The number of records.
    pub count: u64,
    /// The names of the first five.
    pub names: Vec<String>,
}

impl Strays {
    const NAMED: usize = 5;

    /// Adds a record.
    pub fn add(&mut self, name: impl Into<String>) {
        self.count += 1;
        if self.names.len() < Self::NAMED {
            self.names.push(name.into());
        }
    }
}

impl<S: Into<String>> FromIterator<S> for Strays {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut strays = Self::default();
        names.into_iter().for_each(|name| strays.add(name));
        strays
    }
}
