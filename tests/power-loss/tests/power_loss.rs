//! G8 on SQLite: what was acknowledged survives a power loss at any moment.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing).

#![allow(clippy::print_stderr, reason = "a test that reports its seed")]

use std::{env, path::Path};

use fastrand::Rng;
use windlass_power_loss::{
    BoxError,
    disk::Files,
    outage::{Summary, every_moment, moments, outages},
    recording::Recording,
    site::DATABASE,
};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_windlass-power-loss-workload");

fn rng() -> Result<Rng, BoxError> {
    let seed = match env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => fastrand::u64(..1_000_000),
    };
    eprintln!("WINDLASS_SEED={seed}");
    Ok(Rng::with_seed(seed))
}

fn record(args: &[&str], before: Files) -> Result<Recording, BoxError> {
    Recording::of(Path::new(WORKLOAD), args, before)
}

fn report(what: &str, summary: &Summary) -> Result<(), BoxError> {
    eprintln!("{what}: {summary}");
    // The lines of a dump stay apart, `Debug` would join them.
    summary.holds().map_err(|failures| {
        eprintln!("{failures}");
        "see above".into()
    })
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "LD_PRELOAD of a C library with Linux's calls: runs on Linux only"
)]
#[tokio::test(flavor = "multi_thread")]
async fn everything_that_was_acknowledged_survives_a_power_loss() -> Result<(), BoxError> {
    let mut rng = rng()?;
    let seed = rng.u64(..).to_string();
    let recording = record(&["busy", &seed, "full"], Files::new())?;
    eprintln!("{} calls", recording.ops.len());
    let when = moments(&recording, 300, &mut rng);
    let full = outages(&recording, when.clone(), false, &mut rng).await?;
    report("synchronous = FULL", &full)?;
    assert!(
        full.unsynced_log > 20 && full.unsynced_database > 20,
        "nothing is shown: {full}"
    );
    // The same recording without its syncs: the checks must notice.
    let when = when.into_iter().take(30).collect();
    let off = outages(&recording, when, true, &mut rng).await?;
    eprintln!("without syncs: {off}");
    assert!(
        off.damaged + off.broken > 10,
        "nothing can be lost here: {off}"
    );
    Ok(())
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "LD_PRELOAD of a C library with Linux's calls: runs on Linux only"
)]
#[tokio::test(flavor = "multi_thread")]
async fn normal_synchronisation_loses_the_last_moments_and_damages_nothing() -> Result<(), BoxError>
{
    let mut rng = rng()?;
    let seed = rng.u64(..).to_string();
    let recording = record(&["busy", &seed, "normal"], Files::new())?;
    let when = moments(&recording, 100, &mut rng);
    let normal = outages(&recording, when, false, &mut rng).await?;
    eprintln!("synchronous = NORMAL: {normal}");
    assert_eq!(normal.damaged, 0, "{}", normal.failures.join("\n"));
    assert!(normal.broken > 10, "nothing was lost: {normal}");
    Ok(())
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "LD_PRELOAD of a C library with Linux's calls: runs on Linux only"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_created_while_the_power_fails_opens_again() -> Result<(), BoxError> {
    let mut rng = rng()?;
    let recording = record(&["small"], Files::new())?;
    let when = every_moment(&recording, 2, &mut rng);
    report(
        "creation",
        &outages(&recording, when, false, &mut rng).await?,
    )
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "LD_PRELOAD of a C library with Linux's calls: runs on Linux only"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_replaces_tasks_while_the_power_fails_leaves_the_old_or_the_new_ones()
-> Result<(), BoxError> {
    let mut rng = rng()?;
    let recording = record(&["copy"], Files::new())?;
    let when = every_moment(&recording, 2, &mut rng);
    report("copy", &outages(&recording, when, false, &mut rng).await?)
}

#[cfg_attr(
    not(target_os = "linux"),
    ignore = "LD_PRELOAD of a C library with Linux's calls: runs on Linux only"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_that_is_written_back_while_the_power_fails_loses_nothing()
-> Result<(), BoxError> {
    let mut rng = rng()?;
    let recording = record(&["large"], Files::new())?;
    // A new log and one that begins again after it was written back.
    let starts = recording.written_from_the_start(&format!("{DATABASE}-wal"));
    assert!(
        starts >= 2,
        "the log was not written back: nothing is shown"
    );
    let when = moments(&recording, 24, &mut rng);
    let large = outages(&recording, when, false, &mut rng).await?;
    assert!(large.unsynced_database > 4, "nothing is shown: {large}");
    report("a large log", &large)
}
