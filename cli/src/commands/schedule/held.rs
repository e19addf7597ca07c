//! Why a schedule submits no run at present, as text.

use windlass::schedule::{Held, ScheduleRecord};

/// The reason why no schedule submits runs.
const NO_NODE: &str =
    "no live node runs schedules: start one (`windlass worker`, or a runner of the library)";

/// Returns why a schedule submits no run, in words.
pub(super) fn held_text(record: &ScheduleRecord, held: &Held) -> String {
    match held {
        Held::NoNodeMay(why) => format!("no node may run schedules: {why}"),
        Held::Ahead(_) => ahead_text(record).unwrap_or_default(),
        Held::Commands(_) => commands_text(record).unwrap_or_default(),
        _ => NO_NODE.to_owned(),
    }
}

/// Returns the reason why a schedule waits if a clock that was ahead has decided its times beyond
/// the present.
pub(super) fn ahead_text(record: &ScheduleRecord) -> Option<String> {
    let (ahead, id) = (record.ahead?, &record.id);
    Some(format!(
        "a clock that was ahead has decided the times up to {ahead}; `windlass schedule resume {id}` goes on from the \
         present, if no worker does"
    ))
}

/// Returns a note that queued commands will change what the schedule does next.
pub(super) fn commands_text(record: &ScheduleRecord) -> Option<String> {
    let id = &record.id;
    match record.commands {
        0 => None,
        1 => Some(format!(
            "a command waits for a worker: `windlass get {id}` shows it"
        )),
        many => Some(format!(
            "{many} commands wait for a worker: `windlass get {id}` shows them"
        )),
    }
}
