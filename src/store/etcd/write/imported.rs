//! The keys of a task that comes from another store, with their values. Pure.

use super::edit::HISTORY;
use crate::store::{
    ChangeKind, Error, Exported,
    etcd::schema::{
        Entry, Envelope, Hold, Keys, Parked, Stored, json::write, records::write_state,
    },
};

/// History, outcomes and commands: everything but the task itself.
pub(crate) fn parts_of(keys: &Keys, exported: &Exported) -> Result<Vec<(String, String)>, Error> {
    let id = &exported.task.id;
    let mut parts = Vec::new();
    // What the submit and the commands report need not be reported again.
    let reported = |what: &ChangeKind| {
        matches!(
            what,
            ChangeKind::Submitted { .. } | ChangeKind::Commanded { .. }
        )
    };
    let lines: Vec<_> = exported
        .history
        .iter()
        .filter(|c| !reported(&c.what))
        .collect();
    let newest = lines.iter().rev().take(HISTORY as usize);
    for (back, change) in newest.enumerate() {
        // So that the writes to come cut them off one by one.
        let version = exported.state.version.saturating_sub(back as u64);
        let key = format!(
            "{}-{:04}",
            keys.history(id, version),
            HISTORY as usize - back
        );
        parts.push((key, Entry::of(change)?));
    }
    for command in &exported.commands {
        let name = command.id.as_str();
        let key = match command.outcome {
            Some(_) => keys.outcome(id, name),
            None => keys.queued(id, name),
        };
        parts.push((key, Stored::of(command)?));
        parts.push((keys.pointer(&command.id), write("task", id)?));
    }
    Ok(parts)
}

/// The keys that make the task be there, with their values; `None` for one that must not be there.
pub(crate) fn core_of(
    keys: &Keys,
    exported: &Exported,
) -> Result<Vec<(String, Option<String>)>, Error> {
    let (task, state) = (&exported.task, &exported.state);
    let id = &task.id;
    let envelope = Envelope::new(task, exported.submitted_at, 0).live(exported.order, state);
    let hold = exported.lost_by.as_ref().map(Hold::of).unwrap_or_default();
    let is_first = *state == envelope.first_state() && hold == Hold::default();
    let stored = (!is_first).then(|| write_state(state, &hold));
    let mut core = vec![(keys.state(id), stored.transpose()?)];
    if state.code().is_terminal() {
        let props = task.props.clone();
        let envelope = envelope.ended(exported.order, props, state.code(), state.since);
        let record = write("task", &envelope)?;
        core.extend([(keys.finished(id), Some(record)), (keys.parked(id), None)]);
        return Ok(core);
    }
    core.push((keys.task(id), Some(write("task", &envelope)?)));
    if !task.props.is_null() {
        core.push((keys.props(id), Some(task.props.as_str().to_owned())));
    }
    let parked = Parked::of(state).map(|parked| write("parked", &parked));
    core.push((keys.parked(id), parked.transpose()?));
    Ok(core)
}
