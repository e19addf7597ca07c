//! The methods of [`Schedule`] that add times, and remove some.

use std::time::Duration;

use jiff::{Timestamp, civil::Date};

use super::Schedule;
use crate::schedule::{clause::Every, interval::Interval};

impl Schedule {
    /// Adds the times of a cron expression: 5 fields, 6 with the second first, 7 with the second first and the year last,
    /// or a name as `@daily`. `@every 15m` is an interval as [`every`](Self::every), and `@reboot` each start of a
    /// machine on which a node runs schedules (Linux only).
    pub fn cron(mut self, expression: impl Into<String>) -> Self {
        self.cron.push(expression.into());
        self
    }

    /// Adds times at equal distances in elapsed time, independent of the clocks of the zone. One of them
    /// is the `anchor`, 1970-01-01T00:00:00Z by default.
    pub fn every(mut self, interval: Duration, anchor: impl Into<Option<Timestamp>>) -> Self {
        self.every.push(Every {
            interval: Interval::Fixed(interval.into()),
            anchor: anchor.into(),
        });
        self
    }

    /// Adds times that are 1 to 1,200 months of the calendar of the zone apart. One of them is the `anchor`, whose local
    /// time the others have; by default it is midnight of 1970-01-01, local time. Each is counted from the anchor: the
    /// 31st is the last day of shorter months, and the 31st again in longer ones.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{NewTask, schedule::Schedule};
    ///
    /// let last_day = "2030-01-31T06:00:00Z".parse::<windlass::jiff::Timestamp>()?;
    /// let invoice = Schedule::new(NewTask::new("invoice")).every_months(1, last_day);
    /// let next = invoice.preview("invoice", last_day, 2)?;
    /// assert_eq!(next[0].nominal.to_string(), "2030-02-28T06:00:00Z");
    /// assert_eq!(next[1].nominal.to_string(), "2030-03-31T06:00:00Z");
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn every_months(mut self, months: u32, anchor: impl Into<Option<Timestamp>>) -> Self {
        self.every.push(Every {
            interval: Interval::Months(i32::try_from(months).unwrap_or(i32::MAX)),
            anchor: anchor.into(),
        });
        self
    }

    /// Adds one time.
    pub fn at(mut self, time: Timestamp) -> Self {
        self.at.push(time);
        self
    }

    /// Removes the times of a cron expression.
    pub fn except_cron(mut self, expression: impl Into<String>) -> Self {
        self.except.cron.push(expression.into());
        self
    }

    /// Removes one time.
    pub fn except_at(mut self, time: Timestamp) -> Self {
        self.except.at.push(time);
        self
    }

    /// Removes the times of a day, in the zone of the schedule.
    pub fn except_date(mut self, date: Date) -> Self {
        self.except.dates.push(date);
        self
    }
}
