//! The lines that running handlers log, as other processes see them.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::{
    sync::Notify,
    time::{Duration, Instant, sleep},
};
use windlass::{
    Message, StateKind, TaskContext, TaskId,
    store::{LogPage, LogQuery},
    testing::{Fault, Operation},
};

use super::support::{World, secs};

async fn page(world: &World, id: &TaskId) -> LogPage {
    let page = world.client.log_lines(id, &LogQuery::default()).await;
    page.unwrap()
}

async fn texts(world: &World, id: &TaskId) -> Vec<String> {
    let page = page(world, id).await;
    page.lines.into_iter().map(|line| line.text).collect()
}

#[tokio::test(start_paused = true)]
async fn lines_are_shown_within_a_second_and_change_nothing_else() {
    let world = World::new().await;
    let began = Instant::now();
    let (_node, id) = world
        .work(move |task: TaskContext| async move {
            while began.elapsed() < secs(20) {
                task.log(began.elapsed().as_millis());
                sleep(Duration::from_millis(100)).await;
            }
            task.stop_requested().await;
            Message::release()
        })
        .await;
    sleep(secs(2)).await;
    let version = world.client.get(&id).await.unwrap().state.unwrap().version;
    for _ in 0..15 {
        let lines = texts(&world, &id).await;
        let last: u64 = lines.last().expect("a line").parse().unwrap();
        let age = began.elapsed() - Duration::from_millis(last);
        assert!(age <= secs(1), "{age:?}");
        sleep(Duration::from_millis(1030)).await;
    }
    assert_eq!(
        world.client.get(&id).await.unwrap().state.unwrap().version,
        version
    );
    assert_eq!(page(&world, &id).await.gone, 0);
}

#[tokio::test(start_paused = true)]
async fn the_lines_of_every_attempt_come_with_its_end() {
    let world = World::new().await;
    let (_node, id) = world
        .work(|task: TaskContext| async move {
            task.log(format_args!("attempt {}\nbegins", task.attempt()));
            match task.attempt() {
                1 => Message::error("once more"),
                2 => panic!("this fails the attempt"),
                _ => Message::complete(),
            }
        })
        .await;
    world.rest(&id, StateKind::Completed).await;
    let page = page(&world, &id).await;
    let lines: Vec<_> = page
        .lines
        .iter()
        .map(|line| (line.attempt, &*line.text))
        .collect();
    assert_eq!(
        lines,
        [
            (1, "attempt 1"),
            (1, "begins"),
            (2, "attempt 2"),
            (2, "begins"),
            (3, "attempt 3"),
            (3, "begins"),
        ]
    );
    assert_eq!(page.gone, 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_logs_without_end_loses_its_oldest_lines() {
    let world = World::new().await;
    let (_node, id) = world
        .work(|task: TaskContext| async move {
            for n in 1..=100_000 {
                task.log(n);
            }
            Message::complete()
        })
        .await;
    world.rest(&id, StateKind::Completed).await;
    let page = page(&world, &id).await;
    let last = page.lines.last().expect("a line");
    assert_eq!((last.number, &*last.text), (100_000, "100000"));
    assert_eq!(page.gone + page.lines.len() as u64, 100_000);
    assert!(
        (1000..=8192).contains(&page.lines.len()),
        "{}",
        page.lines.len()
    );
}

#[tokio::test(start_paused = true)]
async fn lines_of_a_run_that_has_ended_are_dropped() {
    let world = World::new().await;
    let (late, runs) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (logged, counted) = (late.clone(), runs.clone());
    let (_node, id) = world
        .work(move |task: TaskContext| {
            let (late, runs) = (late.clone(), runs.clone());
            async move {
                let context = task.clone();
                tokio::spawn(async move {
                    late.notified().await;
                    context.log("late");
                    runs.fetch_add(1, Ordering::SeqCst);
                });
                task.log("in time");
                Message::complete()
            }
        })
        .await;
    world.rest(&id, StateKind::Completed).await;
    logged.notify_waiters();
    let is_logged = || async { counted.load(Ordering::SeqCst) == 1 };
    world.until("the late line", is_logged).await;
    sleep(secs(2)).await;
    assert_eq!(texts(&world, &id).await, ["in time"]);
}

#[tokio::test(start_paused = true)]
async fn lines_whose_write_fails_are_written_later_and_each_once() {
    for fault in [Fault::Before, Fault::After] {
        let world = World::new().await;
        let (_node, id) = world
            .work(|task: TaskContext| async move {
                for n in 1..=20 {
                    task.log(n);
                    sleep(Duration::from_millis(300)).await;
                }
                Message::complete()
            })
            .await;
        sleep(Duration::from_millis(500)).await;
        world.faults.fail(Operation::Commit, fault, 4);
        world.rest(&id, StateKind::Completed).await;
        let expected: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        assert_eq!(texts(&world, &id).await, expected, "{fault:?}");
        assert_eq!(page(&world, &id).await.gone, 0);
    }
}
