//! Remote workers over a line that cuts, delays and repeats, to two servers that are killed again and again: no run is
//! started twice or beside another of its task, nothing that was acknowledged is lost, and no attempt is counted.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing).

#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

use std::{env, path::PathBuf};

use windlass_robustness::{
    BoxError,
    remote::{
        held::held,
        run::{Settings, run},
    },
};

/// The tests run one at a time, because each needs the whole machine.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_windlass-robustness-cli"))
}

fn settings(store: String) -> Result<Settings, BoxError> {
    let seed = match env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => fastrand::u64(..1_000_000),
    };
    eprintln!("WINDLASS_SEED={seed}");
    Ok(Settings {
        seed,
        store,
        program: program(),
        tasks: 80,
        workers: 3,
        kills: 4,
    })
}

async fn show(settings: &Settings, folder: &std::path::Path) -> Result<(), BoxError> {
    let shown = match run(settings, folder).await {
        Ok(shown) => shown,
        Err(error) => {
            // The test's own output keeps the lines apart, `Debug` would not.
            eprintln!("{error}");
            return Err("see above".into());
        }
    };
    eprintln!("{shown:?}");
    assert!(shown.kills >= settings.kills && !shown.faults.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_lose_and_double_nothing() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite:{}", folder.path().join("tasks.db").display());
    show(&settings(store)?, folder.path()).await
}

/// A server with thousands of held tasks is killed: another speaks for their workers before a lease ends, no fence changes
/// and no attempt counts.
#[tokio::test(flavor = "multi_thread")]
async fn held_tasks_survive_their_server() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite:{}", folder.path().join("tasks.db").display());
    let shown = held(&store, program(), folder.path(), 4_000).await?;
    eprintln!("{shown:?}");
    assert_eq!(shown.held, 4_000);
    Ok(())
}

#[cfg(feature = "etcd")]
mod on_etcd {
    use windlass_etcd_cluster::{Cluster, cluster::Setup};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn workers_lose_and_double_nothing_on_etcd() -> Result<(), BoxError> {
        let _alone = ALONE.lock().await;
        let cluster = tokio::task::spawn_blocking(|| Cluster::start(Setup::of(1))).await??;
        let folder = tempfile::tempdir()?;
        let shorter = Settings {
            tasks: 45,
            kills: 2,
            ..settings(cluster.url("remote"))?
        };
        show(&shorter, folder.path()).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn held_tasks_survive_their_server_on_etcd() -> Result<(), BoxError> {
        let _alone = ALONE.lock().await;
        let cluster = tokio::task::spawn_blocking(|| Cluster::start(Setup::of(1))).await??;
        let folder = tempfile::tempdir()?;
        let shown = held(&cluster.url("held"), program(), folder.path(), 1_000).await?;
        eprintln!("{shown:?}");
        assert_eq!(shown.held, 1_000);
        Ok(())
    }
}
