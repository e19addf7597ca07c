//! What the scenes share.

use std::{env, future::Future, time::Duration};

use tokio::time::{Instant, sleep};
use windlass::{
    NewTask, StateKind, TaskId,
    store::{Error, Filter, Page, TaskRecord},
};
use windlass_robustness::{
    BoxError,
    disturb::kill_together,
    kinds::Job,
    scene::{Ground, Post, Scene},
    site::Programs,
    terms::Terms,
    workers::Worker,
};

pub(crate) const PROGRAMS: Programs = Programs {
    worker: env!("CARGO_BIN_EXE_windlass-robustness-worker"),
    cli: env!("CARGO_BIN_EXE_windlass-robustness-cli"),
};

/// How long leases last.
pub(crate) const TTL: Duration = Duration::from_millis(1500);

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Two scenes run at the same time: each has several processes, which wait more than they compute.
static TWO: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Makes a scene without workers, plays it, and keeps its folder when it fails.
pub(crate) async fn play(
    ground: Ground,
    late: Duration,
    play: impl AsyncFnOnce(&mut Scene, fastrand::Rng) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let _one_of_two = TWO.acquire().await?;
    let seed = match env::var("WINDLASS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => fastrand::u64(..1_000_000),
    };
    eprintln!("WINDLASS_SEED={seed}");
    let mut scene = Scene::empty(PROGRAMS, TTL, late, ground).await?;
    let played = play(&mut scene, fastrand::Rng::with_seed(seed)).await;
    played.map_err(|e| {
        // The test's own output keeps the lines of a report apart, `Debug` would not.
        let folder = scene.keep();
        eprintln!("WINDLASS_SEED={seed}, everything is in {folder}\n{e}");
        "see above".into()
    })
}

/// Workers of the library with the usual terms, one per name.
pub(crate) fn libraries(names: &[&'static str]) -> Vec<Post> {
    let numbered = names.iter().enumerate();
    numbered
        .map(|(number, name)| Post::library(name, number % 3, Terms::default()))
        .collect()
}

/// Kills one or two workers at random moments, this many times, and starts them again.
pub(crate) async fn kill_some(
    workers: &mut [Worker],
    mut rng: fastrand::Rng,
    times: usize,
) -> Result<(), BoxError> {
    for _ in 0..times {
        sleep(Duration::from_millis(rng.u64(200..900))).await;
        for worker in workers.iter_mut() {
            worker.supervise()?;
        }
        rng.shuffle(workers);
        let count = rng.usize(1..=2);
        kill_together(&mut workers[..count]).await?;
    }
    Ok(())
}

/// The answer to the retry of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retried {
    /// It runs again.
    Yes,
    /// It was gone.
    Gone,
    /// No answer came.
    Unknown,
}

impl Retried {
    /// Reads an answer.
    pub(crate) fn of(answer: Result<(), Error>) -> Result<Self, BoxError> {
        match answer {
            Ok(()) => Ok(Self::Yes),
            Err(Error::NotFound { .. }) => Ok(Self::Gone),
            Err(e) if e.is_retryable() => Ok(Self::Unknown),
            Err(e) => Err(e.into()),
        }
    }
}

/// Asks again until the answer is `Some`.
pub(crate) async fn until<T, F: Future<Output = Result<Option<T>, BoxError>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Result<T, BoxError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            return Err(format!("waited for longer than {PATIENCE:?} until {what}").into());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// A task of the kind `steps`.
pub(crate) fn steps(id: &str, total: u64, ms: u64) -> NewTask {
    let job = Job {
        total,
        ms,
        ..Job::default()
    };
    NewTask::new("steps").id(id).props(&job)
}

/// Submits tasks and remembers them as promised.
pub(crate) async fn submit(scene: &Scene, tasks: Vec<NewTask>) -> Result<(), BoxError> {
    let tasks: Result<Vec<_>, _> = tasks.into_iter().map(NewTask::build).collect();
    scene.traffic.submit_all(tasks?).await
}

/// The tasks that match, at most 10,000.
pub(crate) async fn list(scene: &Scene, filter: Filter) -> Result<Vec<TaskRecord>, BoxError> {
    let page = Page::new(10_000);
    Ok(scene.client.list(&filter, page).await?)
}

/// Waits until a task is in a state.
pub(crate) async fn wait_for(scene: &Scene, id: &TaskId, code: StateKind) -> Result<(), BoxError> {
    let what = format!("{id} is {code}");
    until(&what, async || {
        let record = scene.client.get(id).await?;
        Ok((record.state?.code() == code).then_some(()))
    })
    .await
}
