//! A run for the start of a machine.

use jiff::{Timestamp, ToSpan};
use windlass_statemachine::{Invalid, StateKind, TaskId};

use super::{
    Schedules,
    change::{Change, PAUSE, Read, TRIES, busy},
    runs::Found,
};
use crate::{
    schedule::{
        boot::Boot,
        left_out::{LeftOut, Why},
        run::run_id,
    },
    store::Error,
};

/// How many starts of machines a schedule remembers.
const REMEMBERED: usize = 200;

impl Schedules {
    /// Lets a schedule with `@reboot` decide the start of a machine. A start that it has decided, that was before the
    /// schedule or is outside of its bounds changes nothing. A paused schedule leaves it out.
    pub(crate) async fn boot(&self, id: &TaskId, boot: &Boot) -> Result<(), Error> {
        for _ in 0..TRIES {
            let read = self.read(id.clone()).await?;
            if !is_wanted(&read, boot) {
                return Ok(());
            }
            let nominal = self.free_time(id, boot.at).await?;
            let mut change = Change::from(read.data.clone());
            let data = &mut change.data;
            data.booted.push(boot.id.clone());
            let forgotten = data.booted.len().saturating_sub(REMEMBERED);
            data.booted.drain(..forgotten);
            if read.code == StateKind::Paused {
                data.leave_out(LeftOut::one(nominal, Why::Skipped));
            } else {
                data.boots.push(nominal);
                change.due = Some(self.now());
            }
            if self.write(&read, change).await?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(busy(id))
    }

    /// Returns the time of a start, or the first millisecond after it whose run is not there: two machines may start at
    /// the same second.
    async fn free_time(&self, id: &TaskId, at: Timestamp) -> Result<Timestamp, Error> {
        let mut nominal = at;
        while !matches!(
            self.found(id, &run_id(id.as_str(), nominal)?).await?,
            Found::Nothing
        ) {
            let later = nominal.checked_add(1.millisecond());
            nominal = later.map_err(|e| Invalid::new("time", e.to_string()))?;
        }
        Ok(nominal)
    }
}

fn is_wanted(read: &Read, boot: &Boot) -> bool {
    let spec = read.times.spec();
    let from = spec.since.max(spec.start);
    read.times.at_boot()
        && !read.data.booted.contains(&boot.id)
        && from.is_none_or(|from| boot.at >= from)
        && spec.end.is_none_or(|end| boot.at <= end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        BoxError, Message, NewTask, TaskContext,
        schedule::{Overlap, Schedule},
        store::{Filter, Page},
        testing::Simulation,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn boot(id: &str, at: Timestamp) -> Boot {
        let id = id.to_owned();
        Boot { id, at }
    }

    async fn runs(simulation: &Simulation) -> Result<Vec<String>, BoxError> {
        let filter = Filter::new().labels([("schedule".to_owned(), None)]);
        let records = simulation.client().list(&filter, Page::new(100)).await?;
        Ok(records
            .into_iter()
            .map(|record| record.task.id.to_string())
            .collect())
    }

    async fn stay(_: TaskContext) -> Message {
        Message::sleep_for(1000 * 3600 * SECOND)
    }

    #[tokio::test]
    async fn each_start_of_a_machine_submits_one_run() -> Result<(), BoxError> {
        let builder =
            Simulation::builder().handler("k", async |_: TaskContext| Message::complete());
        let mut simulation = builder.handler("stay", stay).start().await?;
        let schedules = simulation.client().schedules();
        let created = schedules.now();
        let spec = Schedule::new(NewTask::new("k")).cron("@reboot");
        let id = schedules.create("s", spec).await?;
        simulation.advance(3600 * SECOND).await?;
        let at: Timestamp = "2030-01-01T00:30:00Z".parse()?;
        // The machine on which it was created had started before.
        schedules
            .boot(&id, &boot("before", created - 1.second()))
            .await?;
        for _ in 0..2 {
            schedules.boot(&id, &boot("one", at)).await?;
            simulation.advance(SECOND).await?;
        }
        assert_eq!(runs(&simulation).await?, ["s@2030-01-01T00:30:00Z"]);
        // Another machine at the same second.
        schedules.boot(&id, &boot("two", at)).await?;
        simulation.advance(SECOND).await?;
        let both = ["s@2030-01-01T00:30:00Z", "s@2030-01-01T00:30:00.001Z"];
        assert_eq!(runs(&simulation).await?, both);
        let read = schedules.get("s").await?;
        assert_eq!(
            (read.counts.fired, read.state),
            (2, Some(StateKind::Sleeping))
        );

        schedules.pause("s", None).await?;
        simulation.advance(SECOND).await?;
        schedules.boot(&id, &boot("three", at)).await?;
        schedules.resume("s", true).await?;
        simulation.advance(SECOND).await?;
        assert_eq!(runs(&simulation).await?.len(), 2);
        assert_eq!(schedules.get("s").await?.counts.skipped, 1);
        Ok(())
    }

    #[tokio::test]
    async fn a_start_beside_other_times_follows_the_policy_and_loses_none() -> Result<(), BoxError>
    {
        let mut simulation = Simulation::builder().handler("stay", stay).start().await?;
        let schedules = simulation.client().schedules();
        let spec = Schedule::new(NewTask::new("stay"))
            .cron("@reboot")
            .cron("0 * * * *")
            .offset(600 * SECOND);
        let id = schedules.create("s", spec.clone()).await?;
        // At 01:05 the time 01:00 is not due yet.
        simulation.advance(3900 * SECOND).await?;
        let at: Timestamp = "2030-01-01T01:04:00Z".parse()?;
        let before = schedules.get("s").await?.counts;
        schedules.boot(&id, &boot("one", at)).await?;
        simulation.advance(SECOND).await?;
        let counts = schedules.get("s").await?.counts;
        // The run of 00:00 is live.
        assert_eq!(
            (counts.fired, counts.overlapped),
            (before.fired, before.overlapped + 1)
        );
        schedules
            .update("s", spec.overlap(Overlap::Allow(9)))
            .await?;
        simulation.advance(120 * SECOND).await?;
        let at: Timestamp = "2030-01-01T01:06:00Z".parse()?;
        schedules.boot(&id, &boot("two", at)).await?;
        simulation.advance(3600 * SECOND).await?;
        let runs = runs(&simulation).await?;
        for time in ["01:00:00Z", "01:06:00Z"] {
            assert!(runs.contains(&format!("s@2030-01-01T{time}")), "{runs:?}");
        }
        Ok(())
    }
}
