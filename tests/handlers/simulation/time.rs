//! Handlers that read the time, and durations that are counted by it.

use std::time::Duration;

use windlass::{
    BoxError, Message, NewTask, StateKind, TaskContext, WaitOutcome,
    jiff::{SignedDuration, Timestamp},
    testing::{Call, Simulation, simulation::Error},
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_handler_reads_the_virtual_time() {
    let hourly = |task: TaskContext| async move {
        let mut times: Vec<Timestamp> = task.data()?.unwrap_or_default();
        times.push(task.now());
        Ok::<_, BoxError>(match times.len() {
            3 => Message::complete_with(times),
            _ => Message::sleep_for(HOUR).with_data(&times),
        })
    };
    let builder = Simulation::builder().handler("hourly", hourly);
    let mut simulation = builder.start().await.unwrap();
    let began = simulation.now();
    let id = simulation.client().submit(NewTask::new("hourly"));
    let done = simulation.run(&id.await.unwrap()).await.unwrap();
    let hours = [0, 1, 2].map(|hours| began + SignedDuration::from_hours(hours));
    assert_eq!(done.result::<Vec<Timestamp>>().unwrap(), hours);
}

/// The durations of a task that a handler submits were counted by the clock of the machine when the handler made the
/// message: in virtual time, which was later, the task had missed them before it was submitted.
#[tokio::test]
async fn durations_of_a_submitted_task_count_from_when_the_message_is_applied() {
    let parent = |_: TaskContext| async {
        let never = NewTask::new("nobody").id("never");
        let child = NewTask::new("child").id("child");
        let child = child.start_within(2 * HOUR).end_within(3 * HOUR);
        let joins = NewTask::new("joins").id("joins").after(["never"]);
        Message::complete()
            .and_submit(never)
            .and_submit(child)
            .and_submit(joins.after_within(4 * HOUR))
    };
    let child = |task: TaskContext| async move { Message::complete_with(task.now()) };
    let joins = |task: TaskContext| async move {
        assert_eq!(task.waited()[0].outcome, WaitOutcome::Live);
        Message::complete_with((task.now(), task.wait_expired()))
    };
    let builder = Simulation::builder().handler("parent", parent);
    let builder = builder.handler("child", child).handler("joins", joins);
    let mut simulation = builder.start().await.unwrap();
    let began = simulation.now();
    let id = simulation.client().submit(NewTask::new("parent"));
    simulation.run(&id.await.unwrap()).await.unwrap();
    let record = simulation.client().get("child").await.unwrap();
    let after = |hours| Some(began + SignedDuration::from_hours(hours));
    assert_eq!(
        (record.task.start_by, record.task.end_by),
        (after(2), after(3))
    );
    let done = simulation.run("child").await.unwrap();
    assert_eq!(done.result::<Timestamp>().unwrap(), began);
    let done = simulation.run("joins").await.unwrap();
    let (at, expired): (Timestamp, bool) = done.result().unwrap();
    assert_eq!((Some(at), expired), (after(4), true));
}

#[tokio::test]
async fn a_wait_for_tasks_ends_after_its_length() {
    let waits = |task: TaskContext| async move {
        match (task.wait_expired(), task.waited().is_empty()) {
            (true, _) => Message::complete_with(task.now()),
            (false, true) => Message::wait_for(["never"]).within(HOUR),
            (false, false) => Message::fail("the wait has not expired"),
        }
    };
    let builder = Simulation::builder().handler("waits", waits);
    let mut simulation = builder.start().await.unwrap();
    let began = simulation.now();
    let never = NewTask::new("nobody").id("never");
    simulation.client().submit(never).await.unwrap();
    let id = simulation.client().submit(NewTask::new("waits"));
    let done = simulation.run(&id.await.unwrap()).await.unwrap();
    let at = began + SignedDuration::from_hours(1);
    assert_eq!(done.result::<Timestamp>().unwrap(), at);
}

/// Such a handler ran a million times before the simulation reported it, which took minutes.
#[tokio::test]
async fn a_handler_that_asks_another_clock_is_reported_soon() {
    let waits = |task: TaskContext| async move {
        // The clock of the machine, which is behind the virtual time.
        let deadline: Timestamp = "2030-01-01T00:00:00Z".parse()?;
        let waited = task.awaited_signal().is_some();
        Ok::<_, BoxError>(match waited && Timestamp::UNIX_EPOCH >= deadline {
            true => Message::complete(),
            false => Message::wait_for_signal("approve").deadline(deadline),
        })
    };
    let builder = Simulation::builder().handler("waits", waits);
    let mut simulation = builder.start().await.unwrap();
    let id = simulation.client().submit(NewTask::new("waits").id("w"));
    let id = id.await.unwrap();
    for _again in 0..2 {
        let error = simulation.run(&id).await.unwrap_err();
        let Error::Idle { task, runs } = &error else {
            panic!("{error}");
        };
        assert_eq!(task, id.id());
        assert!((10_000..10_100).contains(runs), "{error}");
    }
    let state = simulation.client().get(&id).await.unwrap().state.unwrap();
    assert!(matches!(
        state.code(),
        StateKind::Sleeping | StateKind::Runnable
    ));
}

#[tokio::test]
async fn a_call_sets_the_time_and_the_wait_before_it() {
    let seen = |task: TaskContext| async move {
        let signal = task.awaited_signal();
        let name = signal.map(|signal| signal.name().to_owned());
        let expired = (task.wait_expired(), signal.is_some_and(|s| s.expired()));
        Message::complete_with((task.now(), name, expired))
    };
    type Seen = (Timestamp, Option<String>, (bool, bool));
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let later: Timestamp = "2031-02-03T04:05:06Z".parse().unwrap();
    let waits = |outcome| Call::new().waited("a".parse().unwrap(), outcome);
    let asks = || Call::new().awaited_signal("approve");
    let name = || Some("approve".to_owned());
    for (call, expected) in [
        (Call::new(), (start, None, (false, false))),
        (Call::new().now(later), (later, None, (false, false))),
        (asks(), (start, name(), (false, false))),
        (
            asks().wait_expired().now(later),
            (later, name(), (true, true)),
        ),
        (waits(WaitOutcome::Live), (start, None, (false, false))),
        (
            waits(WaitOutcome::Live).wait_expired(),
            (start, None, (true, false)),
        ),
        (waits(WaitOutcome::Failed), (start, None, (false, false))),
    ] {
        let ran = call.run(seen).await.unwrap();
        assert_eq!(ran.result::<Seen>().unwrap(), Some(expected));
    }
    for call in [Call::new(), waits(WaitOutcome::Completed)] {
        let wrong = call.wait_expired().run(seen).await.unwrap_err();
        assert_eq!(wrong.field(), "wait_expired");
    }
}
