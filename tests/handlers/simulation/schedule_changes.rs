//! Changes of schedules, and triggered runs, in virtual time.

use std::time::Duration;

use windlass::{
    Command, NewTask, Note, StateKind, TaskId,
    schedule::{Backfill, LiveRuns, Missed, Overlap, Why},
    store::Error,
    testing::Simulation,
};

use super::schedules::{HOUR, MINUTE, Test, at, names, of, report, runs, simulation};

#[tokio::test]
async fn a_paused_schedule_shows_its_note_and_skips_what_passes() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules.create("s", of("report").cron("@hourly")).await?;
    simulation.advance(MINUTE).await?;
    schedules
        .pause("s", Some("the disk is replaced".to_owned()))
        .await?;
    simulation.advance(5 * HOUR).await?;
    let record = schedules.get("s").await?;
    assert_eq!(record.note.as_deref(), Some("the disk is replaced"));
    assert!(record.next.is_none());
    schedules.resume("s", false).await?;
    simulation.advance(HOUR).await?;
    assert_eq!(
        runs(&client, "s").await?,
        ["2030-01-01T00:00:00Z", "2030-01-01T06:00:00Z"]
    );
    let record = schedules.get("s").await?;
    assert_eq!((record.counts.fired, record.counts.skipped), (2, 5));
    let [passed] = &record.left_out[..] else {
        panic!("{:?}", record.left_out)
    };
    assert_eq!((passed.why, passed.times), (Why::Skipped, 5));
    assert_eq!(
        (passed.first, passed.last),
        (at("2030-01-01T01:00:00Z"), at("2030-01-01T05:00:00Z"))
    );
    let last = record.last_run_id().ok_or("it has run")?;
    assert_eq!(last.as_str(), "s@2030-01-01T06:00:00Z");
    let error = schedules.resume("s", false).await.unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "state"),
        "{error}"
    );
    Ok(())
}

/// Regression: a second pause changed the note of the schedule alone or that of its task alone.
#[tokio::test]
async fn a_paused_schedule_has_the_note_of_its_last_pause() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules.create("s", of("report").cron("@hourly")).await?;
    simulation.advance(MINUTE).await?;
    let note = |text: &str| Note::new(text.to_owned());
    for (by_command, text) in [(false, "disk A"), (false, "disk B"), (true, "disk C")] {
        match by_command {
            true => {
                let noted = client.clone().with_note(Some(note(text)?));
                noted.command("s", Command::Pause).await?;
            }
            false => schedules.pause("s", Some(text.to_owned())).await?,
        }
        simulation.advance(MINUTE).await?;
        let shown = schedules.get("s").await?.note;
        assert_eq!(shown.as_deref(), Some(text));
        let state = client.get("s").await?.state?;
        let paused = state.paused.ok_or("it is paused")?;
        assert_eq!(paused.note, Some(note(text)?));
    }
    Ok(())
}

#[tokio::test]
async fn a_resumed_schedule_can_make_up_for_what_passed() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = of("report")
        .cron("@hourly")
        .missed(Missed::All, 3 * HOUR)
        .overlap(Overlap::Allow(9));
    schedules.create("s", spec).await?;
    schedules.pause("s", None).await?;
    simulation.advance(5 * HOUR + 30 * MINUTE).await?;
    schedules.resume("s", true).await?;
    simulation.advance(MINUTE).await?;
    let expected = [
        "2030-01-01T03:00:00Z",
        "2030-01-01T04:00:00Z",
        "2030-01-01T05:00:00Z",
    ];
    assert_eq!(runs(&client, "s").await?, expected);
    let record = schedules.get("s").await?;
    assert_eq!((record.counts.late, record.counts.missed), (3, 3));
    let missed: Vec<_> = record.left_out.iter().map(|e| (e.why, e.times)).collect();
    assert_eq!(missed, [(Why::Missed, 3)]);
    let result = client.get("s@2030-01-01T04:00:00Z").await?.task;
    assert_eq!(result.labels["schedule-late"], "true");
    Ok(())
}

/// A copy gives the command that has resumed a schedule another queue position. The schedule took it for a new one, and skipped
/// the times that had come during the move.
#[tokio::test]
async fn a_schedule_that_was_resumed_makes_up_for_the_times_of_a_move() -> Test {
    let mut first = simulation().await?;
    let schedules = first.client().clone().schedules();
    let spec = of("report")
        .cron("@hourly")
        .missed(Missed::All, 9 * HOUR)
        .overlap(Overlap::Allow(9));
    schedules.create("s", spec).await?;
    first.advance(MINUTE).await?;
    schedules.pause("s", None).await?;
    first.advance(2 * HOUR).await?;
    schedules.resume("s", false).await?;
    first.advance(HOUR).await?;
    let before = schedules.get("s").await?.counts;
    assert_eq!((before.fired, before.skipped), (2, 2));
    let id = "s".parse::<TaskId>()?;
    let sent = first.client().store().transfer()?.export(&[id]).await;

    let second = Simulation::builder().handler("report", report);
    let mut second = second.start_at(first.now() + 3 * HOUR).start().await?;
    let client = second.client().clone();
    // The orders of the other store are greater.
    for _ in 0..50 {
        client.submit(NewTask::new("other").paused()).await?;
    }
    let sent: Result<Vec<_>, _> = sent.into_iter().collect();
    for imported in client.store().transfer()?.import(sent?).await {
        imported?;
    }
    second.advance(MINUTE).await?;
    let after = client.schedules().get("s").await?.counts;
    assert_eq!((after.fired, after.skipped), (5, 2));
    // A later pause is a pause.
    client.schedules().pause("s", None).await?;
    second.advance(2 * HOUR).await?;
    client.command("s", Command::Run).await?;
    second.advance(MINUTE).await?;
    let after = client.schedules().get("s").await?.counts;
    assert_eq!((after.fired, after.skipped), (5, 4));
    Ok(())
}

#[tokio::test]
async fn a_failed_run_pauses_the_schedule_with_the_reason() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules
        .create("s", of("broken").cron("@hourly").pause_on_failure(true))
        .await?;
    simulation.advance(5 * HOUR).await?;
    assert_eq!(runs(&client, "s").await?, ["2030-01-01T00:00:00Z"]);
    let record = schedules.get("s").await?;
    assert_eq!(record.state, Some(StateKind::Paused));
    assert_eq!(
        record.note.as_deref(),
        Some("run 's@2030-01-01T00:00:00Z' failed")
    );
    let run = schedules.last_run(&record).await?.ok_or("no run")?;
    assert_eq!(run.error.as_deref(), Some("disk full"));
    schedules.resume("s", false).await?;
    simulation.advance(HOUR).await?;
    assert_eq!(
        runs(&client, "s").await?.len(),
        2,
        "it goes on until the next failure"
    );
    Ok(())
}

#[tokio::test]
async fn a_time_can_be_skipped_and_a_range_backfilled() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules.create("s", of("report").cron("@hourly")).await?;
    schedules.skip("s", at("2030-01-01T01:00:00Z")).await?;
    let error = schedules
        .skip("s", at("2030-01-01T01:30:00Z"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "time"),
        "{error}"
    );
    let next = schedules.preview("s", 2).await?;
    assert_eq!(
        next[1].nominal,
        at("2030-01-01T02:00:00Z"),
        "not the skipped one"
    );
    simulation.advance(2 * HOUR).await?;
    assert_eq!(
        runs(&client, "s").await?,
        ["2030-01-01T00:00:00Z", "2030-01-01T02:00:00Z"]
    );

    let range = Backfill::new(at("2029-12-31T23:00:00Z"), at("2030-01-01T02:00:00Z"));
    let missing = ["s@2029-12-31T23:00:00Z", "s@2030-01-01T01:00:00Z"];
    assert_eq!(
        names(schedules.backfill("s", range.dry_run(true)).await?),
        missing
    );
    assert_eq!(
        runs(&client, "s").await?.len(),
        2,
        "a dry run submits nothing"
    );
    assert_eq!(names(schedules.backfill("s", range).await?), missing);
    let last = schedules.get("s").await?.last_run;
    assert_eq!(
        last,
        Some(at("2030-01-01T02:00:00Z")),
        "the backfilled times are earlier"
    );
    simulation.advance(Duration::ZERO).await?;
    assert!(schedules.backfill("s", range).await?.is_empty());
    assert_eq!(schedules.backfill("s", range.all(true)).await?.len(), 4);
    let error = schedules.backfill(
        "s",
        Backfill::new(at("2030-01-01T02:00:00Z"), at("2030-01-01T01:00:00Z")),
    );
    assert!(matches!(&error.await.unwrap_err(), Error::Invalid(e) if e.field() == "to"));
    Ok(())
}

#[tokio::test]
async fn a_count_ends_a_schedule_and_a_delete_can_end_its_runs() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    schedules
        .create("twice", of("report").cron("@hourly").count(2))
        .await?;
    schedules
        .create("live", of("endless").cron("@hourly"))
        .await?;
    simulation.advance(5 * HOUR).await?;
    assert_eq!(runs(&client, "twice").await?.len(), 2);
    assert_eq!(
        client.get("twice").await?.state?.code(),
        StateKind::Completed
    );
    let killed = schedules.delete("live", LiveRuns::Kill).await?;
    assert_eq!(names(killed.clone()), ["live@2030-01-01T00:00:00Z"]);
    simulation.advance(5 * HOUR).await?;
    assert_eq!(runs(&client, "live").await?.len(), 1);
    assert_eq!(
        client.get(&killed[0]).await?.state?.code(),
        StateKind::Killed
    );
    Ok(())
}
