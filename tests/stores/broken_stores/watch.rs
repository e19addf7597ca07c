//! The watch of a store with a planted defect.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use tokio::time::sleep;
use windlass::store::{Event, EventStream, TaskView};

use super::{defect::Defect, store::Memory};

/// Longer than the second in which a loss has to be delivered.
const TOO_LATE: Duration = Duration::from_secs(4);

/// Whether a task waits for a live one.
fn waits(view: Option<&TaskView>) -> bool {
    view.is_some_and(|view| view.sleeping && view.due.is_none())
}

/// The events as the defect lets them through.
pub(crate) fn broken(
    events: EventStream,
    defect: Defect,
    memory: Arc<Mutex<Memory>>,
    lease: u64,
) -> EventStream {
    let known = memory.lock().unwrap().listed.get(&lease).cloned();
    let mut views = HashMap::new();
    let mut is_listing = true;
    let deliver = move |batch: Vec<Event>| {
        let (mut delivered, mut is_late) = (Vec::new(), false);
        let mut memory = memory.lock().unwrap();
        for mut event in batch {
            if let (Defect::DataVersionsAreNotDelivered, Event::Task(view)) = (defect, &mut event) {
                view.data_version = 1;
            }
            if let (Defect::DeadlinesAreNotDelivered, Event::Task(view)) = (defect, &mut event) {
                view.deadline = None;
            }
            if let (Defect::PlacesAreNotDelivered, Event::Task(view)) = (defect, &mut event)
                && !view.sleeping
            {
                view.due = view.due.map(|_| jiff::Timestamp::UNIX_EPOCH);
            }
            if let (Defect::KeysAreNotDelivered, Event::Task(view)) = (defect, &mut event) {
                view.fair_key = None;
            }
            let looks_claimable = matches!(
                defect,
                Defect::WaitersLookClaimable | Defect::HeldTasksLookClaimable
            );
            if looks_claimable
                && let Event::Task(view) = &mut event
                && view.due.is_none_or(|_| view.sleeping)
            {
                (view.sleeping, view.due) = (false, Some(jiff::Timestamp::UNIX_EPOCH));
            }
            let waited = match &event {
                Event::Task(view) => waits(views.get(&view.id)) && !waits(Some(view)),
                _ => false,
            };
            let mut stale = None;
            match &event {
                Event::Listed => is_listing = false,
                Event::Task(view) => {
                    let before: Option<TaskView> = views.insert(view.id.clone(), view.clone());
                    let was_claimed = before.as_ref().is_some_and(|b| b.claimed_by.is_some());
                    is_late |= was_claimed && view.claimed_by.is_none();
                    if is_listing {
                        let listed = memory.listed.entry(lease).or_default();
                        listed.push(view.id.clone());
                    } else {
                        stale = before;
                    }
                }
                _ => {}
            }
            let is_missed = match (defect, &event) {
                (Defect::ASecondWatchMissesTasks, Event::Task(view)) => {
                    is_listing && known.as_ref().is_some_and(|k| !k.contains(&view.id))
                }
                (Defect::EndsAreNotDelivered, Event::Gone { .. })
                | (Defect::CommandsAreNotDelivered, Event::Commands { .. })
                | (Defect::NodeCommandsAreNotDelivered, Event::Node(_)) => true,
                (Defect::CommandsToWorkersAreNotDelivered, Event::Node(queued)) => {
                    queued.lease != lease
                }
                (Defect::TasksOfWorkersAreNotDelivered, Event::Task(view)) => {
                    view.claimed_by.is_some_and(|by| by != lease)
                }
                (Defect::ReadyWaitersAreNotDelivered | Defect::NextTasksAreNotDelivered, _) => {
                    waited
                }
                _ => false,
            };
            if !is_missed {
                delivered.push(event);
            }
            if defect == Defect::AStaleViewComesLast {
                delivered.extend(stale.map(Event::Task));
            }
        }
        let wait = match defect {
            Defect::LossesAreDeliveredLate if is_late => TOO_LATE,
            _ => Duration::ZERO,
        };
        async move {
            sleep(wait).await;
            delivered
        }
    };
    events.map(deliver).then(|delivered| delivered).boxed()
}
