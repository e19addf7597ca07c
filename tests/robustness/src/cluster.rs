//! [`Etcd`]: the members of a cluster and the paths to them, and their disturbances while workers
//! run.

#![allow(clippy::print_stderr, reason = "what a run leaves out is told")]

use std::time::Duration;

use fastrand::Rng;
use tokio::{
    task::block_in_place,
    time::{Instant, sleep, sleep_until},
};
use windlass_etcd_cluster::{Cluster, Proxy, cluster::Setup};

use crate::{
    BoxError,
    feed::Feed,
    witness::{Journal, Said},
};

/// The namespace of a run.
pub const NAMESPACE: &str = "robustness";

/// How many changes of one revision have a number.
const PLACES: u64 = 4096;

/// The disturbances of a cluster, and their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shaking {
    /// A member is killed, and started again after a while.
    pub kills: u32,
    /// A member that does not lead stands still for longer than the leases.
    pub stops: u32,
    /// The member that leads stands still, long enough for another one to lead.
    pub leader_stops: u32,
    /// Another member is made the leader.
    pub moves: u32,
    /// The history is compacted to where it is.
    pub compactions: u32,
    /// Two of three members are dead for longer than the leases.
    pub quorum_losses: u32,
    /// A machine is cut off from all members for longer than its leases.
    pub partitions: u32,
}

/// The members, and a path for each machine.
#[derive(Debug)]
pub struct Etcd {
    /// The members.
    pub cluster: Cluster,
    /// The paths.
    pub ways: Vec<Proxy>,
}

impl Etcd {
    /// Starts the members, with this many paths to them.
    ///
    /// # Errors
    ///
    /// When one does not start.
    pub async fn start(
        folder: &std::path::Path,
        members: usize,
        ways: usize,
    ) -> Result<Self, BoxError> {
        let folder = folder.join("etcd");
        std::fs::create_dir(&folder)?;
        let setup = Setup {
            folder: Some(folder),
            ..Setup::of(members)
        };
        let cluster = block_in_place(|| Cluster::start(setup))?;
        let mut made = Vec::new();
        for _ in 0..ways {
            made.push(Proxy::to(&cluster.endpoints()).await?);
        }
        Ok(Self {
            cluster,
            ways: made,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Kill,
    Stop,
    StopLeader,
    Move,
    Compact,
    LoseQuorum,
}

/// The target of a disturbance that is not a process of the test; logged, so that a reader finds
/// the cause.
const CLUSTER: u32 = 0;

fn say(journal: &Journal, how: String) {
    journal.say_of(CLUSTER, Said::Shaken { how });
}

/// The time, duration and kind of a disturbance.
#[derive(Debug, Clone, Copy)]
pub struct Spell {
    /// From then on.
    pub start: Instant,
    /// The duration.
    pub over: Duration,
    /// How long leases last.
    pub ttl: Duration,
    /// The disturbances.
    pub how: Shaking,
}

fn moments(rng: &mut Rng, over: Duration, blows: &[(Blow, u32)]) -> Vec<(Duration, Blow)> {
    let all = blows
        .iter()
        .flat_map(|&(blow, times)| (0..times).map(move |_| blow));
    let mut moments: Vec<_> = all.map(|blow| (over.mul_f64(rng.f64()), blow)).collect();
    moments.sort_by_key(|(moment, _)| *moment);
    moments
}

/// Shakes the members: one thing after the other, so that never more than one of them is missing,
/// except where the test wants that.
///
/// # Errors
///
/// When a member does not come back.
pub async fn shake(
    cluster: &mut Cluster,
    feed: &Feed,
    journal: &Journal,
    mut rng: Rng,
    spell: Spell,
) -> Result<(), BoxError> {
    let Spell {
        start,
        over,
        ttl,
        how,
    } = spell;
    let blows = [
        (Blow::Kill, how.kills),
        (Blow::Stop, how.stops),
        (Blow::StopLeader, how.leader_stops),
        (Blow::Move, how.moves),
        (Blow::Compact, how.compactions),
        (Blow::LoseQuorum, how.quorum_losses),
    ];
    let kills = cluster.outlives_kills()?;
    if !kills {
        // Printed, because this tests less than with other versions.
        let what = "this etcd loses data when it is killed (3.5.0 to 3.5.2 do): its members are ended by SIGTERM";
        eprintln!("{what}");
        say(journal, what.to_owned());
    }
    for (moment, blow) in moments(&mut rng, over, &blows) {
        sleep_until(start + moment).await;
        start_those_that_panicked(cluster, journal)?;
        let any = rng.usize(0..cluster.size());
        say(journal, format!("{blow:?} m{any}"));
        match blow {
            Blow::Kill => {
                end(cluster, any, kills)?;
                sleep(ttl.mul_f64(rng.f64())).await;
                block_in_place(|| cluster.restart(any))?;
            }
            Blow::Stop => {
                let leader = block_in_place(|| cluster.leader())?;
                let other = (leader + 1 + rng.usize(0..cluster.size() - 1)) % cluster.size();
                say(journal, format!("m{leader} leads, m{other} stands still"));
                cluster.pause(other)?;
                sleep(ttl.mul_f64(1.2 + rng.f64())).await;
                cluster.resume(other)?;
            }
            Blow::StopLeader => {
                // Not for longer: a leader whose leases ran out while it stood still revokes them
                // when it wakes, although another one has renewed them (before etcd 3.4.31 and
                // 3.5.13).
                let leader = block_in_place(|| cluster.leader())?;
                say(journal, format!("m{leader} leads and stands still"));
                cluster.pause(leader)?;
                sleep(ttl.mul_f64(0.5)).await;
                cluster.resume(leader)?;
            }
            Blow::Move => {
                // It refuses if it has just lost the lead.
                let _ = block_in_place(|| cluster.lead(any));
            }
            Blow::Compact => {
                // Watches may be behind that; the feed must not be, because the checkers need it.
                let told = i64::try_from(feed.last() / PLACES)?;
                let mut gateway = cluster.gateway(any);
                let _ = block_in_place(|| gateway.compact(told));
                gateway = cluster.gateway((any + 1) % cluster.size());
                let _ = block_in_place(|| gateway.compact(told));
            }
            Blow::LoseQuorum => {
                let other = (any + 1) % cluster.size();
                end(cluster, any, kills)?;
                end(cluster, other, kills)?;
                sleep(ttl.mul_f64(1.2 + rng.f64())).await;
                cluster.revive(any)?;
                block_in_place(|| cluster.restart(other))?;
                block_in_place(|| cluster.settle(any))?;
            }
        }
        say(journal, format!("{blow:?} is over"));
    }
    Ok(())
}

/// Starts members again that have ended by themselves, as a supervisor does: etcd 3.5.0 to 3.5.4 can panic when a client
/// that reads is killed (<https://github.com/etcd-io/etcd/issues/14110>). No other end is expected.
fn start_those_that_panicked(cluster: &mut Cluster, journal: &Journal) -> Result<(), BoxError> {
    for n in 0..cluster.size() {
        let Some(how) = cluster.ended(n)? else {
            continue;
        };
        if !how.contains("unexpected error during txn") {
            return Err(how.into());
        }
        eprintln!("{how}: it is started again");
        say(journal, how);
        block_in_place(|| cluster.restart(n))?;
    }
    Ok(())
}

/// Ends a member as hard as its version allows.
fn end(cluster: &mut Cluster, n: usize, kills: bool) -> Result<(), BoxError> {
    if kills {
        cluster.kill(n);
        return Ok(());
    }
    block_in_place(|| cluster.terminate(n))
}

/// Cuts machines off, one after the other: some by closing their connections, some silently.
pub async fn part(ways: &[Proxy], journal: &Journal, mut rng: Rng, spell: Spell) {
    let all = (0..spell.how.partitions).map(|_| spell.over.mul_f64(rng.f64()));
    let mut moments: Vec<Duration> = all.collect();
    moments.sort();
    for moment in moments {
        sleep_until(spell.start + moment).await;
        let number = rng.usize(0..ways.len());
        let way = &ways[number];
        if rng.bool() {
            say(journal, format!("way {number} is cut"));
            way.cut();
        } else {
            say(journal, format!("way {number} is silent"));
            way.silence();
        }
        sleep(spell.ttl.mul_f64(1.2 + rng.f64() * 1.3)).await;
        way.mend();
        say(journal, format!("way {number} is open"));
    }
}
