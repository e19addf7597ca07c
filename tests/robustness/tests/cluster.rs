//! Tasks on three members of etcd, with everything that can happen to workers, members and the ways
//! between them, and the checks afterwards.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing). The program `etcd` has to be in
//! the PATH, or named by `ETCD_BIN`.
#![cfg(feature = "etcd")]
#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

use std::{
    env,
    time::{Duration, Instant},
};

use windlass_robustness::{
    BoxError,
    chaos::{self, Settings, Shown},
    cluster::Shaking,
    scene::Ground,
    site::Programs,
};

const PROGRAMS: Programs = Programs {
    worker: env!("CARGO_BIN_EXE_windlass-robustness-worker"),
    cli: env!("CARGO_BIN_EXE_windlass-robustness-cli"),
};

/// The tests run one at a time, because each needs the whole machine.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn seed() -> Result<u64, BoxError> {
    let seed = match env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => fastrand::u64(..1_000_000),
    };
    eprintln!("WINDLASS_SEED={seed}");
    Ok(seed)
}

fn settings(seed: u64) -> Settings {
    Settings {
        seed,
        tasks: 400,
        kills: 5,
        together: 2,
        stops: 2,
        shutdowns: 1,
        over: Duration::from_secs(27),
        ttl: Duration::from_secs(3),
        late: Duration::from_millis(120),
        settle: Duration::from_secs(90),
        ground: Ground::Etcd(3),
        shaking: Shaking {
            kills: 1,
            stops: 1,
            leader_stops: 1,
            moves: 1,
            compactions: 7,
            quorum_losses: 1,
            partitions: 3,
        },
    }
}

async fn show(settings: Settings, shown: &[Shown]) -> Result<(), BoxError> {
    let run = chaos::run_until_shown(PROGRAMS, settings, shown);
    run.await.map_err(told)
}

fn told(error: BoxError) -> BoxError {
    // The test's own output keeps the lines of a dump apart, `Debug` would not.
    eprintln!("{error}");
    "see above".into()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_happens_to_a_cluster() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let shown: &[Shown] = &[
        ("claims that were lost", |s| s.lost),
        ("late writes that were refused", |s| s.fenced),
        ("transactions that were committed", |s| s.passes),
    ];
    show(settings(seed()?), shown).await
}

/// Run after run, for `SOAK_SECONDS` (600 by default).
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: cargo xtask soak"]
async fn soak_on_etcd() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let seconds = match env::var("SOAK_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 600,
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let first = seed()?;
    let mut runs = 0;
    while Instant::now() < end {
        let mut settings = settings(first.wrapping_add(runs));
        if runs % 2 == 1 {
            settings.late = Duration::ZERO;
        }
        if runs % 3 == 2 {
            // Hardly a moment without anything.
            settings.kills *= 3;
            settings.shaking = Shaking {
                kills: 4,
                stops: 2,
                leader_stops: 3,
                moves: 8,
                compactions: 60,
                partitions: 6,
                ..settings.shaking
            };
        }
        show(settings, &[]).await?;
        runs += 1;
    }
    eprintln!("{runs} runs");
    Ok(())
}
