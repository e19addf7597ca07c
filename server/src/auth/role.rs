//! [`Role`]: what a caller may do.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// What a caller may do.
///
/// `read`, `operate` and `admin` are in an order: each may do what the ones before it may. `work` is beside `read` and
/// `operate`, and not comparable with them: it sends the requests of workers and nothing else. Only `admin` is above it.
///
/// # Example
///
/// ```
/// use windlass_server::Role;
///
/// assert!(Role::Operate > Role::Read && Role::Admin > Role::Work);
/// assert_eq!(Role::Work.partial_cmp(&Role::Read), None);
/// assert!(!Role::Work.allows(Role::Read) && !Role::Operate.allows(Role::Work));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Reads tasks, their histories and logs, counts, nodes and changes.
    Read,
    /// Also submits, commands, reschedules, retries and deletes tasks.
    Operate,
    /// Runs tasks as a remote worker: registers, exchanges, reports, reads the results of the tasks that its tasks have waited
    /// for, and leaves. Reads and changes nothing else.
    Work,
    /// Does everything: also commands nodes, purges, and makes and revokes tokens.
    Admin,
}

impl Role {
    /// Every role.
    const ALL: [Self; 4] = [Self::Read, Self::Operate, Self::Work, Self::Admin];

    /// Returns the name, as requests and tokens have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// Returns whether a caller with this role may send a request that needs a role.
    pub fn allows(self, needed: Self) -> bool {
        self.partial_cmp(&needed).is_some_and(Ordering::is_ge)
    }
}

impl PartialOrd for Role {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // A role that is not there yet is comparable with itself only, until somebody says more.
        match (self, other) {
            (one, same) if one == same => Some(Ordering::Equal),
            (Self::Admin, _) | (Self::Operate, Self::Read) => Some(Ordering::Greater),
            (_, Self::Admin) | (Self::Read, Self::Operate) => Some(Ordering::Less),
            _ => None,
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
        let named = Self::ALL.into_iter().find(|role| role.as_str() == text);
        let reason = || format!("'{text}' is not one of read, operate, work, admin");
        named.ok_or_else(|| windlass::Invalid::new("role", reason()))
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{self, Admin, Operate, Read, Work};

    #[test]
    fn each_role_may_do_its_own_and_work_is_beside_the_others() {
        let may = [
            (Read, vec![Read]),
            (Operate, vec![Read, Operate]),
            (Work, vec![Work]),
            (Admin, vec![Read, Operate, Work, Admin]),
        ];
        for (role, allowed) in may {
            for needed in Role::ALL {
                let is_allowed = allowed.contains(&needed);
                assert_eq!(role.allows(needed), is_allowed, "{role} {needed}");
            }
            assert_eq!(role.as_str().parse(), Ok(role));
        }
    }
}
