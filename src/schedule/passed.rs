//! [`skip_passed`]: skips the times that pass while a schedule is paused.

use jiff::Timestamp;

use super::{
    data::Data,
    left_out::{LeftOut, Why},
    tally::Tally,
    times::{Times, before},
};

/// Which times count as passed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passed {
    /// Times whose nominal time has passed.
    Nominal,
    /// Times whose due time has passed.
    Due,
}

/// Counts the times that have passed while the schedule was paused as skipped, and moves on to the present, or to the
/// first time that has not passed.
pub(crate) fn skip_passed(data: &mut Data, times: &Times, now: Timestamp, which: Passed) {
    // All times up to this one have passed.
    let certain = match which {
        Passed::Nominal => now,
        Passed::Due => now.checked_sub(times.delay()).unwrap_or(Timestamp::MIN),
    };
    let mut cursor = data.cursor(times.spec(), now);
    let mut passed: Option<LeftOut> = None;
    let mut last = now;
    // The times after the last run of a `count` are not times of the schedule.
    while !data.is_complete(times.spec())
        && let Some(nominal) = times.next(cursor)
        && nominal <= now
    {
        if matches!(which, Passed::Due) && times.due(nominal) > now {
            last = before(nominal);
            break;
        }
        let all = Tally::of(times, nominal, certain).left_out(nominal, Why::Skipped);
        let all = all.unwrap_or_else(|| LeftOut::one(nominal, Why::Skipped));
        cursor = all.last.into();
        match &mut passed {
            Some(earlier) => earlier.add(&all),
            None => passed = Some(all),
        }
    }
    if let Some(passed) = passed {
        data.leave_out(passed);
    }
    data.last = Some(last);
    data.local = None;
    data.skip.retain(|skipped| *skipped > last);
}
