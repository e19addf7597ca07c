//! Schedules with more to do than one transaction of etcd takes.

use windlass::{
    Client, NewTask, Runner,
    jiff::{SignedDuration, Timestamp, ToSpan},
    schedule::{Backfill, LiveRuns, Overlap, Schedule},
    store::{Filter, Page},
};

use crate::{
    server::Server,
    support::{in_time, obeys, open, secs, until},
};

/// A schedule of minutes that was created this many minutes ago, and makes up for all times. No node has a handler for
/// its runs: they stay live.
async fn behind(client: &Client, (minutes, overlap): (i64, &str), props: &str) {
    let since = Timestamp::now() - SignedDuration::from_mins(minutes);
    let props = serde_json::json!({
        "run": {"kind": "k", "props": props}, "cron": ["* * * * *"], "overlap": overlap, "since": since,
        "missed": {"run": "all", "within": "1d"},
    });
    let task = NewTask::new("schedule").id("s").props(&props);
    client.submit(task).await.unwrap();
}

async fn fired(client: &Client) -> u64 {
    client.schedules().get("s").await.unwrap().counts.fired
}

async fn runs(client: &Client) -> usize {
    let filter = Filter::new().label("schedule", "s");
    let (after, limit) = (0, 1000);
    let found = client
        .list(&filter, Page::new(limit).after(after))
        .await
        .unwrap();
    found.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_with_more_to_do_than_a_transaction_takes_goes_on() {
    let server = Server::start();
    let (store, client) = open(&server.url("ns")).await;
    // Each of the 70 runs pauses those before it.
    behind(&client, (70, "pause"), "").await;
    let node = Runner::builder(&store)
        .handler("other", obeys)
        .start()
        .await
        .unwrap();
    until("70 times are made up", async || fired(&client).await >= 70).await;
    assert!(runs(&client).await >= 70);

    // The next run kills all of them, or asks all of them to complete.
    for overlap in [Overlap::Kill, Overlap::Cancel] {
        let before = fired(&client).await;
        let seconds = Schedule::new(NewTask::new("k")).every(secs(1), None);
        let update = async {
            let schedules = client.schedules();
            schedules.update("s", seconds.overlap(overlap)).await
        };
        in_time("an update of a busy schedule", update)
            .await
            .unwrap();
        let what = format!("a time under {overlap:?} with 70 live runs");
        until(&what, async || fired(&client).await > before).await;
    }
    in_time("the stop of the node", node.shutdown()).await;
    let deleted = client
        .schedules()
        .delete("s", LiveRuns::Kill)
        .await
        .unwrap();
    assert!(deleted.len() >= 70);
}

/// The URL allows more than the servers accept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_goes_on_when_the_servers_take_less_than_the_store_says() {
    let limits = ["--max-txn-ops", "40", "--max-request-bytes", "100000"];
    let server = Server::start_with("http", &limits.map(str::to_owned));
    let (store, client) = open(&server.url("ns")).await;
    behind(&client, (2, "pause"), &"x".repeat(60_000)).await;
    let node = Runner::builder(&store).handler("other", obeys);
    let node = node.start().await.unwrap();
    until("two times are made up", async || fired(&client).await >= 2).await;
    in_time("the stop of the node", node.shutdown()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_submits_more_waiting_runs_than_a_transaction_takes() {
    let server = Server::start();
    let (_store, client) = open(&server.url("ns")).await;
    let since = Timestamp::now() - SignedDuration::from_mins(130);
    let props = serde_json::json!({
        "run": {"kind": "k"}, "cron": ["* * * * *"], "since": since, "offset": "5h", "overlap": {"allow": 200},
    });
    let task = NewTask::new("schedule").id("s").props(&props);
    client.submit(task).await.unwrap();
    let daily = Schedule::new(NewTask::new("k")).cron("@daily");
    let schedules = client.schedules();
    let update = schedules.update("s", daily);
    in_time("an update with 130 waiting runs", update)
        .await
        .unwrap();
    assert!((129..=131).contains(&fired(&client).await));
    let before = runs(&client).await;
    assert_eq!(before as u64, fired(&client).await);
    // Minutes again: none of these times is repeated, and a backfill finds those that have no run.
    let minutes = Schedule::new(NewTask::new("k")).cron("* * * * *");
    schedules.update("s", minutes).await.unwrap();
    let to = Timestamp::now() - 2.minutes();
    let range = Backfill::new(to - SignedDuration::from_mins(240), to);
    let missing = in_time("a backfill", schedules.backfill("s", range)).await;
    assert!((110..=114).contains(&missing.unwrap().len()));
}
