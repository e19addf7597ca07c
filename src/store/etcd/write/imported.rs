//! The keys of a task from another store, with their values. Pure.

use windlass_statemachine::{StateKind, Waits, waits::NO_DEADLINE};

use super::edit::HISTORY;
use crate::store::{
    Change, ChangeKind, Error, Exported,
    etcd::schema::{
        Entry, Envelope, Hold, Keys, Parked, Stored, json::write, records::write_state,
    },
    rules::log_lines::PartPlace,
};

/// Returns everything except the task itself: history, outcomes, commands and log lines.
pub(crate) fn parts_of(keys: &Keys, exported: &Exported) -> Result<Vec<(String, String)>, Error> {
    let id = &exported.task.id;
    let mut parts = Vec::new();
    // The keys of the task and of its commands report these already.
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
        // Later writes delete them one by one.
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
    for part in &exported.log {
        let key = keys.log_part(id, PartPlace::of(part));
        parts.push((key, write("log", part)?));
    }
    Ok(parts)
}

/// Returns the keys of the task itself, with their values; `None` for a key that is deleted.
pub(crate) fn core_of(
    keys: &Keys,
    exported: &Exported,
) -> Result<Vec<(String, Option<String>)>, Error> {
    let (task, state) = (&exported.task, &exported.state);
    let id = &task.id;
    let envelope = as_submitted(exported).live(exported.order, state);
    let hold = exported.lost_by.as_ref().map(Hold::of).unwrap_or_default();
    let is_first = *state == envelope.first_state() && hold == Hold::default();
    let stored = (!is_first).then(|| write_state(state, &hold));
    let mut core = vec![(keys.state(id), stored.transpose()?)];
    if state.code().is_terminal() {
        let props = task.props.clone();
        let envelope = envelope.ended(exported.order, props, state.code(), state.since);
        let record = write("task", &envelope)?;
        core.extend([(keys.finished(id), Some(record)), (keys.parked(id), None)]);
        let end = write("state", &state.code())?;
        core.push((keys.ended(state.since, id), Some(end)));
        return Ok(core);
    }
    core.push((keys.task(id), Some(write("task", &envelope)?)));
    if !task.props.is_null() {
        core.push((keys.new_props(id), Some(task.props.as_str().to_owned())));
    }
    let parked = Parked::of(state, exported.submitted_at).map(|parked| write("parked", &parked));
    core.push((keys.parked(id), parked.transpose()?));
    Ok(core)
}

/// Returns the envelope that the submit of the task would have written. Only the state names the tasks that
/// it waits for, and the state of an ended one may not.
fn as_submitted(exported: &Exported) -> Envelope {
    let submit = |change: &&Change| matches!(change.what, ChangeKind::Submitted { .. });
    let submit = exported.history.iter().find(submit);
    let paused = StateKind::Paused;
    let envelope = Envelope {
        by: submit.and_then(|change| change.by.clone()),
        paused: submit.is_some_and(|change| change.what == ChangeKind::Submitted { state: paused }),
        ..Envelope::new(&exported.task, exported.submitted_at, 0)
    };
    let began_asleep = exported.history.iter().any(|change| {
        let state = StateKind::Sleeping;
        change.what == ChangeKind::Submitted { state }
    });
    if !began_asleep || envelope.first_state().code() == StateKind::Sleeping {
        return envelope;
    }
    let waits = exported.state.waits.as_deref();
    envelope.waits_until(waits.map_or(NO_DEADLINE, Waits::until))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Command, Fence, Json, Outcome, Task, TaskState, TaskStatus};

    use super::*;
    use crate::store::CommandRecord;

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> T {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn exported() -> Exported {
        let mut task = Task::new(parsed("a"), parsed("k"));
        task.props = Json::parse("props", "[1]").unwrap_or_else(|e| panic!("{e}"));
        Exported {
            task,
            state: TaskState::new(at()),
            order: 77,
            submitted_at: at(),
            fence: Fence(0),
            lost_by: None,
            commands: Vec::new(),
            history: Vec::new(),
            log: Vec::new(),
            holds_key: None,
            replaces: None,
        }
    }

    fn at() -> Timestamp {
        parsed("2030-01-01T00:00:00Z")
    }

    fn change(seq: u64, what: ChangeKind) -> Change {
        Change::new(seq, at(), parsed("a"), what)
    }

    fn parts(exported: &Exported) -> Vec<(String, String)> {
        parts_of(&Keys::new("n"), exported).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns each key with its value, `-` for one that must not be there.
    fn core(exported: &Exported) -> Vec<(String, String)> {
        let core = core_of(&Keys::new("n"), exported).unwrap_or_else(|e| panic!("{e}"));
        let core = core.into_iter();
        core.map(|(key, value)| (key, value.unwrap_or_else(|| "-".to_owned())))
            .collect()
    }

    fn pairs(found: &[(String, String)]) -> Vec<(&str, &str)> {
        let found = found.iter();
        found.map(|(key, value)| (&**key, &**value)).collect()
    }

    #[test]
    fn a_task_that_was_never_claimed_has_no_state_and_keeps_its_order() {
        let mut exported = exported();
        let (since, order) = (r#""submitted_at":"2030-01-01T00:00:00Z""#, r#""order":77"#);
        let envelope = format!(r#"{{"kind":"k",{since},{order}}}"#);
        let expected = [
            ("/n/state/a", "-"),
            ("/n/tasks/a", &*envelope),
            ("/n/tasks/a/props", "[1]"),
            ("/n/parked/a", "-"),
        ];
        assert_eq!(pairs(&core(&exported)), expected);
        exported.task.props = Json::null();
        let keys: Vec<String> = core(&exported).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["/n/state/a", "/n/tasks/a", "/n/parked/a"]);
    }

    #[test]
    fn a_state_is_stored_when_it_is_not_the_first_or_its_claim_was_lost() {
        let mut lost = exported();
        lost.lost_by = Some(parsed("w"));
        let state = &core(&lost)[0].1;
        assert!(state.contains(r#""claimed_by":"w""#), "{state}");
        let mut waits = exported();
        waits.state.status = TaskStatus::Paused;
        let found = core(&waits);
        assert!(found[0].1.contains(r#""state":"paused""#), "{found:?}");
        assert_eq!(found[3], ("/n/parked/a".to_owned(), "{}".to_owned()));
    }

    #[test]
    fn an_ended_task_is_one_record_with_its_props() {
        let mut exported = exported();
        exported.state.status = TaskStatus::Failed;
        let found = core(&exported);
        let keys: Vec<&str> = pairs(&found).into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "/n/state/a",
                "/n/finished/a",
                "/n/parked/a",
                "/n/meta/ended/8006ba1694472000/a"
            ]
        );
        for part in [r#""order":77"#, r#""props":[1]"#, r#""state":"failed""#] {
            assert!(found[1].1.contains(part), "{part} is not in {found:?}");
        }
        assert_eq!(found[2].1, "-");
    }

    #[test]
    fn commands_wait_or_have_their_outcome_and_each_has_its_pointer() {
        let mut exported = exported();
        let command = |name: &str, outcome| CommandRecord {
            id: parsed(name),
            task: parsed("a"),
            order: 5,
            command: Command::Pause,
            sent_at: at(),
            by: None,
            note: None,
            outcome,
        };
        let reason = "no".to_owned();
        let rejected = Some(Outcome::Rejected { reason });
        exported.commands = vec![command("c", rejected), command("d", None)];
        let found = parts(&exported);
        let keys: Vec<&str> = pairs(&found).into_iter().map(|(key, _)| key).collect();
        let expected = [
            "/n/outcomes/a/c",
            "/n/commands/c",
            "/n/tasks/a/commands/d",
            "/n/commands/d",
        ];
        assert_eq!(keys, expected);
        assert_eq!((&*found[1].1, &*found[3].1), (r#""a""#, r#""a""#));
    }

    #[test]
    fn the_newest_lines_are_kept_but_those_that_other_records_report() {
        let mut exported = exported();
        exported.state.version = 9;
        let state = windlass_statemachine::StateKind::Runnable;
        let mut history = vec![
            change(1, ChangeKind::Submitted { state }),
            change(2, ChangeKind::Commanded { command: 5 }),
        ];
        let lines = (3..=2 + HISTORY + 1).map(|seq| change(seq, ChangeKind::Retried));
        history.extend(lines);
        exported.history = history;
        let found = parts(&exported);
        assert_eq!(found.len() as u64, HISTORY);
        // Newest first; each at the version of a write, so that later writes delete it.
        let newest = format!("/n/history/a/000000000009-{HISTORY:04}");
        assert_eq!(found[0].0, newest);
        assert!(found[0].1.contains(r#""seq":67"#), "{:?}", found[0]);
        assert_eq!(found[1].0, "/n/history/a/000000000008-0063");
        assert_eq!(found[63].0, "/n/history/a/000000000000-0001");
        assert!(found[63].1.contains(r#""seq":4"#), "{:?}", found[63]);
    }
}
