//! Virtual time passes at once, without lost or repeated work.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{
    ActionKind, BoxError, Command, KindConfig, Limit, Message, NewTask, Outcome, Retry, StateKind,
    TaskContext,
    testing::{Simulation, simulation::Error},
};

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Sleeps for an hour each time, and counts its runs.
async fn poll(task: TaskContext) -> Result<Message, BoxError> {
    let polls = task.data::<u32>()?.unwrap_or(0) + 1;
    Ok(Message::sleep_for(HOUR).with_data(&polls))
}

async fn polls_of_a_year() {
    let began = std::time::Instant::now();
    let builder = Simulation::builder().handler("poll", poll);
    let mut simulation = builder.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("poll"));
    let id = id.await.unwrap();
    simulation.advance(YEAR).await.unwrap();
    let history = simulation.history(&id).await.unwrap();
    // At its start, and at the end of each hour.
    assert_eq!(history.claims(), 8_761);
    let state = simulation.client().get(&id).await.unwrap().state.unwrap();
    assert_eq!(state.data.unwrap().as_str(), "8761");
    // The limit allows for a busy machine without optimisation; otherwise it takes about a second.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(90), "{took:?}");
}

#[tokio::test]
async fn a_year_of_hourly_wakes_is_simulated() {
    polls_of_a_year().await;
}

#[tokio::test(start_paused = true)]
async fn a_year_is_simulated_in_paused_time() {
    polls_of_a_year().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_is_simulated_on_several_threads() {
    polls_of_a_year().await;
}

#[tokio::test]
async fn a_wake_up_is_on_time_and_not_before() {
    let builder = Simulation::builder().handler("poll", poll);
    let mut simulation = builder.start().await.unwrap();
    let start = simulation.now();
    let id = simulation.client().submit(NewTask::new("poll"));
    let id = id.await.unwrap();
    simulation
        .advance(HOUR - Duration::from_millis(1))
        .await
        .unwrap();
    assert_eq!(simulation.history(&id).await.unwrap().claims(), 1);
    simulation.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(simulation.history(&id).await.unwrap().claims(), 2);
    assert_eq!(simulation.now().duration_since(start).as_hours(), 1);
}

/// A sleep that is too short to release the claim.
#[tokio::test]
async fn a_short_sleep_keeps_its_claim() {
    let naps = |task: TaskContext| async move {
        match task.data::<u32>()?.unwrap_or(0) {
            5 => Ok::<_, BoxError>(Message::complete()),
            n => Ok(Message::sleep_for(Duration::from_secs(8)).with_data(&(n + 1))),
        }
    };
    let builder = Simulation::builder().handler("naps", naps);
    let mut simulation = builder.start().await.unwrap();
    let start = simulation.now();
    let id = simulation.client().submit(NewTask::new("naps"));
    let id = id.await.unwrap();
    simulation.run(&id).await.unwrap();
    assert_eq!(simulation.history(&id).await.unwrap().claims(), 1);
    assert_eq!(simulation.now().duration_since(start).as_secs(), 40);
}

#[tokio::test]
async fn a_task_starts_a_while_after_its_submit_in_virtual_time() {
    let parent = |_: TaskContext| async {
        let child = NewTask::new("child").id("child").start_in(HOUR);
        Message::complete().and_submit(child)
    };
    let child = |_: TaskContext| async { Message::complete() };
    let builder = Simulation::builder()
        .handler("parent", parent)
        .handler("child", child);
    let mut simulation = builder.start().await.unwrap();
    let task = NewTask::new("parent").id("parent").start_in(HOUR);
    simulation.client().submit(task).await.unwrap();
    let state = async |simulation: &Simulation, id: &str| {
        let record = simulation.client().get(id).await;
        record.ok().map(|record| record.state.unwrap().code())
    };
    let almost = HOUR - Duration::from_millis(1);
    simulation.advance(almost).await.unwrap();
    assert_eq!(
        state(&simulation, "parent").await,
        Some(StateKind::Sleeping)
    );
    simulation.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(
        state(&simulation, "parent").await,
        Some(StateKind::Completed)
    );
    simulation.advance(almost).await.unwrap();
    assert_eq!(state(&simulation, "child").await, Some(StateKind::Sleeping));
    simulation.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(
        state(&simulation, "child").await,
        Some(StateKind::Completed)
    );
}

#[tokio::test]
async fn a_start_beyond_the_year_9999_fails_the_task() {
    let parent = |_: TaskContext| async {
        Message::complete().and_submit(NewTask::new("child").start_in(Duration::MAX))
    };
    let builder = Simulation::builder().handler("parent", parent);
    let mut simulation = builder.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("parent"));
    let id = id.await.unwrap();
    let done = simulation.run(&id).await.unwrap();
    let error = "start_in: is beyond 9999-12-30T22:00:00Z; start the task sooner";
    assert_eq!(done.error(), Some(error));
    assert_eq!(done.code(), StateKind::Failed);
}

#[tokio::test]
async fn retries_wait_in_virtual_time() {
    let fails = |task: TaskContext| async move {
        match task.attempt() {
            4 => Message::complete(),
            n => Message::error(format_args!("attempt {n}")),
        }
    };
    let config = KindConfig::default().retry(Retry::strikes());
    let builder = Simulation::builder().handler_with("fails", config, fails);
    let mut simulation = builder.start().await.unwrap();
    let start = simulation.now();
    let id = simulation.client().submit(NewTask::new("fails"));
    let id = id.await.unwrap();
    let done = simulation.run(&id).await.unwrap();
    assert!(done.is_completed());
    assert_eq!(done.error(), Some("attempt 3"));
    // Three strikes of ten minutes each.
    assert_eq!(simulation.now().duration_since(start).as_mins(), 30);
}

#[tokio::test]
async fn commands_reach_parked_tasks_and_running_handlers() {
    let holds = |task: TaskContext| async move { task.stop_requested().await.message() };
    let builder = Simulation::builder()
        .patience(Duration::from_millis(50))
        .handler("holds", holds)
        .handler("poll", poll);
    let mut simulation = builder.start().await.unwrap();
    let client = simulation.client().clone();
    let held = client.submit(NewTask::new("holds")).await.unwrap();
    let asleep = client.submit(NewTask::new("poll")).await.unwrap();
    simulation.advance(HOUR * 2).await.unwrap();
    assert_eq!(
        simulation.history(&asleep).await.unwrap().claims(),
        3,
        "it does not wait"
    );
    for (id, from) in [(held, StateKind::Runnable), (asleep, StateKind::Sleeping)] {
        let outcome = simulation.command(&id, Command::Pause).await.unwrap();
        let to = StateKind::Paused;
        assert_eq!(outcome, Outcome::Applied { from, to });
        let outcome = simulation.command(&id, Command::Kill).await.unwrap();
        let (from, to) = (StateKind::Paused, StateKind::Killed);
        assert_eq!(outcome, Outcome::Applied { from, to });
        let history = simulation.history(&id).await.unwrap();
        assert_eq!(history.states().last(), Some(&StateKind::Killed));
    }
}

/// Its grace is by tokio's time.
#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_a_command_is_aborted() {
    let deaf = |_: TaskContext| pending::<Message>();
    let builder = Simulation::builder().handler("deaf", deaf);
    let mut simulation = builder.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("deaf"));
    let id = id.await.unwrap();
    simulation.advance(Duration::ZERO).await.unwrap();
    let began = tokio::time::Instant::now();
    let outcome = simulation.command(&id, Command::Kill).await.unwrap();
    let (from, to) = (StateKind::Runnable, StateKind::Killed);
    assert_eq!(outcome, Outcome::Applied { from, to });
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_is_an_error() {
    let builder = Simulation::builder()
        .write_limit(1000)
        .handler("poll", poll)
        .handler("spins", |_: TaskContext| async { Message::run() })
        .handler("holds", |_: TaskContext| pending::<Message>())
        .handler("pauses", |_: TaskContext| async { Message::pause() });
    for (kind, expected) in [
        ("poll", "Endless"),
        ("spins", "Endless"),
        ("holds", "Waiting"),
        ("pauses", "Stuck"),
        ("nobody", "Stuck"),
    ] {
        let mut simulation = builder.clone().start().await.unwrap();
        let id = simulation.client().submit(NewTask::new(kind));
        let error = simulation.run(&id.await.unwrap()).await.unwrap_err();
        let name = match &error {
            Error::Endless { writes: 1000 } => "Endless",
            Error::Waiting { .. } => "Waiting",
            Error::Stuck { .. } => "Stuck",
            _ => "another",
        };
        assert_eq!(name, expected, "{kind}: {error}");
    }
}

#[tokio::test]
async fn a_simulation_without_a_handler_does_not_start() {
    let error = Simulation::builder().start().await.unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "handler"),
        "{error}"
    );
    let done = |_: TaskContext| async { Message::complete() };
    let twice = Simulation::builder().handler("a", done).handler("a", done);
    let error = twice.start().await.unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "handler"),
        "{error}"
    );
}

#[tokio::test]
async fn the_slots_of_a_kind_limit_its_handlers() {
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let handler = move |_: TaskContext| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            let others = now.fetch_add(1, Ordering::SeqCst);
            peak.fetch_max(others + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Message::complete()
        }
    };
    let config = KindConfig::default().slots(2);
    let builder = Simulation::builder().handler_with("k", config, handler);
    let mut simulation = builder.start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..7 {
        let id = simulation.client().submit(NewTask::new("k"));
        ids.push(id.await.unwrap());
    }
    simulation.advance(Duration::ZERO).await.unwrap();
    for id in ids {
        let history = simulation.history(&id).await.unwrap();
        history.assert_messages(&[ActionKind::Complete]);
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_deleted_task_stops_its_handler() {
    let stops = Arc::new(AtomicU32::new(0));
    let seen = stops.clone();
    let handler = move |task: TaskContext| {
        let seen = seen.clone();
        async move {
            task.stop_requested().await;
            seen.fetch_add(1, Ordering::SeqCst);
            Message::release()
        }
    };
    let patience = Duration::from_millis(50);
    let builder = Simulation::builder()
        .patience(patience)
        .handler("k", handler);
    let mut simulation = builder.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("k"));
    let id = id.await.unwrap();
    simulation.advance(Duration::ZERO).await.unwrap();
    simulation.client().force_delete(&id).await.unwrap();
    simulation.advance(HOUR).await.unwrap();
    assert!(simulation.client().get(&id).await.is_err());
    let new = simulation
        .client()
        .submit(NewTask::new("k").id(id.id().as_str()));
    let new = new.await.unwrap();
    simulation.advance(Duration::ZERO).await.unwrap();
    assert_eq!(simulation.history(&new).await.unwrap().claims(), 1);
}

#[tokio::test]
async fn each_attempt_of_a_task_with_a_limit_on_starts_is_a_start() -> Result<(), BoxError> {
    let starts = Arc::new(AtomicU32::new(0));
    let seen = starts.clone();
    let fails = move |_: TaskContext| {
        seen.fetch_add(1, Ordering::SeqCst);
        async { Message::error("no") }
    };
    let builder = Simulation::builder().handler("k", fails);
    let mut simulation = builder.start().await?;
    let limit = Limit::starts("api", 2, HOUR)?;
    simulation
        .client()
        .submit(NewTask::new("k").limit(limit))
        .await?;
    for (hours, expected) in [(0, 2), (1, 4), (2, 6), (3, 8)] {
        let minutes = Duration::from_secs(if hours == 0 { 1800 } else { 3600 });
        simulation.advance(minutes).await?;
        assert_eq!(starts.load(Ordering::SeqCst), expected, "after {hours} h");
    }
    Ok(())
}
