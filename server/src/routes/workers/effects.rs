//! What handlers of a worker change and wait for, within the scope of its token.

use std::{collections::BTreeSet, sync::Arc};

use uuid::Uuid;
use windlass::{
    CommandId, Json, Message, TaskId, statemachine::wire::read_message, store::Operation,
    workers::protocol::Item,
};

use crate::{access::Worker, app::App, change::Change, problem::Problem};

/// Lets returned messages do what the requests of an operator with the scope of the caller may do: change, compare and wait for
/// tasks in that scope, make no bulk operation, also not as the runs of a schedule, and write no placeholder of a mask. A
/// message that would do more fails its task: the report then has that failure instead.
pub(super) async fn keep_within_scope(
    app: &Arc<App>,
    by: &Worker,
    items: &mut [Item],
) -> Result<(), Problem> {
    for item in items {
        let Some(returned) = &item.returned else {
            continue;
        };
        let new_id = || CommandId::new(Uuid::now_v7().to_string());
        // One that cannot be read is refused by those who apply it, with the reason.
        let Ok(message) = read_message(returned.as_str(), app.client.now(), new_id) else {
            continue;
        };
        if by.scope.is_everything() && message.effects().is_empty() {
            continue;
        }
        let kept = match admit(app, by, message).await {
            Ok(kept) => kept,
            Err(problem) if problem.is_of_caller() => {
                Some(Message::fail(format!("the message: {}", problem.detail())))
            }
            Err(problem) => return Err(problem),
        };
        if let Some(message) = kept {
            item.returned = Some(Json::new("return", &message)?);
        }
    }
    Ok(())
}

/// Returns a message with guards for the tasks that were compared with the scope; `None` for one that needs none.
async fn admit(
    app: &Arc<App>,
    by: &Worker,
    mut message: Message,
) -> Result<Option<Message>, Problem> {
    let by = by.as_operator();
    let change = Change::new(app, &by);
    let effects = message.effects().clone();
    let submits = effects.submit.into_iter().map(Operation::Submit);
    let new: BTreeSet<TaskId> = submits.clone().map(|one| one.task().clone()).collect();
    // A command to a task that the message itself submits.
    let sends = effects.send.into_iter();
    let sends = sends.filter(|send| !new.contains(&send.task));
    let deletes = effects.delete.into_iter().map(Operation::Delete);
    let retries = effects.retry.into_iter().map(Operation::Retry);
    let moves = effects.reschedule.into_iter().map(Operation::Reschedule);
    let others = sends.map(Operation::Send).chain(deletes);
    let mut guards = Vec::new();
    for operation in submits.chain(others).chain(retries).chain(moves) {
        guards.extend(change.guards_of(&operation, &new).await?);
    }
    // A worker without a scope may claim any task, and gets its data: a guard shows it nothing.
    let compared = effects.require.iter().filter(|_| !by.scope.is_everything());
    for guard in compared {
        change.admit_guard(guard).await?;
    }
    let waited = message.waits().map(|waits| waits.tasks.clone());
    for task in waited.into_iter().flatten() {
        if !new.contains(&task) {
            by.check(&task).await?;
        }
    }
    if guards.is_empty() {
        return Ok(None);
    }
    for guard in guards {
        message = message.and_require(guard.task, guard.require);
    }
    Ok(Some(message))
}
