//! The props that a change gives a task: those of a command have to be those of one.

use futures::{StreamExt, stream};
use windlass::{
    Client, Invalid, Json, Kind, Task, TaskId,
    store::{Operation, Reschedule, RetryTask},
};

use crate::exec;

/// How many tasks are read at once.
const AT_ONCE: usize = 16;

/// Checks the props of a task of this kind. Invalid props of a command are refused now, instead of failing the task
/// later; other kinds have any.
pub(crate) fn check_props(kind: &Kind, props: &Json) -> Result<(), Invalid> {
    match kind.is_command() {
        true => exec::Props::parse(props).map(drop),
        false => Ok(()),
    }
}

/// Refuses limits of a schedule: they would hold back the schedule itself, and none of its runs.
pub(crate) fn check_limits(task: &Task) -> Result<(), Invalid> {
    if task.kind.as_str() != Kind::SCHEDULE || task.limits.is_empty() {
        return Ok(());
    }
    let reason = "would hold back the schedule itself, and not its runs; give the limits of the runs to `windlass schedule \
                  create`, or put them into 'run' of the props: {\"run\":{\"kind\":\"call\",\"limits\":[…]}}";
    Err(Invalid::new("limits", reason))
}

/// Checks the props that an operation leaves its task with. The store reports a task that does not exist.
async fn check(client: &Client, operation: &Operation) -> Result<(), Invalid> {
    let (id, kind, props): (&TaskId, Option<&Kind>, Option<&Json>) = match operation {
        Operation::Submit(submit) => return check_props(&submit.task.kind, &submit.task.props),
        Operation::Retry(RetryTask { task, props, .. }) => (task, None, props.as_ref()),
        Operation::Reschedule(Reschedule {
            task, kind, props, ..
        }) => (task, kind.as_ref(), props.as_ref()),
        _ => return Ok(()),
    };
    if props.is_none() && kind.is_none_or(|kind| !kind.is_command()) {
        return Ok(());
    }
    let Ok(record) = client.get(id).await else {
        return Ok(());
    };
    check_props(
        kind.unwrap_or(&record.task.kind),
        props.unwrap_or(&record.task.props),
    )
}

/// Returns the operations with wrong props, with their places.
pub(crate) async fn wrong<'a>(
    client: &Client,
    operations: impl IntoIterator<Item = &'a Operation>,
) -> Vec<(usize, Invalid)> {
    let checks = operations.into_iter().enumerate();
    let checks = checks.map(|(at, operation)| async move { (at, check(client, operation).await) });
    let checked: Vec<_> = stream::iter(checks).buffered(AT_ONCE).collect().await;
    let wrong = checked.into_iter();
    wrong
        .filter_map(|(at, checked)| Some((at, checked.err()?)))
        .collect()
}
