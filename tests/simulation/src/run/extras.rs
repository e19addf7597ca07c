//! The traffic that only some of the runs have: a seed draws which.

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use windlass::{Client, store::Store};
use windlass_robustness::{
    BoxError, feed::Feed, polite::SILENT, time, traffic::Traffic, world::SILENCE,
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
    use Extra::*;
    let other = &Client::new(store);
    let mut fork = || rng.fork();
    let has = |extra| shared.plan.extras & (1 << extra as u32) != 0;
    tokio::try_join!(
        some(has(Edges), traffic.press(fork(), until)),
        some(has(Crowds), traffic.crowd(fork(), until)),
        some(has(CrowdedDeletes), traffic.crowded_delete(fork(), until)),
        some(has(Polite), traffic.delete_politely(fork(), until)),
        some(has(Silent), traffic.delete_silent(fork(), until)),
        some(has(Retries), traffic.retry_at_once(fork(), until)),
        some(has(Once), traffic.run_once(fork(), until)),
        some(has(Starts), traffic.limit_starts(fork())),
        some(has(Readers), traffic.read_again(other, feed, fork(), until)),
        some(has(Waits), traffic.wait_for_some(store, fork(), until)),
        some(has(Sleeps), traffic.repeat_sleeps(fork(), until)),
    )?;
    Ok(())
}

async fn some(
    has: bool,
    sends: impl Future<Output = Result<(), BoxError>>,
) -> Result<(), BoxError> {
    if has { sends.await } else { Ok(()) }
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
    let mut runs = shared.runs().into_keys();
    runs.any(|(_, task, _)| task.as_str().starts_with(SILENT))
}
