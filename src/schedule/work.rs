//! The bounds of a spec, and of the work that its times are.

use windlass_statemachine::Invalid;

use super::spec::Schedule;

/// The most patterns of a schedule, of each sort: expressions, intervals, excluded expressions.
const MOST_PATTERNS: usize = 100;

/// The most single times of a schedule, of each sort: times, excluded times, excluded days.
const MOST_SINGLE: usize = 10_000;

/// The most times that one call computes.
pub(crate) const MOST_TIMES: usize = 10_000;

/// The most times of one call, counted once for each pattern that is compared for each of them.
const MOST_WORK: usize = 50_000;

impl Schedule {
    /// Checks how many times and patterns the spec has, before anything is computed of them.
    pub(crate) fn check_size(&self) -> Result<(), Invalid> {
        let except = &self.except;
        let patterns = [
            ("cron", self.cron.len()),
            ("every", self.every.len()),
            ("except.cron", except.cron.len()),
        ];
        let single = [
            ("at", self.at.len()),
            ("except.at", except.at.len()),
            ("except.dates", except.dates.len()),
        ];
        let sizes = patterns.map(|(field, many)| (field, many, MOST_PATTERNS));
        let single = single.map(|(field, many)| (field, many, MOST_SINGLE));
        for (field, many, most) in sizes.into_iter().chain(single) {
            if many > most {
                let reason = format!(
                    "has {many} entries, and a schedule has at most {most}; use several schedules"
                );
                return Err(Invalid::new(field, reason));
            }
        }
        Ok(())
    }

    /// Returns the most times that one preview or backfill of the schedule computes: 10,000, and fewer with more than five
    /// expressions and intervals.
    pub fn most_times(&self) -> usize {
        let patterns = self.cron.len() + self.every.len() + self.except.cron.len();
        MOST_TIMES.min(MOST_WORK / patterns.max(1)).max(1)
    }

    /// Refuses to compute more times than [`most_times`](Self::most_times).
    pub(crate) fn check_times(&self, count: usize) -> Result<(), Invalid> {
        let most = self.most_times();
        if count <= most {
            return Ok(());
        }
        let reason = format!(
            "{count} times are more than one preview of this schedule has; ask for at most {most}"
        );
        Err(Invalid::new("limit", reason))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::NewTask;

    fn with(crons: usize) -> Schedule {
        let new = Schedule::new(NewTask::new("k"));
        (0..crons).fold(new, |spec, n| spec.cron(format!("{} 2 * * *", n % 60)))
    }

    #[test]
    fn a_spec_has_bounds_that_are_checked_before_its_times_are_computed() {
        let now = Timestamp::UNIX_EPOCH;
        assert!(with(100).check("s", now).is_ok());
        let many = with(101);
        assert_eq!(many.check("s", now).unwrap_err().field(), "cron");
        assert_eq!(many.preview("s", now, 1).unwrap_err().field(), "cron");
        let at = (0..10_001).fold(with(0), |spec, n| {
            spec.at(Timestamp::from_second(n).unwrap())
        });
        assert_eq!(at.check("s", now).unwrap_err().field(), "at");
    }

    #[test]
    fn a_preview_has_fewer_times_the_more_expressions_there_are() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(with(5).most_times(), 10_000);
        assert_eq!(with(100).most_times(), 500);
        let refused = with(100).preview("s", now, 501).unwrap_err();
        assert_eq!(refused.field(), "limit");
        assert_eq!(with(100).preview("s", now, 50).unwrap().len(), 50);
    }
}
