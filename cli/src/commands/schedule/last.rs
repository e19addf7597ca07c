//! The last run of a schedule, and the times that submitted no run, as text.

use windlass::schedule::{Counts, LastRun, LeftOut, Why};

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

/// Returns how many times submitted no run though they should have; empty if there are none.
pub(super) fn without_run_text(counts: &Counts) -> String {
    let all = [
        (counts.missed, "missed"),
        (counts.overlapped, "overlapped"),
        (counts.refused, "refused"),
    ];
    let some = all.iter().filter(|(times, _)| *times > 0);
    let some: Vec<_> = some.map(|(times, why)| format!("{times} {why}")).collect();
    some.join(", ")
}

/// Returns the name of the state of a run, and the color of that state.
pub(super) fn code(run: &LastRun) -> (&'static str, comfy_table::Color) {
    (run.shown, run.state.map_or(comfy_table::Color::Red, color))
}

/// Returns a run with its state and its error, and the command that retries a chain of runs.
pub(super) fn run_text(run: &LastRun) -> String {
    let error = run.error.as_ref().map(|error| format!(": {error}"));
    let chain = match run.in_chain {
        true => " (windlass retry ID --with-dependents)",
        false => "",
    };
    format!(
        "{} {}{}{chain}",
        run.id,
        run.shown,
        error.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_run_are_counted_by_their_reason() {
        let mut counts = Counts::default();
        counts.fired = 9;
        counts.skipped = 4;
        assert_eq!(without_run_text(&counts), "", "somebody wanted the skips");
        counts.missed = 3;
        counts.refused = 1;
        assert_eq!(without_run_text(&counts), "3 missed, 1 refused");
        counts.overlapped = 2;
        assert_eq!(
            without_run_text(&counts),
            "3 missed, 2 overlapped, 1 refused"
        );
    }
}
