//! Kills, stops and restarts workers, and shakes the cluster under them, at random moments.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep_until};
use windlass::Client;

use crate::{
    BoxError,
    chaos::Settings,
    cluster::{self, Etcd, Spell},
    feed::Feed,
    witness::Journal,
    workers::{Role, SHUTDOWN, Worker},
    zombie::{self, Standstill},
};

/// Disturbs the cluster of the workers, if there is one.
pub(crate) async fn shake(
    etcd: &mut Option<Etcd>,
    feed: &Feed,
    journal: &Journal,
    mut rng: Rng,
    start: Instant,
    settings: Settings,
) -> Result<(), BoxError> {
    let Some(etcd) = etcd else {
        return Ok(());
    };
    let spell = Spell {
        start,
        over: settings.over,
        ttl: settings.ttl,
        how: settings.shaking,
    };
    let Etcd { cluster, ways } = etcd;
    let (shaken, ()) = tokio::join!(
        cluster::shake(cluster, feed, journal, rng.fork(), spell),
        cluster::part(ways, journal, rng, spell),
    );
    shaken
}

/// The disturbances of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    Kill,
    KillSeveral,
    Stop,
    ShutDown,
}

/// Kills, stops and restarts workers at random moments.
pub(crate) async fn disturb(
    workers: &mut [Worker],
    client: &Client,
    mut rng: Rng,
    start: Instant,
    settings: Settings,
) -> Result<(), BoxError> {
    let blows = [
        (Blow::Kill, settings.kills),
        (Blow::KillSeveral, settings.together),
        (Blow::Stop, settings.stops),
        (Blow::ShutDown, settings.shutdowns),
    ];
    let mut moments: Vec<(Duration, Blow)> = blows
        .iter()
        .flat_map(|&(blow, times)| (0..times).map(move |_| blow))
        .map(|blow| (settings.over.mul_f64(rng.f64()), blow))
        .collect();
    moments.sort();
    let (mut all, mut shown) = (false, false);
    for (moment, blow) in moments {
        while Instant::now() < start + moment {
            for worker in workers.iter_mut() {
                worker.supervise()?;
            }
            let next = Instant::now() + Duration::from_millis(200);
            sleep_until(next.min(start + moment)).await;
        }
        let shows = blow == Blow::Stop && !shown;
        // One of the first stops has to prove that the store rejects a late write.
        let worker = any(workers, &mut rng, shows)?;
        match blow {
            Blow::KillSeveral => {
                let count = if all { workers.len() } else { 2 };
                rng.shuffle(workers);
                kill_together(&mut workers[..count]).await?;
                all = !all;
            }
            Blow::Kill => {
                worker.kill().await?;
                worker.launch()?;
            }
            Blow::Stop => {
                let how = Standstill {
                    lasts: settings.ttl.mul_f64(1.2 + rng.f64() * 1.3),
                    // Some never wake.
                    wakes: shows || settings.kills == 0 || rng.bool(),
                };
                shown |= zombie::stand_still(worker, client, how).await?;
            }
            Blow::ShutDown => {
                worker.shut_down(SHUTDOWN).await?;
                worker.launch()?;
            }
        }
    }
    Ok(())
}

/// Draws a worker: any, or one of the library, whose writes can be held.
fn any<'a>(
    workers: &'a mut [Worker],
    rng: &mut Rng,
    holds: bool,
) -> Result<&'a mut Worker, BoxError> {
    let can = |worker: &&mut Worker| !holds || worker.role() == Role::Library;
    let mut workers: Vec<_> = workers.iter_mut().filter(can).collect();
    if workers.is_empty() {
        return Err("no worker of the library is there".into());
    }
    Ok(workers.swap_remove(rng.usize(0..workers.len())))
}

/// Kills workers at the same time, and starts them again.
///
/// # Errors
///
/// When one had ended on its own, or does not start.
pub async fn kill_together(workers: &mut [Worker]) -> Result<(), BoxError> {
    let mut struck = Vec::new();
    for worker in workers.iter_mut() {
        struck.push(worker.strike()?);
    }
    for (worker, struck) in workers.iter_mut().zip(struck) {
        worker.bury(struck).await?;
    }
    for worker in workers {
        worker.launch()?;
    }
    Ok(())
}
