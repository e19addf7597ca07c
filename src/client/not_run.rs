//! [`NotRun`]: the tasks of a kind that nothing runs at present, by their cause.

use super::{
    counted::{KindStats, Stats},
    waits::WaitReason,
};

/// Why tasks of a kind are not run at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// Something holds back tasks that could run.
    Reason(&'a WaitReason),
    /// An operator or their handler has paused them.
    Paused,
    /// Their records cannot be read.
    Quarantined,
}

impl Cause<'_> {
    /// Returns the name of the cause: that of its [`WaitReason`], `paused` or `quarantined`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.kind().as_str(),
            Self::Paused => "paused",
            Self::Quarantined => "quarantined",
        }
    }

    /// Returns the cause in words.
    pub fn text(&self) -> String {
        let text = match self {
            Self::Reason(reason) => return reason.to_string(),
            Self::Paused => "it is paused until it is resumed",
            Self::Quarantined => "its record cannot be read; a retry starts it again",
        };
        text.to_owned()
    }
}

/// Tasks of a kind that are not run for the same cause.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct NotRun<'a> {
    /// The numbers of the kind.
    pub of: &'a KindStats,
    /// The cause.
    pub cause: Cause<'a>,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether there may be more: only a part of the tasks was read.
    pub at_least: bool,
}

impl Stats {
    /// Returns the tasks that nothing runs at present, by kind and cause, the most tasks first. Sleeping tasks whose time has
    /// not come are not among them, except those that wait for another attempt.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report")).await?;
    /// client.submit(NewTask::new("mail").paused()).await?;
    /// let stats = client.stats().await?;
    /// let causes: Vec<&str> = stats.not_run().iter().map(|one| one.cause.as_str()).collect();
    /// assert_eq!(causes, ["paused", "no_node"]);
    /// # Ok(()) }
    /// ```
    pub fn not_run(&self) -> Vec<NotRun<'_>> {
        let mut all: Vec<NotRun<'_>> = self.kinds.iter().flat_map(NotRun::of_kind).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.tasks));
        all
    }
}

impl<'a> NotRun<'a> {
    fn of_kind(of: &'a KindStats) -> impl Iterator<Item = Self> {
        let held = of.held_back.iter().map(|held| NotRun {
            of,
            cause: Cause::Reason(&held.reason),
            tasks: held.tasks,
            at_least: held.at_least,
        });
        let stopped = [
            (Cause::Paused, of.paused),
            (Cause::Quarantined, of.quarantined),
        ];
        let stopped = stopped.into_iter().filter(|(_, tasks)| *tasks > 0);
        held.chain(stopped.map(move |(cause, tasks)| NotRun {
            of,
            cause,
            tasks,
            at_least: false,
        }))
    }
}
