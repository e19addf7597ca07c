//! Which event lets a task be claimed again: whichever of an event and an answer comes first.

use tokio::time::Instant;
use windlass_statemachine::Task;

use super::*;
use crate::{
    BoxError,
    store::{Lease, NodeSpec, RemoteWorker, WorkerRecord},
};

type Tested = Result<(), BoxError>;

fn moment() -> Moment {
    Moment {
        clock: jiff::Timestamp::UNIX_EPOCH,
        at: Instant::now(),
    }
}

fn worker(dispatcher: &mut Dispatcher) -> Result<Arc<Worker>, BoxError> {
    let mut spec = NodeSpec::new("w".parse()?);
    let kind = Kind::new("k")?;
    (spec.slots, spec.kinds) = (1, Some(vec![kind.clone()]));
    spec.slots_of.insert(kind, 1);
    spec.worker = Some(RemoteWorker::default());
    let lease = Lease::new(7, spec.name.clone(), Duration::from_secs(15));
    let worker = Worker::new(WorkerRecord::new(lease, spec, "hash"));
    dispatcher.add(&worker);
    Ok(worker)
}

/// Returns the view of the runnable task with this order.
fn free(order: u64, commanded: bool) -> Result<TaskView, BoxError> {
    let task = Task::new("a".parse()?, "k".parse()?);
    Ok(TaskView {
        id: task.id,
        kind: task.kind,
        labels: None,
        data_version: 1,
        priority: 0,
        order,
        due: Some(jiff::Timestamp::UNIX_EPOCH),
        deadline: None,
        sleeping: false,
        claimed_by: None,
        commanded,
        fair_key: None,
    })
}

fn ended(signalled: bool) -> Ended {
    Ended {
        order: 1,
        runs_again: true,
        is_stopped: false,
        signalled,
    }
}

/// Returns whether the worker may claim the task, now and after the pause of a released task.
async fn claims(dispatcher: &mut Dispatcher, worker: &Worker) -> (bool, bool) {
    let now = !dispatcher.take_for(worker, moment()).is_empty();
    tokio::time::sleep(AFTER_RELEASE + Duration::from_millis(2)).await;
    (now, !dispatcher.take_for(worker, moment()).is_empty())
}

#[tokio::test(start_paused = true)]
async fn a_released_task_is_claimed_again_whether_its_event_or_the_answer_comes_first() -> Tested {
    // Whether a command waits, whether only signals wait, and whether the task is claimed at once.
    for (commanded, signalled, at_once) in [
        (false, false, false),
        (true, true, false),
        (true, false, true),
    ] {
        for event_first in [true, false] {
            let mut dispatcher = Dispatcher::default();
            let worker = worker(&mut dispatcher)?;
            let view = free(1, commanded)?;
            dispatcher.owns(&view.id, 1, &worker);
            let id = view.id.clone();
            if event_first {
                dispatcher.view(view, moment());
                dispatcher.released(&id, 7, ended(signalled), moment());
            } else {
                dispatcher.released(&id, 7, ended(signalled), moment());
                dispatcher.view(view, moment());
            }
            let case = format!(
                "commanded {commanded}, signals {signalled}, the event first {event_first}"
            );
            let (now, later) = claims(&mut dispatcher, &worker).await;
            assert_eq!((now, later), (at_once, !at_once), "{case}");
        }
    }
    Ok(())
}

/// The process stood still for longer than a lease, or another task has the id by now.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_free_before_its_claim_is_known_is_claimed_after_that_claim() -> Tested {
    for order in [1, 2] {
        let mut dispatcher = Dispatcher::default();
        let worker = worker(&mut dispatcher)?;
        let view = free(order, false)?;
        let id = view.id.clone();
        dispatcher.view(view, moment());
        dispatcher.owns(&id, 1, &worker);
        assert!(dispatcher.take_for(&worker, moment()).is_empty());
        dispatcher.disowns(&id, 7, moment());
        assert_eq!(
            dispatcher.take_for(&worker, moment()).len(),
            1,
            "order {order}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_event_during_a_claim_counts_more_than_its_failure() -> Tested {
    for (ends, later) in [(false, 1), (true, 0)] {
        let mut dispatcher = Dispatcher::default();
        let worker = worker(&mut dispatcher)?;
        dispatcher.view(free(1, false)?, moment());
        let views = dispatcher.take_for(&worker, moment());
        let ids: Vec<_> = views.iter().map(|view| view.id.clone()).collect();
        if ends {
            dispatcher.gone(&ids[0], 1, None);
        }
        dispatcher.put_back(views, moment());
        dispatcher.claims_answered(ids.iter());
        worker.shared().claimed([Kind::new("k")?].iter());
        tokio::time::sleep(LATER + Duration::from_millis(2)).await;
        assert_eq!(dispatcher.take_for(&worker, moment()).len(), later);
    }
    Ok(())
}

/// Regression: the task was due again at once, so a server asked for it without a pause.
#[tokio::test(start_paused = true)]
async fn a_sleeping_task_with_a_command_that_is_not_claimed_is_put_off() -> Tested {
    let mut dispatcher = Dispatcher::default();
    let worker = worker(&mut dispatcher)?;
    let in_an_hour = Some(moment().clock + jiff::SignedDuration::from_hours(1));
    let view = TaskView {
        sleeping: true,
        due: in_an_hour,
        ..free(1, true)?
    };
    dispatcher.view(view, moment());
    let views = dispatcher.take_for(&worker, moment());
    assert_eq!(views.len(), 1, "a command does not wait for the wake-up");
    let ids: Vec<_> = views.iter().map(|view| view.id.clone()).collect();
    dispatcher.put_back(views, moment());
    dispatcher.claims_answered(ids.iter());
    worker.shared().claimed([Kind::new("k")?].iter());
    assert!(dispatcher.take_for(&worker, moment()).is_empty());
    tokio::time::sleep(LATER + Duration::from_millis(2)).await;
    assert_eq!(dispatcher.take_for(&worker, moment()).len(), 1);
    Ok(())
}
