//! Workers in Python that are killed and stopped, over a line that cuts, delays and repeats, to two servers that are killed: no
//! run is started twice or goes on beside a later one, and nothing that was stored is lost.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing), `WINDLASS_PYTHON` names the Python.

#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

use std::{env, path::PathBuf};

use windlass_robustness::{
    BoxError,
    remote::{python::run, run::Settings},
};

/// The tests run one at a time, because each needs the whole machine.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn survives(store: String, tasks: u64, kills: u64) -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir()?;
    let seed = match env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => fastrand::u64(..1_000_000),
    };
    eprintln!("WINDLASS_SEED={seed}");
    let settings = Settings {
        seed,
        store: store.replace("FOLDER", &folder.path().display().to_string()),
        program: PathBuf::from(env!("CARGO_BIN_EXE_windlass-robustness-cli")),
        tasks,
        workers: 2,
        kills,
    };
    match run(&settings, folder.path()).await {
        Ok(shown) => {
            eprintln!("{shown:?}");
            assert!(shown.kills >= kills && !shown.faults.is_empty());
            Ok(())
        }
        Err(error) => {
            let log =
                std::fs::read_to_string(folder.path().join("workers.log")).unwrap_or_default();
            // The test's own output keeps the lines apart, `Debug` would not.
            eprintln!("{error}\nThe log of the workers:\n{log}");
            Err("see above".into())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_in_python_lose_and_double_nothing() -> Result<(), BoxError> {
    survives("sqlite:FOLDER/tasks.db".to_owned(), 80, 7).await
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn workers_in_python_lose_and_double_nothing_on_etcd() -> Result<(), BoxError> {
    use windlass_etcd_cluster::{Cluster, cluster::Setup};

    let cluster = tokio::task::spawn_blocking(|| Cluster::start(Setup::of(1))).await??;
    survives(cluster.url("python"), 50, 4).await
}
