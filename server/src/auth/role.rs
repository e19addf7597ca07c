//! [`Role`]: what a caller may do.

use serde::{Deserialize, Serialize};

/// What a caller may do. Each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Reads tasks, their histories and logs, counts, nodes and changes.
    Read,
    /// Also submits, commands, reschedules, retries and deletes tasks.
    Operate,
    /// Also commands nodes, purges, and makes and revokes tokens.
    Admin,
}

impl Role {
    /// Returns the name, as requests and tokens have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = windlass::Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Read, Self::Operate, Self::Admin];
        let named = all.into_iter().find(|role| role.as_str() == text);
        let reason = || format!("'{text}' is not one of read, operate, admin");
        named.ok_or_else(|| windlass::Invalid::new("role", reason()))
    }
}
