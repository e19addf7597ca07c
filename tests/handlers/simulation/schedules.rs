//! Schedules in virtual time: from 2030-01-01T00:00:00Z on, a Tuesday.

use std::time::Duration;

use windlass::{
    BoxError, Client, Command, Message, NewTask, StateKind, TaskContext, TaskId, TaskState,
    TaskStatus,
    jiff::Timestamp,
    schedule::{Overlap, Schedule, Trigger},
    store::{Error, Filter, Page},
    testing::Simulation,
};

pub(crate) type Test = Result<(), BoxError>;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) async fn report(task: TaskContext) -> Message {
    let time = task.scheduled_for();
    Message::complete_with(time.map(|time| (time.nominal, time.due, time.is_late)))
}

/// Takes longer than any test.
async fn endless(_: TaskContext) -> Message {
    Message::sleep_for(1000 * DAY)
}

async fn broken(_: TaskContext) -> Message {
    Message::fail("disk full")
}

pub(crate) async fn simulation() -> Result<Simulation, BoxError> {
    let simulation = Simulation::builder()
        .handler("report", report)
        .handler("endless", endless)
        .handler("broken", broken);
    Ok(simulation.start().await?)
}

pub(crate) fn of(kind: &str) -> Schedule {
    Schedule::new(NewTask::new(kind))
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn names(ids: Vec<TaskId>) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// Brings a schedule with these props in as another store had it: a submit checks them.
pub(crate) async fn import_wrong(client: &Client, id: &str, props: &str) -> Test {
    let task = NewTask::new("k").id(id).label("team", "a");
    let task = client.submit(task.props_json(props)).await?.into_id();
    let transfer = client.store().transfer()?;
    let mut exported = transfer.export(std::slice::from_ref(&task)).await;
    let mut exported = exported.remove(0)?;
    exported.task.kind = "schedule".parse()?;
    client.delete(&task).await?;
    transfer.import(vec![exported]).await.remove(0)?;
    Ok(())
}

fn result_of(state: &TaskState) -> Option<String> {
    match &state.status {
        TaskStatus::Completed { result } => result.as_ref().map(|json| json.as_str().to_owned()),
        _ => None,
    }
}

/// The nominal times of the runs of a schedule, in the order of their submits.
pub(crate) async fn runs(client: &Client, schedule: &str) -> Result<Vec<String>, BoxError> {
    let filter = Filter::new().labels([("schedule".to_owned(), Some(schedule.to_owned()))]);
    let (after, limit) = (0, 1000);
    let records = client.list(&filter, Page::new(limit).after(after)).await?;
    let ids = records.iter().map(|record| record.task.id.as_str());
    let times = ids.filter_map(|id| id.strip_prefix(schedule)?.strip_prefix('@'));
    Ok(times.map(str::to_owned).collect())
}

#[tokio::test]
async fn a_schedule_runs_at_its_times_and_parks_between() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    client
        .schedules()
        .create("s", of("report").cron("30 2 * * *").offset(MINUTE))
        .await?;
    let before = simulation.writes();
    simulation.advance(3 * DAY).await?;
    let expected = [
        "2030-01-01T02:30:00Z",
        "2030-01-02T02:30:00Z",
        "2030-01-03T02:30:00Z",
    ];
    assert_eq!(runs(&client, "s").await?, expected);
    assert_eq!(
        simulation.writes() - before,
        6,
        "one of the schedule and one of the run for each"
    );
    let run = client.get("s@2030-01-02T02:30:00Z").await?.state?;
    let result = serde_json::to_string(&(expected[1], "2030-01-02T02:31:00Z", false))?;
    assert_eq!(result_of(&run), Some(result));
    let record = client.schedules().get("s").await?;
    assert_eq!((record.counts.fired, record.counts.late), (3, 0));
    assert_eq!(
        record.next.map(|time| time.nominal),
        Some(at("2030-01-04T02:30:00Z"))
    );
    Ok(())
}

#[tokio::test]
async fn a_crash_at_any_write_neither_loses_nor_repeats_a_time() -> Test {
    use windlass::testing::CrashPoint;
    for write in 1..=8 {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let mut simulation = simulation().await?;
            let client = simulation.client().clone();
            client
                .schedules()
                .create("s", of("report").cron("@hourly"))
                .await?;
            simulation.crash_at(point);
            simulation.advance(4 * HOUR + MINUTE).await?;
            let expected: Vec<_> = (0..5).map(|h| format!("2030-01-01T0{h}:00:00Z")).collect();
            assert_eq!(runs(&client, "s").await?, expected, "{point:?}");
            assert_eq!(
                client.schedules().get("s").await?.counts.fired,
                5,
                "{point:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_update_neither_fires_at_once_nor_loses_a_time() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules
        .create("s", of("report").cron("0 9 * * *").offset(10 * MINUTE))
        .await?;
    simulation.advance(9 * HOUR + 5 * MINUTE).await?;
    assert!(
        runs(&client, "s").await?.is_empty(),
        "09:00 is due at 09:10"
    );
    // The new spec has no times before the update; 09:00 is still a time of the old one.
    schedules
        .update("s", of("report").cron("0 8,9,12 * * *"))
        .await?;
    simulation.advance(Duration::ZERO).await?;
    assert_eq!(runs(&client, "s").await?, ["2030-01-01T09:00:00Z"]);
    let run = client.get("s@2030-01-01T09:00:00Z").await?;
    assert_eq!(run.state?.code(), StateKind::Sleeping, "until 09:10");
    simulation.advance(3 * HOUR).await?;
    assert_eq!(
        runs(&client, "s").await?,
        ["2030-01-01T09:00:00Z", "2030-01-01T12:00:00Z"]
    );
    // The same update again, and an invalid spec, change nothing.
    let wrong = schedules
        .update("s", of("report").cron("0 0 30 2 *"))
        .await
        .unwrap_err();
    assert!(
        matches!(&wrong, Error::Invalid(e) if e.field() == "cron"),
        "{wrong}"
    );
    for _ in 0..3 {
        schedules
            .update("s", of("report").cron("0 8,9,12 * * *"))
            .await?;
    }
    simulation.advance(20 * HOUR).await?;
    assert_eq!(runs(&client, "s").await?.len(), 3, "08:00 of the next day");
    Ok(())
}

/// A task that sleeps for a moment keeps its claim, and no client may change a claimed task.
#[tokio::test]
async fn a_schedule_of_seconds_can_be_changed_between_two_times() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = of("report").every(Duration::from_secs(2), None);
    schedules.create("s", spec.clone()).await?;
    simulation.advance(Duration::from_secs(5)).await?;
    schedules.update("s", spec.count(4)).await?;
    schedules.trigger("s").await?;
    simulation.advance(MINUTE).await?;
    assert_eq!(
        runs(&client, "s").await?.len(),
        5,
        "four by time, and the triggered one"
    );
    assert_eq!(client.get("s").await?.state?.code(), StateKind::Completed);
    Ok(())
}

#[tokio::test]
async fn one_schedule_that_is_wrong_does_not_stop_others() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let wrong = r#"{"run":{"kind":"report"},"cron":["0 0 30 2 *"]}"#;
    import_wrong(&client, "wrong", wrong).await?;
    import_wrong(&client, "odd", r#"{"corn":1}"#).await?;
    client
        .schedules()
        .create("right", of("report").cron("@hourly"))
        .await?;
    simulation.advance(2 * HOUR).await?;
    assert_eq!(runs(&client, "right").await?.len(), 3);
    let state = client.get("wrong").await?.state?;
    assert_eq!(state.code(), StateKind::Failed);
    let error = &state.errors.last().ok_or("no error")?.error;
    assert!(
        error.starts_with("the schedule is wrong: cron: '0 0 30 2 *' never comes"),
        "{error}"
    );
    assert_eq!(client.get("odd").await?.state?.code(), StateKind::Failed);
    Ok(())
}

#[tokio::test]
async fn a_trigger_for_an_existing_time_makes_no_second_run() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules
        .create("s", of("report").cron("0 1 * * *"))
        .await?;
    // Before its time comes, and after.
    let time = at("2030-01-01T01:00:00Z");
    let early = schedules.trigger_for("s", time).await?;
    simulation.advance(HOUR).await?;
    assert_eq!(schedules.trigger_for("s", time).await?, early);
    assert_eq!(runs(&client, "s").await?, ["2030-01-01T01:00:00Z"]);
    let now = schedules.trigger("s").await?;
    assert_eq!(
        now.as_str(),
        "s@2030-01-01T01:00:00.001Z",
        "the present has a run"
    );
    simulation.advance(MINUTE).await?;
    schedules.trigger("s").await?;
    assert_eq!(runs(&client, "s").await?.len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_triggered_run_is_claimed_before_those_that_wait() -> Test {
    let simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let run = NewTask::new("report").priority(7);
    schedules
        .create("s", Schedule::new(run).cron("0 1 * * *"))
        .await?;
    let priority = async |id: &TaskId| Ok::<_, BoxError>(client.get(id).await?.task.priority);
    let first = schedules.trigger("s").await?;
    assert_eq!(priority(&first).await?, 8);
    let past = Trigger::new().nominal(at("2020-05-01T00:00:00Z"));
    let run = schedules.trigger_with("s", past.priority(-1)).await?;
    assert_eq!(run.as_str(), "s@2020-05-01T00:00:00Z");
    assert_eq!(priority(&run).await?, -1);
    let again = schedules.trigger_with("s", past).await;
    assert!(
        matches!(again, Err(Error::AlreadyExists { .. })),
        "{again:?}"
    );
    Ok(())
}

#[tokio::test]
async fn each_overlap_policy_meets_a_run_that_does_not_end() -> Test {
    for (overlap, live, all) in [
        (Overlap::Skip, 1, 1),
        (Overlap::Allow(2), 2, 2),
        (Overlap::QueueOne, 2, 2),
        (Overlap::QueueAll, 4, 4),
        (Overlap::Kill, 1, 4),
        (Overlap::Cancel, 1, 4),
        (Overlap::Pause, 4, 4),
    ] {
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let spec = of("endless").cron("@hourly").overlap(overlap);
        client.schedules().create("s", spec).await?;
        simulation.advance(3 * HOUR + MINUTE).await?;
        let id = "s".parse()?;
        assert_eq!(
            client.schedules().live_runs(&id).await?.len(),
            live,
            "{overlap:?}"
        );
        assert_eq!(runs(&client, "s").await?.len(), all, "{overlap:?}");
    }
    Ok(())
}

#[tokio::test]
async fn queued_runs_start_one_after_the_other() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let spec = of("endless").cron("@hourly").overlap(Overlap::QueueAll);
    client.schedules().create("s", spec).await?;
    simulation.advance(2 * HOUR + MINUTE).await?;
    let ids: Vec<_> = (0..3)
        .map(|hour| format!("s@2030-01-01T0{hour}:00:00Z"))
        .collect();
    for (at, id) in ids.iter().enumerate() {
        let waiting = ids[at..].len() - 1;
        let mut waits = 0;
        for other in &ids {
            waits += usize::from(client.get(other).await?.state?.is_waiting());
        }
        assert_eq!(waits, waiting, "{id}");
        client
            .command(id, Command::Complete { result: None })
            .await?;
        simulation.advance(Duration::from_secs(1)).await?;
        assert_eq!(client.get(id).await?.state?.code(), StateKind::Completed);
    }
    Ok(())
}

/// The end of a waiting run in the middle, or of a triggered one, does not start those behind it.
#[tokio::test]
async fn a_queued_run_waits_for_all_runs_that_are_live() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let spec = of("endless").cron("@hourly").overlap(Overlap::QueueAll);
    client.schedules().create("s", spec).await?;
    simulation.advance(2 * HOUR + MINUTE).await?;
    let triggered = client.schedules().trigger("s").await?;
    simulation.advance(2 * HOUR).await?;
    let ids: Vec<_> = (0..5)
        .map(|hour| format!("s@2030-01-01T0{hour}:00:00Z"))
        .collect();
    client.command(&ids[1], Command::Kill).await?;
    client.command(&triggered, Command::Kill).await?;
    simulation.advance(MINUTE).await?;
    client.force_delete(&ids[3]).await?;
    simulation.advance(MINUTE).await?;
    for id in [&ids[2], &ids[4]] {
        assert!(client.get(id).await?.state?.is_waiting(), "{id}");
    }
    client
        .command(&ids[0], Command::Complete { result: None })
        .await?;
    simulation.advance(MINUTE).await?;
    assert!(!client.get(&ids[2]).await?.state?.is_waiting());
    assert!(client.get(&ids[4]).await?.state?.is_waiting());
    Ok(())
}

/// The code computes the times of the table of docs/reference/schedules.md.
#[test]
fn the_page_of_schedules_shows_the_times_that_come() -> Test {
    let page = include_str!("../../../docs/reference/schedules.md");
    let rows = page.lines().filter(|line| line.contains("Z |"));
    let mut checked = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, cron, zone, after, next, _] = cells.as_slice() else {
            return Err(format!("{row} has other columns").into());
        };
        let spec = of("report").cron(cron.trim_matches('`')).zone(*zone);
        let times = spec.preview("s", at(after), 2)?;
        let times: Vec<_> = times.iter().map(|time| time.nominal.to_string()).collect();
        assert_eq!(times.join(", "), *next, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 15);
    Ok(())
}
