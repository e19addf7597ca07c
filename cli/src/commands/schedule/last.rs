//! The last run of a schedule, and the times that submitted no run, as text.

use windlass::{
    StateKind,
    schedule::{LastRun, LeftOut, Why},
};

use crate::view::color;

/// Returns the times of an entry and why they submitted no run, in one line.
pub(super) fn left_out_text(entry: &LeftOut) -> String {
    let LeftOut {
        first, last, times, ..
    } = entry;
    let times = match times {
        1 => first.to_string(),
        2 => format!("{first}, {last}"),
        _ => format!("{first} to {last}, {times} times"),
    };
    let why = match entry.why {
        Why::Missed => "missed: no worker decided it in time",
        Why::Skipped => "skipped, or the schedule was paused",
        Why::Overlapped => "overlapped: an earlier run was live, or a later time replaced it",
        Why::Refused => "refused: another task has its id",
        _ => "for a reason that this version does not know; update windlass to read it",
    };
    format!("{times}: {why}")
}

/// Returns the name of the state of a run, and the color of that state.
pub(super) fn code(run: &LastRun) -> (&'static str, comfy_table::Color) {
    match run.state {
        Some(code) => (code.as_str(), color(code)),
        None => ("quarantined", comfy_table::Color::Red),
    }
}

/// Returns a run with its state and its error, and the command that retries a chain of runs.
pub(super) fn run_text(run: &LastRun) -> String {
    let state = run.state.map_or("quarantined", StateKind::as_str);
    let error = run.error.as_ref().map(|error| format!(": {error}"));
    let chain = match run.in_chain {
        true => " (windlass retry ID --with-dependents)",
        false => "",
    };
    format!("{} {state}{}{chain}", run.id, error.unwrap_or_default())
}
