//! Each nominal time counts once, whatever an operator does before it is decided, in virtual time.

use std::{sync::Arc, time::Duration};

use windlass::{
    Client, Command, Message, Runner, StateKind, TaskContext,
    schedule::{Backfill, Counts, Missed, Overlap, Schedule, Why},
    store::Store,
    testing::{CrashPoint, TokioClock},
};

use super::schedules::{HOUR, MINUTE, Test, at, of, runs, simulation};

/// A schedule that makes up for every time.
fn all(kind: &str) -> Schedule {
    of(kind)
        .missed(Missed::All, 100 * HOUR)
        .overlap(Overlap::Allow(99))
}

/// How many times were decided.
fn decided(counts: Counts) -> u64 {
    counts.fired + counts.skipped + counts.missed + counts.overlapped + counts.refused
}

async fn hours(client: &Client) -> Result<Vec<String>, windlass::BoxError> {
    let runs = runs(client, "s").await?;
    Ok(runs.iter().map(|at| at[11..16].to_owned()).collect())
}

#[tokio::test]
async fn an_update_of_a_paused_schedule_loses_no_time() -> Test {
    for catch_up in [true, false] {
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let schedules = client.schedules();
        schedules.create("s", all("report").cron("@hourly")).await?;
        simulation.advance(MINUTE).await?;
        schedules.skip("s", at("2030-01-01T02:00:00Z")).await?;
        schedules.pause("s", None).await?;
        simulation.advance(2 * HOUR).await?;
        // Several updates with the same times: another handler, another delay.
        for spec in [all("endless"), all("report"), all("report").offset(MINUTE)] {
            schedules.update("s", spec.cron("@hourly")).await?;
            simulation.advance(30 * MINUTE).await?;
        }
        assert_eq!(hours(&client).await?, ["00:00"], "it is paused");
        assert_eq!(decided(schedules.get("s").await?.counts), 1);
        simulation.advance(30 * MINUTE).await?;
        schedules.resume("s", catch_up).await?;
        simulation.advance(HOUR).await?;
        let counts = schedules.get("s").await?.counts;
        assert_eq!(decided(counts), 6, "00:00 to 05:00: {counts:?}");
        let (ran, skipped) = match catch_up {
            true => (&["00:00", "01:00", "03:00", "04:00", "05:00"][..], 1),
            false => (&["00:00", "05:00"][..], 4),
        };
        assert_eq!(hours(&client).await?, ran);
        assert_eq!(counts.skipped, skipped);
    }
    Ok(())
}

#[tokio::test]
async fn an_update_to_other_times_counts_those_of_a_pause_as_skipped() -> Test {
    for catch_up in [true, false] {
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let schedules = client.schedules();
        // It is paused before its first time, which its start delays.
        let spec = all("report").cron("@hourly").offset(10 * MINUTE);
        let start = at("2030-01-01T01:00:00Z");
        schedules.create("s", spec.start(start)).await?;
        schedules.skip("s", at("2030-01-01T02:00:00Z")).await?;
        schedules.pause("s", None).await?;
        // 03:00 is due at 03:10.
        simulation.advance(3 * HOUR + 5 * MINUTE).await?;
        schedules
            .update("s", all("report").cron("30 * * * *"))
            .await?;
        let record = schedules.get("s").await?;
        assert_eq!((record.counts.skipped, decided(record.counts)), (3, 3));
        simulation.advance(HOUR).await?;
        schedules
            .update("s", all("report").cron("45 * * * *"))
            .await?;
        // 03:30 is one of the second spec, 04:45 one of the third.
        simulation.advance(HOUR).await?;
        let record = schedules.get("s").await?;
        assert_eq!(record.state, Some(StateKind::Paused));
        assert_eq!((record.counts.skipped, decided(record.counts)), (4, 4));
        let left_out: Vec<_> = record.left_out.iter().map(|e| (e.why, e.times)).collect();
        assert_eq!(left_out, [(Why::Skipped, 4)]);
        assert!(hours(&client).await?.is_empty(), "it is paused");
        schedules.resume("s", catch_up).await?;
        simulation.advance(HOUR).await?;
        let counts = schedules.get("s").await?.counts;
        assert_eq!(decided(counts), 6, "04:45 and 05:45: {counts:?}");
        match catch_up {
            true => assert_eq!(hours(&client).await?, ["04:45", "05:45"]),
            false => assert_eq!(hours(&client).await?, ["05:45"]),
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_update_of_a_schedule_that_a_failure_has_paused_loses_no_time() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = |kind| all(kind).cron("@hourly").pause_on_failure(true);
    schedules.create("s", spec("broken")).await?;
    simulation.advance(3 * HOUR + MINUTE).await?;
    let record = schedules.get("s").await?;
    assert_eq!(record.state, Some(StateKind::Paused));
    schedules.update("s", spec("report")).await?;
    assert!(schedules.get("s").await?.note.is_some(), "the reason stays");
    schedules.resume("s", true).await?;
    simulation.advance(MINUTE).await?;
    assert_eq!(hours(&client).await?, ["00:00", "01:00", "02:00", "03:00"]);
    let counts = schedules.get("s").await?.counts;
    assert_eq!((counts.fired, decided(counts)), (4, 4));
    Ok(())
}

#[tokio::test]
async fn a_resume_loses_no_time_that_is_due_later() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = of("report").cron("@hourly").offset(10 * MINUTE);
    schedules.create("s", spec).await?;
    schedules.pause("s", None).await?;
    simulation.advance(2 * HOUR + 5 * MINUTE).await?;
    schedules.resume("s", false).await?;
    simulation.advance(5 * MINUTE).await?;
    assert_eq!(hours(&client).await?, ["02:00"], "it is due at 02:10");
    let counts = schedules.get("s").await?.counts;
    assert_eq!((counts.fired, counts.skipped), (1, 2));
    Ok(())
}

#[tokio::test]
async fn a_pause_of_very_many_times_counts_each_of_them() -> Test {
    let second = Duration::from_secs(1);
    for is_updated in [true, false] {
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let schedules = client.schedules();
        let start = at("2030-01-01T00:00:01Z");
        let spec = of("report").every(second, None).start(start);
        schedules.create("s", spec).await?;
        schedules.pause("s", None).await?;
        simulation.advance(25_000 * second).await?;
        match is_updated {
            true => schedules.update("s", of("report").cron("@daily")).await?,
            false => schedules.resume("s", false).await?,
        }
        assert_eq!(schedules.get("s").await?.counts.skipped, 25_000);
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_schedule_has_no_times_until_an_update() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules.create("s", all("report").cron("@hourly")).await?;
    simulation.advance(MINUTE).await?;
    client.command("s", Command::Kill).await?;
    simulation.advance(3 * HOUR).await?;
    schedules.update("s", all("report").cron("@hourly")).await?;
    simulation.advance(HOUR).await?;
    assert_eq!(hours(&client).await?, ["00:00", "04:00"]);
    let record = schedules.get("s").await?;
    assert_eq!((decided(record.counts), record.left_out.len()), (2, 0));
    Ok(())
}

#[tokio::test]
async fn a_backfill_of_an_undecided_time_counts_once() -> Test {
    for overlap in [Overlap::Allow(99), Overlap::Skip, Overlap::Kill] {
        let mut simulation = simulation().await?;
        let client = simulation.client().clone();
        let schedules = client.schedules();
        let spec = all("endless").cron("@hourly").overlap(overlap);
        let spec = spec.offset(10 * MINUTE);
        schedules.create("s", spec).await?;
        schedules.pause("s", None).await?;
        // 00:00 to 04:00 are not decided, nor is 05:00, which is due at 05:10.
        simulation.advance(5 * HOUR + 5 * MINUTE).await?;
        let range = Backfill::new(at("2030-01-01T00:00:00Z"), at("2030-01-01T05:00:00Z"));
        assert_eq!(schedules.backfill("s", range).await?.len(), 6);
        schedules.resume("s", true).await?;
        simulation.advance(10 * MINUTE).await?;
        let record = schedules.get("s").await?;
        let counts = record.counts;
        assert_eq!((counts.requested, decided(counts)), (6, 0), "{overlap:?}");
        assert_eq!(record.last, Some(at("2030-01-01T05:00:00Z")));
        assert_eq!(hours(&client).await?.len(), 6);
        for run in client.schedules().live_runs(&record.id).await? {
            let state = client.get(&run).await?.state?;
            assert_eq!(state.code(), StateKind::Sleeping, "no run ends itself");
        }
        assert_eq!(record.left_out, [], "{overlap:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_update_after_a_backfill_counts_its_times_once() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = of("report").cron("@hourly").offset(10 * MINUTE);
    schedules.create("s", spec.clone()).await?;
    simulation.advance(5 * MINUTE).await?;
    let midnight = at("2030-01-01T00:00:00Z");
    let range = Backfill::new(midnight, midnight);
    assert_eq!(schedules.backfill("s", range).await?.len(), 1);
    schedules.update("s", spec).await?;
    simulation.advance(HOUR + 10 * MINUTE).await?;
    assert_eq!(hours(&client).await?, ["00:00", "01:00"]);
    let counts = schedules.get("s").await?.counts;
    assert_eq!((counts.requested, counts.fired, decided(counts)), (1, 1, 1));
    Ok(())
}

#[tokio::test]
async fn a_crash_between_a_backfill_and_its_time_counts_it_once() -> Test {
    for write in 1..=4 {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let mut simulation = simulation().await?;
            let client = simulation.client().clone();
            let schedules = client.schedules();
            let spec = of("report").cron("@hourly").offset(10 * MINUTE);
            schedules.create("s", spec).await?;
            simulation.advance(5 * MINUTE).await?;
            let midnight = at("2030-01-01T00:00:00Z");
            let range = Backfill::new(midnight, midnight);
            schedules.backfill("s", range).await?;
            simulation.crash_at(point);
            simulation.advance(HOUR + 10 * MINUTE).await?;
            assert_eq!(hours(&client).await?, ["00:00", "01:00"], "{point:?}");
            let counts = schedules.get("s").await?.counts;
            assert_eq!((counts.requested, counts.fired), (1, 1), "{point:?}");
            assert_eq!(decided(counts), 1, "{point:?}");
        }
    }
    Ok(())
}

/// No node runs when the times are due, so the update decides them first.
#[tokio::test(start_paused = true)]
async fn an_update_that_meets_a_failed_run_leaves_the_pause_to_a_node() -> Test {
    let clock = Arc::new(TokioClock::new(at("2030-01-01T00:00:00Z")));
    let store = Store::open_with_clock("memory:", clock).await?;
    let client = Client::new(&store);
    let schedules = client.schedules();
    let node = || {
        let node = Runner::builder(&store).handler("broken", |_: TaskContext| async {
            Message::fail("disk full")
        });
        node.start()
    };
    let spec = all("broken").cron("@hourly").pause_on_failure(true);
    schedules.create("s", spec.clone()).await?;
    let first = node().await?;
    tokio::time::sleep(MINUTE).await;
    first.shutdown().await;
    tokio::time::sleep(3 * HOUR).await;
    schedules.update("s", spec).await?;
    assert_eq!(
        hours(&client).await?,
        ["00:00"],
        "the run of 00:00 has failed"
    );
    let second = node().await?;
    tokio::time::sleep(MINUTE).await;
    let record = schedules.get("s").await?;
    assert_eq!(record.state, Some(StateKind::Paused));
    assert_eq!(hours(&client).await?, ["00:00"]);
    assert_eq!(
        decided(record.counts),
        1,
        "01:00 to 03:00 wait for the resume"
    );
    second.shutdown().await;
    Ok(())
}
