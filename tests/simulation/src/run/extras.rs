//! The traffic that only some of the runs have: a seed draws which.

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{Client, store::Store};
use windlass_robustness::{
    BoxError, feed::Feed, polite::SILENT, time, traffic::Traffic, witness::Said, world::SILENCE,
};

use super::{Shared, micros};

/// Traffic that a run may have.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
enum Extra {
    Edges,
    Crowds,
    CrowdedDeletes,
    Polite,
    Silent,
    Retries,
    Once,
    Starts,
    Readers,
    Waits,
    Sleeps,
}

/// Sends the traffic that the plan has drawn, until a time.
pub(super) async fn send(
    shared: &Shared,
    traffic: &Traffic,
    (store, feed): (&Store, &Feed),
    mut rng: Rng,
    until: Instant,
) -> Result<(), BoxError> {
    let other = &Client::new(store);
    let mut forks = std::iter::repeat_with(|| rng.fork());
    let mut fork = || forks.next().unwrap_or_default();
    let has = |extra: Extra| shared.plan.extras & (1 << extra as u32) != 0;
    macro_rules! some {
        ($extra:ident, $sends:expr) => {{
            let sends = $sends;
            async {
                match has(Extra::$extra) {
                    true => sends.await,
                    false => Ok(()),
                }
            }
        }};
    }
    tokio::try_join!(
        some!(Edges, traffic.press(fork(), until)),
        some!(Crowds, traffic.crowd(fork(), until)),
        some!(CrowdedDeletes, traffic.crowded_delete(fork(), until)),
        some!(Polite, traffic.delete_politely(fork(), until)),
        some!(Silent, traffic.delete_silent(fork(), until)),
        some!(Retries, traffic.retry_at_once(fork(), until)),
        some!(Once, traffic.run_once(fork(), until)),
        some!(Starts, traffic.limit_starts(fork())),
        some!(Readers, traffic.read_again(other, feed, fork(), until)),
        some!(Waits, traffic.wait_for_some(store, fork(), until)),
        some!(Sleeps, traffic.repeat_sleeps(fork(), until)),
    )?;
    Ok(())
}

/// Waits until the silent handlers of deleted tasks have ended, for at most as long as a node may need to find out.
pub(super) async fn silent_ones_end(shared: &Shared) {
    let latest = micros(shared.plan.ttl) * 2 + SILENCE;
    let ends = time::now() + latest;
    while time::now() < ends && is_one_silent(shared) {
        sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// Whether a handler runs that is silent.
fn is_one_silent(shared: &Shared) -> bool {
    let lines = shared.lines.lock();
    let lines = lines.unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut run = std::collections::BTreeSet::new();
    for line in lines.iter() {
        match &line.said {
            Said::Start { task, fence, .. } if task.as_str().starts_with(SILENT) => {
                run.insert((line.pid, task.clone(), *fence));
            }
            Said::End { task, fence } => {
                run.remove(&(line.pid, task.clone(), *fence));
            }
            Said::Killed => run.retain(|(pid, ..)| *pid != line.pid),
            _ => {}
        }
    }
    !run.is_empty()
}
