//! [`Fault`]: what happens to members, lines, processes and clocks, and when. A run has a list of them, which can be shrunk.

use std::time::Duration;

use fastrand::Rng;

use crate::network::Condition;

/// One fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What happens.
    pub what: What,
}

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A node is killed, and started again at the end.
    Kill(usize),
    /// All nodes are killed, and started again at the end.
    KillAll,
    /// A node stands still until the end.
    Pause(usize),
    /// A node is asked to shut down, and started again at the end.
    Stop(usize),
    /// The lines of a process to a member are in this condition until the end; `None`: those of all processes, to all members.
    Lines(Option<usize>, Option<usize>, Condition),
    /// The connections of a process break; `None`: all.
    Break(Option<usize>),
    /// A member is down until the end.
    Down(usize),
    /// The members have no leader until the end.
    NoLeader,
    /// The disks of the members are full until the end.
    Full,
    /// The history but for this many revisions is compacted.
    Compact(i64),
    /// The clock of a process is ahead by this many milliseconds until the end; it may be behind.
    Clock(usize, i64),
    /// An operator deletes the registration of a node.
    Unregister(usize),
    /// An operator ends the lease of a node.
    Revoke(usize),
    /// A node stands still from its next renewal on, for as long as the fault lasts.
    PauseAtRenewal(usize),
    /// The watches of a process are sent nothing until the end. Then its connections break.
    LateWatches(usize),
    /// A member sends nothing to watches until the end. Then it was restored from a snapshot, and sends all again.
    Restored(usize),
}

impl What {
    /// Returns whether it disturbs the process of the clients, which is number 0.
    pub(crate) fn is_of_clients(&self) -> bool {
        match self {
            Self::Lines(process, ..) | Self::Break(process) => process.is_none_or(|of| of == 0),
            Self::Down(_) | Self::NoLeader | Self::Restored(_) => true,
            Self::LateWatches(process) => *process == 0,
            _ => false,
        }
    }

    /// Returns whether a clock is wrong by minutes or more.
    pub(crate) fn is_wrong_clock(&self) -> bool {
        matches!(self, Self::Clock(_, ahead) if ahead.abs() > 60_000)
    }
}

/// Draws faults within the first part of a run: of `nodes` nodes, which are the processes from 1 on, and of members.
pub fn draw(rng: &mut Rng, over: Duration, (nodes, members): (usize, usize)) -> Vec<Fault> {
    let count = rng.usize(8..=24);
    let millis = u64::try_from(over.as_millis()).unwrap_or(u64::MAX);
    let mut faults: Vec<Fault> = (0..count)
        .map(|_| {
            let what = draw_one(rng, nodes, members);
            let longest = match what {
                What::Down(_) | What::NoLeader => 4_000,
                What::Pause(_) => 8_000,
                _ => 3_000,
            };
            Fault {
                at: Duration::from_millis(rng.u64(0..millis)),
                lasts: Duration::from_millis(rng.u64(10..longest)),
                what,
            }
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn draw_one(rng: &mut Rng, nodes: usize, members: usize) -> What {
    let node = rng.usize(1..=nodes);
    // Process 0 has the clients.
    let process = match rng.u32(0..4) {
        0 => None,
        _ => Some(rng.usize(0..=nodes)),
    };
    match rng.u32(0..100) {
        0..16 => What::Kill(node),
        16..19 => What::KillAll,
        19..31 => What::Pause(node),
        31..37 => What::Stop(node),
        37..64 => {
            let member = (rng.u32(0..3) == 0).then(|| rng.usize(0..members));
            What::Lines(process, member, condition(rng))
        }
        64..74 => What::Break(process),
        74..81 => What::Down(rng.usize(0..members)),
        81..86 => What::NoLeader,
        86..89 => What::Full,
        89..95 => What::Compact(rng.i64(30..100)),
        _ => What::Clock(node, rng.i64(-900..900)),
    }
}

fn condition(rng: &mut Rng) -> Condition {
    let whole = Condition::default();
    match rng.u32(0..7) {
        0 => Condition {
            slow: Duration::from_millis(rng.u64(20..1500)),
            ..whole
        },
        1 => Condition {
            lose_requests: rng.u32(1..60),
            ..whole
        },
        2 | 3 => Condition {
            lose_answers: rng.u32(1..60),
            ..whole
        },
        4 => Condition {
            breaks: rng.u32(1..60),
            ..whole
        },
        5 => Condition {
            cut_up: true,
            cut_down: rng.bool(),
            ..whole
        },
        _ => Condition {
            cut_down: true,
            ..whole
        },
    }
}
