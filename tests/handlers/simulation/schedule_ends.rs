//! Schedules whose runs cannot be submitted, and schedules that start again, in virtual time.

use windlass::{
    Command, NewTask, StateKind, TaskId,
    schedule::{Backfill, Overlap, Schedule},
    store::Error,
};

use super::schedules::{HOUR, MINUTE, Test, at, import_wrong, names, of, runs, simulation};

#[tokio::test]
async fn a_time_whose_id_another_task_has_is_refused_and_not_counted_as_fired() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let other = NewTask::new("report").id("s@2030-01-01T01:00:00Z");
    client.submit(other).await?;
    schedules
        .create("s", of("report").cron("@hourly").count(3))
        .await?;
    simulation.advance(HOUR + MINUTE).await?;
    let record = schedules.get("s").await?;
    assert_eq!((record.counts.fired, record.counts.refused), (1, 1));
    assert_eq!(record.last, Some(at("2030-01-01T01:00:00Z")));
    let refused = record.refused.ok_or("the time is reported")?;
    assert_eq!(refused.nominal, at("2030-01-01T01:00:00Z"));
    let says =
        "'s@2030-01-01T01:00:00Z' is a task of kind 'report' that schedule 's' has not submitted";
    assert!(refused.reason.starts_with(says), "{}", refused.reason);
    // It does not count towards `count`, and triggered runs do not either.
    let range = Backfill::new(at("2030-01-01T00:00:00Z"), at("2030-01-01T01:00:00Z"));
    for error in [
        schedules.backfill("s", range.all(true)).await.unwrap_err(),
        schedules
            .trigger_for("s", at("2030-01-01T01:00:00Z"))
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Invalid(e) if e.field() == "time"),
            "{error}"
        );
    }
    simulation.advance(5 * HOUR).await?;
    let expected = [
        "2030-01-01T00:00:00Z",
        "2030-01-01T02:00:00Z",
        "2030-01-01T03:00:00Z",
    ];
    assert_eq!(runs(&client, "s").await?, expected);
    Ok(())
}

#[tokio::test]
async fn an_update_decides_a_taken_id_as_a_node_does() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    client
        .submit(NewTask::new("report").id("s@2030-01-01T01:00:00Z"))
        .await?;
    let spec = of("report").cron("@hourly").offset(10 * MINUTE);
    schedules.create("s", spec.clone()).await?;
    simulation.advance(HOUR + MINUTE).await?;
    schedules.update("s", spec).await?;
    let record = schedules.get("s").await?;
    assert_eq!((record.counts.fired, record.counts.refused), (1, 1));
    Ok(())
}

#[tokio::test]
async fn an_update_starts_an_ended_schedule_again_and_repeats_no_time() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    // It fails on its own: its props are no schedule.
    import_wrong(&client, "failed", "null").await?;
    schedules
        .create("killed", of("endless").cron("@hourly"))
        .await?;
    schedules
        .create("ended", of("report").cron("@hourly").count(1))
        .await?;
    simulation.advance(MINUTE).await?;
    client.command("killed", Command::Kill).await?;
    simulation.advance(HOUR).await?;
    for (id, code) in [
        ("failed", StateKind::Failed),
        ("killed", StateKind::Killed),
        ("ended", StateKind::Completed),
    ] {
        assert_eq!(schedules.get(id).await?.state, Some(code), "{id}");
    }
    let error = schedules
        .update("ended", of("report").cron("@hourly").count(1))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(e) if e.field() == "count"),
        "{error}"
    );
    for error in [
        schedules.trigger("ended").await.unwrap_err(),
        schedules.pause("ended", None).await.unwrap_err(),
        schedules
            .create("ended", of("report").cron("@hourly"))
            .await
            .unwrap_err(),
    ] {
        let says = "schedule 'ended' has ended; update it to start it again";
        assert!(error.to_string().starts_with(says), "{error}");
    }
    for (id, kind) in [
        ("failed", "report"),
        ("killed", "endless"),
        ("ended", "report"),
    ] {
        schedules
            .update(id, of(kind).cron("@hourly").count(2))
            .await?;
        let record = schedules.get(id).await?;
        assert_eq!(record.state, Some(StateKind::Sleeping), "{id}");
        let next = record.next.map(|time| time.nominal);
        assert_eq!(next, Some(at("2030-01-01T02:00:00Z")), "{id}");
    }
    simulation.advance(5 * HOUR).await?;
    let (first, second) = ("2030-01-01T00:00:00Z", "2030-01-01T02:00:00Z");
    let third = "2030-01-01T03:00:00Z";
    assert_eq!(runs(&client, "failed").await?, [second, third]);
    assert_eq!(runs(&client, "ended").await?, [first, second]);
    assert_eq!(
        runs(&client, "killed").await?,
        [first],
        "the run of the killed schedule is live and followed"
    );
    let record = schedules.get("killed").await?;
    assert_eq!((record.counts.fired, record.counts.overlapped), (1, 5));
    assert_eq!(client.get("failed").await?.task.labels["team"], "a");
    Ok(())
}

#[tokio::test]
async fn a_preview_and_the_next_time_name_only_runs_to_come() -> Test {
    let mut simulation = simulation().await?;
    let client = simulation.client().clone();
    let schedules = client.schedules();
    let spec = of("report").cron("@hourly").count(3);
    let now = at("2030-01-01T00:30:00Z");
    assert_eq!(spec.preview("s", now, 10)?.len(), 3);
    schedules.create("s", spec).await?;
    simulation.advance(MINUTE).await?;
    assert_eq!(schedules.preview("s", 10).await?.len(), 2, "one has fired");
    schedules.skip("s", at("2030-01-01T01:00:00Z")).await?;
    let next = schedules.get("s").await?.next.map(|time| time.nominal);
    assert_eq!(next, Some(at("2030-01-01T02:00:00Z")), "01:00 is skipped");
    Ok(())
}

#[tokio::test]
async fn a_time_is_counted_once_whatever_happens_to_earlier_runs() -> Test {
    for overlap in [
        Overlap::Kill,
        Overlap::Cancel,
        Overlap::Pause,
        Overlap::Skip,
    ] {
        let mut simulation = simulation().await?;
        let schedules = simulation.client().schedules();
        let spec = of("endless").cron("@hourly").overlap(overlap);
        schedules.create("s", spec).await?;
        simulation.advance(4 * HOUR + MINUTE).await?;
        let counts = schedules.get("s").await?.counts;
        let counted = counts.fired + counts.overlapped + counts.skipped + counts.missed;
        assert_eq!(counted, 5, "{overlap:?}: {counts:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_many_triggers_at_once_submits_a_run() -> Test {
    let simulation = simulation().await?;
    let client = simulation.client().clone();
    let daily: Schedule = of("endless").cron("@daily");
    client.schedules().create("s", daily).await?;
    let triggers = (0..32).map(|_| {
        let schedules = client.schedules();
        tokio::spawn(async move { schedules.trigger("s").await })
    });
    let triggers: Vec<_> = triggers.collect();
    let mut submitted: Vec<TaskId> = Vec::new();
    for trigger in triggers {
        submitted.push(trigger.await??);
    }
    let mut submitted = names(submitted);
    submitted.sort_unstable();
    submitted.dedup();
    assert_eq!(submitted.len(), 32, "each has a run of its own");
    assert_eq!(runs(&client, "s").await?.len(), 32);
    assert_eq!(client.schedules().get("s").await?.counts.requested, 32);
    Ok(())
}
