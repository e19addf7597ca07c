//! [`ExecLine`]: what commands of the kind `exec` write to their file.

use windlass::{Fence, TaskId};

/// A line that a command of the kind `exec` wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecLine {
    /// When: microseconds of the machine's monotonic clock, to the hundredth of a second.
    pub at: u64,
    /// Its task.
    pub task: TaskId,
    /// Its claim.
    pub fence: Fence,
    /// What.
    pub said: ExecSaid,
}

/// What a command wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecSaid {
    /// It started and found this count in its folder.
    Start(u64),
    /// It stored this count in its folder.
    Step(u64),
    /// It found that the command of this claim lives.
    Overlap(Fence),
}

impl std::fmt::Display for ExecSaid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(n) => write!(f, "start {n}"),
            Self::Step(n) => write!(f, "step {n}"),
            Self::Overlap(fence) => write!(f, "overlap {fence}"),
        }
    }
}

impl ExecLine {
    /// Reads a line. Commands take the time from `/proc/uptime`, which counts the time for which the
    /// machine was `suspended` too.
    pub(crate) fn parse(line: &str, suspended: u64) -> Option<Self> {
        let mut words = line.split(' ');
        let (seconds, hundredths) = words.next()?.split_once('.')?;
        let seconds: u64 = seconds.parse().ok()?;
        let hundredths: u64 = hundredths.parse().ok()?;
        let at = (seconds * 1_000_000 + hundredths * 10_000).saturating_sub(suspended);
        let (task, fence) = (words.next()?, words.next()?);
        let (said, n) = (words.next()?, words.next()?.parse().ok()?);
        Some(Self {
            at,
            task: task.parse().ok()?,
            fence: Fence(fence.parse().ok()?),
            said: match said {
                "start" => ExecSaid::Start(n),
                "step" => ExecSaid::Step(n),
                "overlap" => ExecSaid::Overlap(Fence(n)),
                _ => return None,
            },
        })
    }
}
