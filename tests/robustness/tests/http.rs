//! Clients that speak HTTP over a line that cuts, delays and repeats, to two servers that are killed again and again:
//! what was acknowledged exists and ends, nothing happens twice, and streams of changes have no gap.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing).

#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant},
};

use windlass_robustness::{
    BoxError,
    http::{
        line::Fault,
        run::{Settings, run},
    },
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

fn settings(seed: u64, store: String) -> Settings {
    Settings {
        seed,
        store,
        program: PathBuf::from(env!("CARGO_BIN_EXE_windlass-robustness-cli")),
        deeds: 250,
        clients: 8,
        kills: 4,
    }
}

async fn show(settings: Settings, folder: &std::path::Path) -> Result<(), BoxError> {
    let shown = match run(&settings, folder).await {
        Ok(shown) => shown,
        Err(error) => {
            // The test's own output keeps the lines apart, `Debug` would not.
            eprintln!("{error}");
            return Err("see above".into());
        }
    };
    eprintln!("{shown:?}");
    assert!(shown.kills >= settings.kills);
    for fault in Fault::ALL {
        assert!(
            shown.faults.contains_key(&fault),
            "{fault:?} did not happen"
        );
    }
    Ok(())
}

async fn on_a_file(seed: u64) -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite:{}", folder.path().join("tasks.db").display());
    show(settings(seed, store), folder.path()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_cuts_delays_and_repeats_loses_and_doubles_nothing() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    on_a_file(seed()?).await
}

fn soak_time() -> Result<Duration, BoxError> {
    let seconds = match env::var("SOAK_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 600,
    };
    Ok(Duration::from_secs(seconds))
}

/// Run after run, for `SOAK_SECONDS` (600 by default).
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: cargo xtask soak"]
async fn soak_by_http() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let (end, mut seed) = (Instant::now() + soak_time()?, seed()?);
    while Instant::now() < end {
        on_a_file(seed).await?;
        seed = seed.wrapping_add(1);
    }
    Ok(())
}

#[cfg(feature = "etcd")]
mod on_etcd {
    use windlass_etcd_cluster::{Cluster, cluster::Setup};

    use super::*;

    async fn on_etcd(seed: u64) -> Result<(), BoxError> {
        let cluster = tokio::task::spawn_blocking(|| Cluster::start(Setup::of(1))).await??;
        let folder = tempfile::tempdir()?;
        let store = cluster.url("http");
        let shorter = Settings {
            deeds: 100,
            kills: 2,
            ..settings(seed, store)
        };
        show(shorter, folder.path()).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_on_etcd() -> Result<(), BoxError> {
        let _alone = ALONE.lock().await;
        on_etcd(seed()?).await
    }

    /// Run after run, for `SOAK_SECONDS` (600 by default).
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "long: cargo xtask soak"]
    async fn soak_by_http_on_etcd() -> Result<(), BoxError> {
        let _alone = ALONE.lock().await;
        let (end, mut seed) = (Instant::now() + soak_time()?, seed()?);
        while Instant::now() < end {
            on_etcd(seed).await?;
            seed = seed.wrapping_add(1);
        }
        Ok(())
    }
}
