//! A store with a task of each sort, and its way through a file.

use std::{path::PathBuf, time::Duration};

use tempfile::TempDir;
use windlass::{
    BoxError, Client, Command, Json, Limit, Message, NewTask, Retry, Runner, TaskContext, TaskId,
    schedule::Schedule,
    store::{
        Exported, Store,
        copy::{Import, Report, Written},
    },
};

const HOUR: Duration = Duration::from_secs(3600);

/// Fills a store with a task of each sort, without nodes.
pub(crate) async fn fill(store: &Store) -> Result<(), BoxError> {
    let client = Client::new(store);
    let new = |id: &str| NewTask::new("k").id(id);
    let exact = Json::parse(
        "props",
        r#"{"n":12345678901234567890123,"f":1.50,"t":"ü\n"}"#,
    )?;
    client.submit(new("done").props(&exact)).await?;
    client
        .submit(NewTask::new("fails").id("failed").retry(Retry::Never))
        .await?;
    let completes = async |task: TaskContext| {
        let _ = task.checkpoint(&Vec::from([1, 2, 3])).await;
        Message::complete_with("ü".repeat(20))
    };
    let fails = async |_: TaskContext| Message::fail("of no use");
    let runner = Runner::builder(store).node("n").without_schedules();
    let runner = runner.handler("k", completes).handler("fails", fails);
    let runner = runner.start().await?;
    for id in ["done", "failed"] {
        client.wait(&id.parse::<TaskId>()?).await?;
    }
    runner.shutdown().await;
    client.submit(new("asleep").start_in(HOUR)).await?;
    client
        .submit(new("commanded").label("team", "b").priority(-7))
        .await?;
    let commanded: TaskId = "commanded".parse()?;
    client.command(&commanded, Command::Pause).await?;
    client.command(&commanded, Command::Kill).await?;
    client.submit(new("waits").after(["asleep"])).await?;
    let limited = new("limited").limit(Limit::at_once("customer=acme", 3)?);
    client.submit(limited).await?;
    client.submit(new("only").unique("key", HOUR)).await?;
    client.submit(new("due").end_within(HOUR)).await?;
    client.retry(&"failed".parse::<TaskId>()?).await?;
    let run = NewTask::new("k");
    client
        .schedules()
        .create("hourly", Schedule::new(run).every(HOUR, None))
        .await?;
    Ok(())
}

/// Every task of a store.
pub(crate) async fn all(store: &Store) -> Result<Vec<Exported>, BoxError> {
    let part = store.transfer()?;
    let ids = part.ids().await?;
    let all = part.export(&ids).await.into_iter();
    Ok(all.collect::<Result<_, _>>()?)
}

/// A file that a store was exported to.
pub(crate) struct OnDisk {
    folder: TempDir,
    pub(crate) written: Written,
}

impl OnDisk {
    pub(crate) async fn of(store: &Store) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let mut text = Vec::new();
        let written = store.export(&mut text, |_| ()).await?;
        let this = Self { folder, written };
        std::fs::write(this.path(), text)?;
        Ok(this)
    }

    pub(crate) fn opened(&self) -> std::fs::File {
        std::fs::File::open(self.path()).unwrap()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.jsonl")
    }
}

/// Sends all tasks of one store through a file into another, and compares them.
pub(crate) async fn pass(from: &Store, to: &Store) -> Result<Report, BoxError> {
    let sent = all(from).await?;
    let file = OnDisk::of(from).await?;
    assert!(file.written.is_whole(), "{:?}", file.written);
    assert_eq!(file.written.tasks, sent.len() as u64);
    let report = to.import(&file.opened(), &Import::new(), |_| ()).await?;
    assert!(report.is_whole(), "{report:#?}");
    let came = all(to).await?;
    assert_eq!(came.len(), sent.len());
    for (sent, came) in sent.iter().zip(&came) {
        let id = &sent.task.id;
        assert_eq!(sent.difference(came), None, "{id}");
        assert_eq!(sent.task.props.as_str(), came.task.props.as_str(), "{id}");
        assert_eq!(sent.task.unique, came.task.unique, "{id}");
        assert_eq!(sent.task.limits, came.task.limits, "{id}");
        assert_eq!(sent.state.deadlines, came.state.deadlines, "{id}");
        assert_eq!(sent.state.waits, came.state.waits, "{id}");
        assert!(came.has_history_of(sent), "{id}");
        assert!(came.fence >= sent.fence, "{id}");
    }
    Ok(report)
}
