//! [`Report`]: the last numbered report of a remote worker that was applied.

use serde::{Deserialize, Serialize};

/// A numbered report of a remote worker that was applied. It answers the same report when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Report {
    /// Its number: 1 for the first report of a claim.
    pub n: u64,
    /// Why the store refused what the handler returned. A failed attempt was stored instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Report {
    /// Returns a report that was applied as it was sent.
    pub fn new(n: u64) -> Self {
        Self { n, refused: None }
    }
}
