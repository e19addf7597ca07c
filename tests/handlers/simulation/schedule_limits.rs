//! An update of the limits of a schedule, and the runs that wait for a slot.

use std::time::Duration;

use windlass::{
    Client, Limit, NewTask, TaskId,
    schedule::{Overlap, Schedule},
    store::{Lease, NodeSpec, Store},
};

use super::schedules::Test;

/// A schedule of which at most `most` runs of a team are claimed at once.
fn limited(most: u32) -> Result<Schedule, windlass::BoxError> {
    let run = NewTask::new("report").label("team", "a");
    let run = run.limit(Limit::at_once("team={label:team}", most)?);
    Ok(Schedule::new(run)
        .cron("@yearly")
        .overlap(Overlap::Allow(99)))
}

async fn node(store: &Store) -> Result<Lease, windlass::BoxError> {
    let spec = NodeSpec::new("n".parse()?);
    let lease = store.coordinator().join(&spec, Duration::from_secs(60));
    Ok(lease.await?)
}

/// Returns whether a node gets the claim of a task.
async fn claims(store: &Store, lease: &Lease, id: &TaskId) -> Result<bool, windlass::BoxError> {
    let answers = store.coordinator().claim(lease, vec![id.clone()]);
    let answer = answers.await.pop().ok_or("no answer")?;
    Ok(answer?.is_some())
}

async fn at_once(client: &Client, id: &TaskId) -> Result<String, windlass::BoxError> {
    let limits = client.get(id).await?.task.limits;
    Ok(serde_json::to_string(&limits)?)
}

#[tokio::test]
async fn an_update_gives_its_limits_to_the_runs_that_wait() -> Test {
    for store in ["memory:", "sqlite::memory:"] {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("s.db");
        let store = match store {
            "memory:" => Store::open("memory:").await?,
            _ => Store::open(&format!("sqlite:{}", file.display())).await?,
        };
        let client = Client::new(&store);
        let schedules = client.schedules();
        let lease = node(&store).await?;
        schedules.create("s", limited(1)?).await?;
        let started = schedules.trigger("s").await?;
        let first = schedules.trigger("s").await?;
        let second = schedules.trigger("s").await?;
        assert!(claims(&store, &lease, &started).await?);
        assert!(!claims(&store, &lease, &first).await?);
        assert!(!claims(&store, &lease, &second).await?);

        schedules.update("s", limited(2)?).await?;
        let two = r#"[{"key":"team=a","at_once":2}]"#;
        for run in [&first, &second] {
            assert_eq!(at_once(&client, run).await?, two, "{run}");
        }
        let one = r#"[{"key":"team=a","at_once":1}]"#;
        assert_eq!(at_once(&client, &started).await?, one, "it has started");
        assert!(claims(&store, &lease, &first).await?);
        assert!(!claims(&store, &lease, &second).await?);

        // An update that was interrupted after its first write is repeated.
        let change = windlass::store::Reschedule::new(second.clone()).limits([]);
        client.transaction().reschedule(change).commit().await?;
        schedules.update("s", limited(2)?).await?;
        assert_eq!(at_once(&client, &second).await?, two);
    }
    Ok(())
}
