//! [`DataVersions`]: the data versions that a node can read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Invalid, Kind, state::FIRST_DATA_VERSION};

/// The data versions that a node can read, by kind.
///
/// A program that writes version 3 of a kind's data can read versions 1 to 3 (it migrates 1 and 2), so
/// one number is enough: the newest version. A kind that declares none has version 1.
///
/// # Example
///
/// ```
/// use windlass::store::DataVersions;
///
/// let mut reads = DataVersions::default();
/// reads.set("poll".parse()?, 3);
/// let (poll, other) = ("poll".parse()?, "other".parse()?);
/// assert!(reads.reads(&poll, 2) && reads.reads(&poll, 3) && !reads.reads(&poll, 4));
/// assert!(reads.reads(&other, 1) && !reads.reads(&other, 2));
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataVersions {
    /// The newest version of each kind that differs from `others`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    kinds: BTreeMap<Kind, u32>,
    /// The newest version of every other kind.
    #[serde(default = "first")]
    others: u32,
}

fn first() -> u32 {
    FIRST_DATA_VERSION
}

impl Default for DataVersions {
    /// Returns version 1 for every kind.
    fn default() -> Self {
        Self {
            kinds: BTreeMap::new(),
            others: FIRST_DATA_VERSION,
        }
    }
}

impl DataVersions {
    /// Sets the newest version of a kind.
    pub fn set(&mut self, kind: Kind, newest: u32) {
        self.kinds.insert(kind, newest);
    }

    /// Sets the newest version of every kind that is not set separately: 1 by default.
    pub fn set_others(&mut self, newest: u32) {
        self.others = newest;
    }

    /// Returns the newest version of a kind that can be read.
    pub fn newest(&self, kind: &Kind) -> u32 {
        self.kinds.get(kind).copied().unwrap_or(self.others)
    }

    /// Returns whether data of this kind and version can be read.
    pub fn reads(&self, kind: &Kind, version: u32) -> bool {
        version <= self.newest(kind)
    }

    /// Returns whether the value is the default: version 1 for every kind.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Checks the data version that a kind declares.
pub(crate) fn check_data_version(version: u32) -> Result<(), Invalid> {
    match version {
        0 => Err(Invalid::new(
            "data_version",
            "is 0; the first version is 1, and a kind without versions has it",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_without_versions_reads_version_1() {
        let read: DataVersions = serde_json::from_str("{}").unwrap();
        assert!(read.is_default());
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"others":1}"#);
    }

    #[test]
    fn a_kind_of_its_own_is_apart_from_the_others() {
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let mut versions = DataVersions::default();
        versions.set_others(2);
        versions.set("a".parse().unwrap(), 1);
        assert!(!versions.reads(&a, 2) && versions.reads(&b, 2) && !versions.reads(&b, 3));
        let text = serde_json::to_string(&versions).unwrap();
        assert_eq!(text, r#"{"kinds":{"a":1},"others":2}"#);
        assert_eq!(
            serde_json::from_str::<DataVersions>(&text).unwrap(),
            versions
        );
    }
}
