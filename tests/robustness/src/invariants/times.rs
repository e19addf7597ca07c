//! No nominal time of a schedule fires twice, and none is lost.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use serde::Deserialize;
use windlass::schedule::{KIND, LABEL, Schedule, ScheduledFor};

use super::Found;
use crate::{BoxError, world::World};

/// What a schedule says of its times.
#[derive(Debug, Default, Deserialize)]
struct Data {
    last: Option<Timestamp>,
    counts: Counts,
}

#[derive(Debug, Default, Deserialize)]
struct Counts {
    fired: u64,
    skipped: u64,
    missed: u64,
    overlapped: u64,
}

#[derive(Debug, Deserialize)]
struct Since {
    since: Timestamp,
}

/// Checks the schedules that were never updated. Their runs are not deleted.
///
/// # Errors
///
/// When a schedule cannot be read.
pub fn check(world: &World) -> Result<Found, BoxError> {
    let mut found = Found::new();
    let schedules = world.subjects.values();
    for subject in schedules.filter(|s| s.record.task.kind.as_str() == KIND) {
        let (task, id) = (&subject.record.task, subject.id());
        let state = subject.record.state.as_ref().map_err(|e| e.to_string())?;
        let data = state.data.as_ref().map(|data| data.get("data"));
        let data: Data = data.transpose()?.unwrap_or_default();
        let since: Since = serde_json::from_str(task.props.as_str())?;
        let spec = Schedule::from_json(&task.props)?;
        let decided =
            data.counts.fired + data.counts.skipped + data.counts.missed + data.counts.overlapped;
        // One more than there may be.
        let many = usize::try_from(decided)? + 1;
        let after = since.since.checked_sub(1.nanosecond())?;
        let times = spec.preview(id.as_str(), after, many)?;
        let past = |at: &Timestamp| data.last.is_some_and(|last| *at <= last);
        let passed = times.into_iter().map(|time| time.nominal).filter(past);
        let runs = world.subjects.values().map(|other| &other.record.task);
        let runs = runs.filter(|run| run.labels.get(LABEL).is_some_and(|of| of == id.as_str()));
        let runs = runs.filter_map(|run| ScheduledFor::of(run).map(|time| time.nominal));
        let wrong = compare(&passed.collect(), &data.counts, &runs.collect());
        found.extend(wrong.into_iter().map(|how| (id.clone(), how)));
    }
    Ok(found)
}

/// Compares the times that have passed with the runs that are there.
fn compare(
    passed: &BTreeSet<Timestamp>,
    counts: &Counts,
    runs: &BTreeSet<Timestamp>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let decided = counts.fired + counts.skipped + counts.missed + counts.overlapped;
    if passed.len() as u64 != decided {
        wrong.push(format!(
            "{} times have passed, and {decided} are counted",
            passed.len()
        ));
    }
    if runs.len() as u64 != counts.fired {
        wrong.push(format!(
            "{} runs are there, and {} have fired",
            runs.len(),
            counts.fired
        ));
    }
    let strange = runs.difference(passed);
    wrong.extend(strange.map(|run| format!("{run} is not one of its times")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seconds: &[i64]) -> BTreeSet<Timestamp> {
        let times = seconds
            .iter()
            .map(|second| Timestamp::from_second(*second).unwrap());
        times.collect()
    }

    #[test]
    fn lost_strange_and_uncounted_times_are_found() {
        let counts = Counts {
            fired: 2,
            missed: 1,
            ..Counts::default()
        };
        let check =
            |passed: &[i64], runs: &[i64]| compare(&times(passed), &counts, &times(runs)).len();
        assert_eq!(check(&[1, 2, 3], &[1, 3]), 0);
        assert_eq!(check(&[1, 2, 3], &[1]), 1, "a run is lost");
        assert_eq!(check(&[1, 2, 3, 4], &[1, 3]), 1, "a time is not decided");
        assert_eq!(check(&[1, 2, 3], &[1, 9]), 1, "a run of no time");
        assert_eq!(
            check(&[1, 2, 3], &[1, 2, 3]),
            1,
            "a time that fired twice, or was missed and ran"
        );
    }
}
