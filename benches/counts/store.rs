//! The SQLite store alone.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use windlass::{
    ActionKind, Effects, Json, NewTask, StateKind, Store,
    statemachine::machine::{Step, Write},
    store::{Commit, NodeSpec},
};

use crate::{data, runtime};

/// How many commits or submits a call has, and how many tasks are claimed.
const A_CALL: u64 = 100;

/// Opens a file without syncs: their number is not counted, and they take time.
pub(crate) async fn on_sqlite(dir: &Path) -> Store {
    let url = format!("sqlite:{}?synchronous=normal", file(dir).display());
    Store::open(&url).await.unwrap()
}

pub(crate) fn file(dir: &Path) -> PathBuf {
    dir.join("counts.db")
}

/// Checkpoints of 100 claimed tasks with data, in calls of 100.
pub(crate) fn commits(count: u64, dir: &Path) {
    runtime().block_on(async {
        let store = on_sqlite(dir).await;
        submit(&store, 0..A_CALL).await;
        let coordinator = store.coordinator();
        let spec = NodeSpec::new("held".parse().unwrap());
        let hour = Duration::from_secs(3600);
        let lease = coordinator.join(&spec, hour).await.unwrap();
        let ids = (0..A_CALL).map(|n| id(n).parse().unwrap()).collect();
        let claimed = coordinator.claim(&lease, ids).await.into_iter();
        let mut claimed: Vec<_> = claimed.map(|claim| claim.unwrap().unwrap()).collect();
        for call in 0..count / A_CALL {
            let commits = claimed.iter_mut().map(|claimed| {
                let state = &mut claimed.state;
                state.version += 1;
                state.data = Some(Json::new("data", &data(call)).unwrap());
                Commit::new(
                    claimed.claim.clone(),
                    Write {
                        follows: state.version - 1,
                        state: state.clone(),
                        steps: vec![Step {
                            message: ActionKind::Checkpoint,
                            from: StateKind::Runnable,
                            to: StateKind::Runnable,
                            command: None,
                        }],
                        outcomes: Vec::new(),
                        drop_claim: false,
                        effects: Effects::default(),
                    },
                )
            });
            for result in coordinator.commit(commits.collect()).await {
                result.unwrap();
            }
        }
    });
}

/// Submits of tasks with props, in calls of 100.
pub(crate) fn submits(count: u64, dir: &Path) {
    runtime().block_on(async {
        let store = on_sqlite(dir).await;
        for from in (0..count).step_by(A_CALL as usize) {
            submit(&store, from..from + A_CALL).await;
        }
    });
}

pub(crate) async fn submit(store: &Store, numbers: std::ops::Range<u64>) {
    let tasks = numbers.map(|n| task(n).build().unwrap());
    for result in store.registry().submit(tasks.collect()).await {
        result.unwrap();
    }
}

fn task(n: u64) -> NewTask {
    NewTask::new("hot").id(id(n)).props(&data(n))
}

fn id(n: u64) -> String {
    format!("task-{n:015}")
}
