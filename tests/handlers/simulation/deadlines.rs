//! Deadlines of tasks whose node is lost at every write.

use std::time::Duration;

use windlass::{BoxError, Message, NewTask, StateKind, TaskContext, testing};

/// Makes a checkpoint, sleeps for a minute, and completes.
async fn naps(task: TaskContext) -> Result<Message, BoxError> {
    match task.data::<u32>()? {
        Some(2) => Ok(Message::complete()),
        Some(_) => Ok(Message::sleep_for(Duration::from_secs(60)).with_data(&2)),
        None => {
            task.checkpoint(&1).await?;
            Ok(Message::run())
        }
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_start_that_was_met_stays_met_wherever_the_node_is_lost() {
    // A lost node costs more time than this.
    let task = NewTask::new("k").start_within(Duration::from_secs(1));
    let crashes = testing::crash_everywhere(naps, task.end_within(HOUR), |done| {
        assert_eq!(done.code(), StateKind::Completed);
    });
    let ends = crashes.await.unwrap().ends;
    assert!(ends.len() > 8, "{ends:?}");
}

#[tokio::test]
async fn an_end_is_missed_wherever_the_node_is_lost() {
    let task = NewTask::new("k").end_within(Duration::from_secs(30));
    let crashes = testing::crash_everywhere(naps, task, |done| {
        let error = done.error().unwrap_or_default();
        assert!(error.starts_with("did not end by "), "{error}");
    });
    let ends = crashes.await.unwrap().ends;
    assert!(ends.len() > 4, "{ends:?}");
    assert!(ends.iter().all(|end| *end == StateKind::Failed), "{ends:?}");
}
