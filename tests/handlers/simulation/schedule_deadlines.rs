//! Deadlines of the runs of schedules, in virtual time.

use std::time::Duration;

use windlass::{
    Client, StateKind,
    jiff::Timestamp,
    schedule::{Backfill, Schedule},
    store::Error,
};

use super::schedules::{HOUR, MINUTE, Test, at, of, runs, simulation};

/// A schedule with one time, 02:00.
fn at_two(kind: &str) -> Schedule {
    of(kind).at(at("2030-01-01T02:00:00Z"))
}

/// Returns the outcome of the time 02:00: the deadlines of its run, or `missed`.
async fn outcome(client: &Client) -> Result<String, windlass::BoxError> {
    let task = match client.get("s@2030-01-01T02:00:00Z").await {
        Ok(record) => record.task,
        Err(Error::NotFound { .. }) => {
            assert_eq!(client.schedules().get("s").await?.counts.missed, 1);
            return Ok("missed".to_owned());
        }
        Err(error) => return Err(error.into()),
    };
    let named = |name: &str, at: Option<Timestamp>| {
        at.map(|at| format!("`{name}` {}", at.strftime("%H:%M")))
    };
    let deadlines = [
        named("start_by", task.start_by),
        named("end_by", task.end_by),
    ];
    Ok(deadlines
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", "))
}

/// Each row of the second table of docs/reference/schedules.md is true.
#[tokio::test]
async fn the_page_of_schedules_shows_the_deadlines_of_runs() -> Test {
    let page = include_str!("../../../docs/reference/schedules.md");
    let (_, table) = page
        .split_once("| time | start within |")
        .ok_or("no table")?;
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, how, start, end, decided, expected, _] = cells.as_slice() else {
            return Err(format!("{row} has other columns").into());
        };
        let mut spec = at_two("endless");
        let minutes = |text: &str| {
            text.trim_matches('`')
                .strip_suffix('m')?
                .parse::<u32>()
                .ok()
        };
        if let Some(start) = minutes(start) {
            spec = spec.start_within(start * MINUTE);
        }
        if let Some(end) = minutes(end) {
            spec = spec.end_within(end * MINUTE);
        }
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let schedules = client.schedules();
        schedules.create("s", spec).await?;
        schedules.pause("s", None).await?;
        let (hour, minute) = decided.split_once(':').ok_or("no time")?;
        let passed = hour.parse::<u32>()? * HOUR + minute.parse::<u32>()? * MINUTE;
        simulation.advance(passed).await?;
        match *how {
            "02:00" => schedules.resume("s", true).await?,
            "02:00, backfilled" => {
                let two = at("2030-01-01T02:00:00Z");
                schedules.backfill("s", Backfill::new(two, two)).await?;
            }
            "02:00, triggered" => {
                let two = at("2030-01-01T02:00:00Z");
                schedules.trigger_for("s", two).await?;
            }
            other => return Err(format!("{other} is not known").into()),
        }
        simulation.advance(Duration::ZERO).await?;
        assert_eq!(outcome(&client).await?, *expected, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 8);
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_not_done_in_time_fails_and_pauses_the_schedule() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let spec = of("endless").cron("@hourly").end_within(30 * MINUTE);
    let spec = spec.pause_on_failure(true);
    client.schedules().create("s", spec).await?;
    simulation.advance(2 * HOUR).await?;
    assert_eq!(runs(&client, "s").await?, ["2030-01-01T00:00:00Z"]);
    let record = client.schedules().get("s").await?;
    assert_eq!(record.state, Some(StateKind::Paused));
    let says = "run 's@2030-01-01T00:00:00Z' failed";
    assert_eq!(record.note.as_deref(), Some(says));
    let run = client.schedules().last_run(&record).await?;
    let says = "did not end by 2030-01-01T00:30:00Z";
    assert_eq!(run.ok_or("no run")?.error.as_deref(), Some(says));
    Ok(())
}

/// A run that waits for the end of the earlier one does so until its deadline.
#[tokio::test]
async fn a_queued_run_fails_at_its_start() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let spec = of("endless").cron("@hourly").start_within(30 * MINUTE);
    let spec = spec.overlap(windlass::schedule::Overlap::QueueAll);
    client.schedules().create("s", spec).await?;
    simulation.advance(HOUR + 31 * MINUTE).await?;
    let state = |id: &'static str| {
        let client = client.clone();
        async move { client.get(id).await?.state }
    };
    assert_eq!(
        state("s@2030-01-01T00:00:00Z").await?.code(),
        StateKind::Sleeping
    );
    let queued = state("s@2030-01-01T01:00:00Z").await?;
    assert_eq!(queued.code(), StateKind::Failed);
    let error = &queued.errors.last().ok_or("an error")?.error;
    assert_eq!(error, "did not start by 2030-01-01T01:30:00Z");
    Ok(())
}

/// New deadlines apply to the times after the update.
#[tokio::test]
async fn an_update_changes_the_deadlines_of_later_runs() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = || of("report").cron("@hourly").offset(10 * MINUTE);
    schedules
        .create("s", spec().start_within(20 * MINUTE))
        .await?;
    simulation.advance(HOUR + MINUTE).await?;
    // 01:00 has passed and is due at 01:10.
    schedules.update("s", spec().end_within(HOUR)).await?;
    simulation.advance(2 * HOUR).await?;
    let one = client.get("s@2030-01-01T01:00:00Z").await?.task;
    assert_eq!(one.start_by, Some(at("2030-01-01T01:20:00Z")));
    assert_eq!(one.end_by, None);
    let two = client.get("s@2030-01-01T02:00:00Z").await?.task;
    assert_eq!(two.start_by, None);
    assert_eq!(two.end_by, Some(at("2030-01-01T03:00:00Z")));
    Ok(())
}
