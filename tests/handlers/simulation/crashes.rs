//! A node is lost at every write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{
    BoxError, Message, NewTask, Retry, StateKind, Task, TaskContext,
    testing::{self, CrashError, CrashPoint, Simulation},
};

/// Makes a checkpoint for each number, naps, and completes with the sum.
async fn sum(task: TaskContext) -> Result<Message, BoxError> {
    let numbers: Vec<u32> = task.props()?;
    let (mut next, mut sum): (usize, u32) = task.data()?.unwrap_or_default();
    while let Some(number) = numbers.get(next) {
        (next, sum) = (next + 1, sum + number);
        if next == 2 {
            let nap = Message::sleep_for(Duration::from_secs(5));
            return Ok(nap.with_data(&(next, sum)));
        }
        task.checkpoint(&(next, sum)).await?;
    }
    Ok(Message::complete_with(sum))
}

fn task() -> NewTask {
    NewTask::new("sum").props(&[1, 2, 3])
}

#[tokio::test]
async fn a_task_resumes_after_every_write() {
    let crashes = testing::crash_everywhere(sum, task(), |done| {
        assert_eq!(done.result::<u32>().unwrap(), 6);
    });
    let crashes = crashes.await.unwrap();
    // Checkpoint, sleep, wake, checkpoint, end.
    assert_eq!(crashes.writes, 5);
    assert_eq!(crashes.points.len(), 10);
    assert_eq!(
        crashes.points[..2],
        [CrashPoint::Before(1), CrashPoint::After(1)]
    );
    assert_eq!(crashes.ends, [StateKind::Completed; 11]);
}

/// The claim of the lost node is lost at each point except the end, and the attempts show it.
#[tokio::test]
async fn each_crash_loses_one_claim() {
    for (point, lost) in [
        (CrashPoint::Before(1), 1),
        (CrashPoint::After(1), 1),
        (CrashPoint::Before(5), 1),
        (CrashPoint::After(5), 0),
        (CrashPoint::After(6), 0),
    ] {
        let builder = Simulation::builder().handler("sum", sum);
        let mut simulation = builder.start().await.unwrap();
        simulation.crash_at(point);
        let id = simulation.client().submit(task()).await.unwrap();
        simulation.run(&id).await.unwrap();
        simulation.advance(Duration::from_secs(60)).await.unwrap();
        let history = simulation.history(&id).await.unwrap();
        assert_eq!(history.lost(), lost, "{point}:\n{history}");
    }
}

/// A handler that keeps its progress in memory loses it with the node.
#[tokio::test]
async fn a_handler_that_forgets_is_found_out() {
    let forgets = |task: TaskContext| async move {
        let seen: u32 = task.data()?.unwrap_or(0);
        if task.attempt() > 1 && seen == 2 {
            return Ok::<_, BoxError>(Message::pause());
        }
        for n in seen + 1..=3 {
            task.checkpoint(&n).await?;
        }
        Ok(Message::complete())
    };
    let task = NewTask::new("forgets");
    let error = testing::crash_everywhere(forgets, task, |_| ()).await;
    let error = error.unwrap_err();
    let CrashError::Lost { point, writes, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((*point, *writes), (CrashPoint::After(2), 4));
    assert!(error.to_string().contains("after write 2 of 4"), "{error}");
}

#[tokio::test]
async fn a_check_that_fails_names_the_write() {
    let counts = |task: TaskContext| async move {
        // Starts again from 0: what was counted before the crash counts twice.
        let counted = task.attempt();
        task.checkpoint(&()).await?;
        Ok::<_, BoxError>(Message::complete_with(counted))
    };
    let task = NewTask::new("counts");
    let error = testing::crash_everywhere(counts, task, |done| {
        assert_eq!(done.result::<u32>().unwrap(), 1, "counted twice");
    });
    let error = error.await.unwrap_err();
    let CrashError::Check { point, text, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*point, CrashPoint::Before(1));
    assert!(text.contains("counted twice"), "{text}");
}

#[tokio::test]
async fn a_task_that_does_not_end_undisturbed_is_an_error() {
    let pauses = |_: TaskContext| async { Message::pause() };
    let error = testing::crash_everywhere(pauses, NewTask::new("p"), |_| ()).await;
    assert!(
        matches!(error, Err(CrashError::Undisturbed(_))),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_lost_node_is_a_failed_attempt() {
    let handler = |task: TaskContext| async move {
        task.checkpoint(&1).await?;
        Ok::<_, BoxError>(Message::complete())
    };
    let task = NewTask::new("once").retry(Retry::Never);
    let crashes = testing::crash_everywhere(handler, task, |_| ())
        .await
        .unwrap();
    use StateKind::{Completed, Failed};
    assert_eq!(crashes.ends, [Completed, Failed, Failed, Failed, Completed]);
}

/// The tasks that a task submits, and a handler that is dropped by the crash.
#[tokio::test]
async fn effects_happen_once_wherever_the_node_is_lost() {
    let (begun, dropped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    struct Guard(Arc<AtomicU32>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (starts, ends) = (begun.clone(), dropped.clone());
    let parent = move |task: TaskContext| {
        starts.fetch_add(1, Ordering::SeqCst);
        let guard = Guard(ends.clone());
        async move {
            let _guard = guard;
            let child = Task::new("child".parse()?, "child".parse()?);
            task.checkpoint(&1).await?;
            Ok::<_, BoxError>(Message::complete().and_submit(child))
        }
    };
    let child = |_: TaskContext| async { Message::complete() };
    let builder = Simulation::builder()
        .handler("parent", parent)
        .handler("child", child);
    let crashes = builder.crash_everywhere(NewTask::new("parent"), |done| {
        assert!(done.is_completed());
    });
    assert_eq!(crashes.await.unwrap().writes, 2);
    // Five undisturbed runs end their one handler; three crashes start another.
    assert_eq!(begun.load(Ordering::SeqCst), 8);
    assert_eq!(dropped.load(Ordering::SeqCst), 8);
}
