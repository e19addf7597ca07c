//! Schedules that are all due in the same second, and what the other tasks of the node notice of it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use windlass::{Client, Message, NewTask, Runner, TaskContext, schedule::Schedule};

use crate::{
    report::Report,
    support::{self, Setting, Times},
};

/// How long before their time the schedules are created.
const AHEAD: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20));

pub(crate) fn due_at_once(setting: &Setting, report: &mut Report) {
    let schedules = setting.pick(100_000, 5_000);
    let (others, step) = (setting.pick(1_000, 100), Duration::from_millis(10));
    let ahead = setting.pick(AHEAD.0, AHEAD.1);
    let folder = setting.folder();
    let file = folder.path().join("schedules.db");
    let times = Arc::new(Mutex::new(Times::new()));
    let took = support::runtime().block_on(async {
        let store = support::open(&file).await;
        let client = Client::new(&store);
        let at = Timestamp::now() + SignedDuration::try_from(ahead).unwrap();
        let task = |n| {
            // No node has a handler for the runs: only their submits are measured.
            let spec = Schedule::new(NewTask::new("report")).at(at);
            let id = format!("schedule-{n}").parse().unwrap();
            client.schedules().task(id, spec).unwrap()
        };
        support::fill(&store, schedules, task).await;
        let other = |n: usize| {
            let due = at + SignedDuration::try_from(step * n as u32).unwrap();
            NewTask::new("due").id(format!("due-{n}")).start_at(due)
        };
        support::fill(&store, others, other).await;
        assert!(
            Timestamp::now() < at,
            "they were created too late; give --dir another disk"
        );
        let handler = {
            let times = times.clone();
            move |task: TaskContext| {
                let late = Timestamp::now().duration_since(task.task().start_at.unwrap());
                times.lock().unwrap().add(late.unsigned_abs());
                async { Message::complete() }
            }
        };
        let runner = Runner::builder(&store)
            .handler("due", handler)
            .start()
            .await
            .unwrap();
        let until = Duration::try_from(at.duration_since(Timestamp::now())).unwrap();
        tokio::time::sleep(until).await;
        let due = Instant::now();
        loop {
            let counts = client.counts().await.unwrap();
            let runs = counts
                .iter()
                .filter(|count| count.kind.as_str() == "report");
            if runs.map(|count| count.tasks).sum::<u64>() == schedules as u64 {
                break;
            }
            // A count reads every task.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let took = due.elapsed();
        client.wait(format!("due-{}", others - 1)).await.unwrap();
        runner.drain().await;
        runner.shutdown().await;
        took
    });
    let what = format!("{schedules} schedules due at once");
    report.one(
        format!("{what}: until all runs are submitted"),
        took.as_secs_f64(),
        "s",
        None,
    );
    report.one(
        format!("{what}: runs"),
        schedules as f64 / took.as_secs_f64(),
        "/s",
        None,
    );
    let times = times.lock().unwrap();
    times.tell(report, &format!("{what}: lateness of others"), None);
}
