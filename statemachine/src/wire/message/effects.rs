//! The effects of a message.

use jiff::Timestamp;

use crate::{
    CommandId, Guard, Invalid, Message, Operation, SubmitTask, Wake,
    message::Times,
    waits::deadline_without_wait,
    wire::{Line, fields::Fields, moment, operation::LineForm},
};

/// Returns the effects of a message in their JSON form.
pub(super) fn effects<J>(message: &Message<J>) -> Vec<LineForm> {
    let effects = message.effects();
    let submits = effects.submit.iter().enumerate().map(|(at, submit)| {
        let mut line = LineForm::from(&Operation::Submit(submit.clone()));
        if let LineForm::Submit(form) = &mut line {
            form.set(message.times(at));
        }
        line
    });
    let sends = effects.send.iter().cloned().map(Operation::Send);
    let deletes = effects.delete.iter().cloned().map(Operation::Delete);
    let retries = effects.retry.iter().cloned().map(Operation::Retry);
    let moves = effects
        .reschedule
        .iter()
        .cloned()
        .map(Operation::Reschedule);
    let others = sends.chain(deletes).chain(retries).chain(moves);
    let others = others.map(|operation| LineForm::from(&operation));
    let guards = effects.require.iter().map(LineForm::from);
    submits.chain(others).chain(guards).collect()
}

/// Adds an effect of a message.
///
/// # Errors
///
/// [`Invalid`] that names the field of the effect.
pub(super) fn with_effect(
    message: Message,
    text: &str,
    now: Timestamp,
    new_id: impl FnOnce() -> Result<CommandId, Invalid>,
) -> Result<Message, Invalid> {
    let (text, times) = relative(text)?;
    let line = Line::read_at(&text, now, new_id)?;
    Ok(match line {
        Line::Guards(guards) => guards
            .into_iter()
            .fold(message, |message, Guard { task, require }| {
                message.and_require(task, require)
            }),
        Line::Operation(Operation::Submit(submit)) => {
            let mut submit = SubmitTask::from(submit);
            submit.start_in = times.start_at;
            submit.start_within = times.start_by;
            submit.end_within = times.end_by;
            submit.after_within = times.after_deadline;
            if times.after_deadline.is_some() && submit.task.waits.is_none() {
                return Err(deadline_without_wait());
            }
            message.and_submit(submit)
        }
        Line::Operation(Operation::Send(send)) => message.and_sent(Ok(send)),
        Line::Operation(Operation::Delete(one)) if one.force => message.and_force_delete(one.task),
        Line::Operation(Operation::Delete(one)) => message.and_delete(one.task),
        Line::Operation(Operation::Retry(retry)) => message.and_retry_with(retry),
        Line::Operation(Operation::Reschedule(change)) => message.and_reschedule(change),
    })
}

/// Takes the relative times out of a submit, because they count from when the message is applied.
fn relative(text: &str) -> Result<(String, Times), Invalid> {
    let mut times = Times::default();
    let Ok(mut fields) = Fields::parse(text, "operation", "") else {
        return Ok((text.to_owned(), times));
    };
    let read = |fields: &Fields, name: &str| {
        let raw = fields.left.get(name)?;
        serde_json::from_str::<String>(raw.get()).ok()
    };
    if read(&fields, "op").as_deref() != Some("submit") {
        return Ok((text.to_owned(), times));
    }
    for (name, to) in [
        ("start_at", &mut times.start_at),
        ("start_by", &mut times.start_by),
        ("end_by", &mut times.end_by),
        ("after_deadline", &mut times.after_deadline),
    ] {
        let Some(text) = read(&fields, name) else {
            continue;
        };
        if let Wake::After(wait) = moment::read_wake(name, &text)? {
            fields.left.remove(name);
            *to = Some(wait);
        }
    }
    Ok((fields.text(), times))
}
