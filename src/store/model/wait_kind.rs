//! [`WaitKind`]: why tasks are not run, without the details.

use std::{fmt, str::FromStr};

use windlass_statemachine::Invalid;

/// Why a task that could run is not run. [`WaitReason`](crate::client::WaitReason) has the details.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::{Filter, Query, Store, WaitKind}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("report")).await?;
/// let stranded = Query::new(Filter::default()).waits("no_node".parse::<WaitKind>()?);
/// assert_eq!(client.page(&stranded, None).await?.tasks.len(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WaitKind {
    /// No live node has a handler for the kind.
    NoNode,
    /// The nodes of the kind can read only older versions of the data.
    DataVersion,
    /// The nodes of the kind take only tasks with other labels.
    Labels,
    /// The nodes that could take the task are frozen or draining.
    NotClaiming,
    /// The machines of the nodes that could take the task have a fault.
    Fault,
    /// The nodes that could take the task have no free slot.
    Full,
    /// The task waits for other tasks.
    Tasks,
    /// The task waits for a signal that its handler has declared.
    Signal,
    /// A limit that the task shares with other tasks is full.
    Limit,
    /// The node that has claimed the task no longer renews its lease.
    Lost,
    /// The store was copied into another one, where the task runs.
    Copied,
}

impl WaitKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::NoNode,
        Self::DataVersion,
        Self::Labels,
        Self::NotClaiming,
        Self::Fault,
        Self::Full,
        Self::Tasks,
        Self::Signal,
        Self::Limit,
        Self::Lost,
        Self::Copied,
    ];

    /// Returns the name that JSON and metrics use: `no_node`, `data_version`, `labels`, `not_claiming`, `fault`, `full`,
    /// `tasks`, `signal`, `limit`, `lost` or `copied`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoNode => "no_node",
            Self::DataVersion => "data_version",
            Self::Labels => "labels",
            Self::NotClaiming => "not_claiming",
            Self::Fault => "fault",
            Self::Full => "full",
            Self::Tasks => "tasks",
            Self::Signal => "signal",
            Self::Limit => "limit",
            Self::Lost => "lost",
            Self::Copied => "copied",
        }
    }
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WaitKind {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            // Groups of `windlass why` that are no reasons of their own.
            let instead = match text {
                "paused" => "; paused tasks are found by their state",
                "quarantined" => "; quarantined tasks have a filter of their own",
                _ => "",
            };
            Invalid::new("waits", format!("'{text}' is not one of {names}{instead}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_its_kind() {
        for kind in WaitKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for (group, instead) in [("paused", "by their state"), ("quarantined", "a filter")] {
            let refused = group.parse::<WaitKind>().unwrap_err().to_string();
            assert!(refused.contains(instead), "{refused}");
        }
        let refused = "no-node".parse::<WaitKind>().unwrap_err().to_string();
        assert!(
            refused.starts_with("waits: 'no-node' is not one of no_node, "),
            "{refused}"
        );
    }
}
