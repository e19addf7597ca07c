//! Hundreds of tasks, workers that are killed and stopped at random moments, and the checks afterwards. The runs are short,
//! because the simulation (`tests/simulation/`) meets the same traffic and checkers much more often; `cargo xtask soak` runs long
//! ones.
//!
//! `WINDLASS_SEED=N` repeats the choices of a run (not its timing).

#![allow(clippy::print_stderr, reason = "a test that tells its seed")]

use std::{
    env, fs,
    time::{Duration, Instant},
};

use windlass::{Client, StateKind, store::Store};
use windlass_robustness::{
    BoxError,
    chaos::{self, Settings, Shown},
    cluster::Shaking,
    plan::Plan,
    scene::{Ground, Scene},
    site::Programs,
    world::World,
};

const PROGRAMS: Programs = Programs {
    worker: env!("CARGO_BIN_EXE_windlass-robustness-worker"),
    cli: env!("CARGO_BIN_EXE_windlass-robustness-cli"),
};

/// So long, at most, writes are under way where there should always be some.
const LATE: Duration = Duration::from_millis(120);

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
        tasks: 700,
        kills: 0,
        together: 0,
        stops: 0,
        shutdowns: 1,
        over: Duration::from_secs(14),
        ttl: Duration::from_millis(1500),
        late: Duration::ZERO,
        settle: Duration::from_secs(120),
        ground: Ground::File,
        shaking: Shaking::default(),
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
async fn workers_are_killed_again_and_again() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let kills = Settings {
        kills: 9,
        together: 2,
        ..settings(seed()?)
    };
    show(
        kills,
        &[
            ("claims that were lost", |s| s.lost),
            ("effects that were refused", |s| s.refused),
            ("ids that were submitted twice at once", |s| s.races),
            ("transactions that were committed", |s| s.passes),
            ("signals that got a reply", |s| s.replies),
            ("nodes that got a command", |s| s.node_commands),
            ("limits that were full", |s| s.filled),
            ("tasks that missed their start", |s| s.timed.starts),
            ("tasks that missed their end", |s| s.timed.ends),
            ("parked tasks that missed a deadline", |s| s.timed.asleep),
            ("tasks that met their deadline", |s| s.timed.met),
        ],
    )
    .await
}

/// The coordinator and the states are in two files, which share no transaction.
#[tokio::test(flavor = "multi_thread")]
async fn workers_on_a_split_store_are_killed() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let split = Settings {
        tasks: 400,
        kills: 6,
        together: 2,
        late: LATE,
        over: Duration::from_secs(10),
        ground: Ground::Split,
        ..settings(seed()?)
    };
    show(split, &[("claims that were lost", |s| s.lost)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_stopped_for_longer_than_their_lease() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let stops = Settings {
        stops: 4,
        late: LATE,
        ..settings(seed()?)
    };
    show(stops, &[("late writes that were refused", |s| s.fenced)]).await
}

/// Everything acknowledged is in a copy of the files that was made at a random moment, with a
/// half-written frame at the end of the log as after a power loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_files_has_everything_that_was_acknowledged() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    copy(seed()?).await.map_err(told)
}

async fn copy(seed: u64) -> Result<(), BoxError> {
    const TASKS: usize = 300;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new(PROGRAMS, Duration::from_millis(1500), LATE).await?;
    let mut plan = Plan::new(seed, &scene.site.witnesses());
    let over = Duration::from_millis(rng.u64(2000..4000));
    let until = tokio::time::Instant::now() + over;
    tokio::try_join!(
        scene.traffic.submit(&mut plan, TASKS, over.mul_f64(0.9)),
        scene.traffic.command_at_random(rng.fork(), until),
    )?;
    for worker in &mut scene.workers {
        worker.kill().await?;
    }
    let file = scene.site.file();
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.db");
    fs::copy(&file, &copy)?;
    let log = |file: &std::path::Path| file.with_extension("db-wal");
    let mut frames = fs::read(log(&file))?;
    assert!(
        !frames.is_empty(),
        "the log was not in use: nothing is shown"
    );
    frames.extend((0..rng.usize(1..4000)).map(|_| rng.u8(..)));
    fs::write(log(&copy), frames)?;

    let client = Client::new(&Store::open(&format!("sqlite:{}", copy.display())).await?);
    let promised = scene.traffic.promised();
    assert_eq!(promised.tasks.len() + promised.deleted.len(), TASKS);
    let world = World::load(&client, &scene.site.witnesses(), promised, None).await?;
    let violations = windlass_robustness::invariants::check_crashed(&world);
    if !violations.is_empty() {
        return Err(windlass_robustness::invariants::report(&world, &violations).into());
    }
    let ended = world
        .subjects
        .values()
        .filter(|s| s.code() == Some(StateKind::Completed));
    eprintln!(
        "seed {seed}: {} tasks, {} of them completed, {} commands",
        world.subjects.len(),
        ended.count(),
        world.promised.commands.len(),
    );
    Ok(())
}

/// Run after run, killing and stopping, for `SOAK_SECONDS` (600 by default).
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: cargo xtask soak"]
async fn soak() -> Result<(), BoxError> {
    let _alone = ALONE.lock().await;
    let seconds = match env::var("SOAK_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 600,
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let first = seed()?;
    let mut runs = 0;
    while Instant::now() < end {
        let both = Settings {
            tasks: 1200,
            kills: 15,
            together: 4,
            stops: 6,
            shutdowns: 4,
            over: Duration::from_secs(24),
            late: if runs % 2 == 0 { LATE } else { Duration::ZERO },
            ..settings(first.wrapping_add(runs))
        };
        show(both, &[]).await?;
        runs += 1;
    }
    eprintln!("{runs} runs");
    Ok(())
}
