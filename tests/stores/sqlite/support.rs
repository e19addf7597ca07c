//! A file in its own folder, and the calls that the tests make again and again.

use std::{path::PathBuf, time::Duration};

use futures::StreamExt;
use windlass::{
    Action, Effects, Message, NodeName, StateKind, Task, TaskId, TaskState,
    clock::SystemClock,
    statemachine::{
        CommitId,
        machine::{Step, Write},
        transition,
    },
    store::{
        Claimed, Commit, Coordinator, Error, Event, EventStream, IfExists, Lease, NodeSpec,
        Registry, Submit,
        sqlite::{Options, SqliteStore},
    },
};

pub(crate) struct File {
    folder: tempfile::TempDir,
    pub(crate) options: Options,
}

pub(crate) fn file() -> File {
    File {
        folder: tempfile::tempdir().unwrap(),
        options: Options::default(),
    }
}

impl File {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("tasks.db")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Opens the file as one more process would.
    pub(crate) async fn open(&self) -> SqliteStore {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<SqliteStore, Error> {
        SqliteStore::open(self.path(), self.options.clone(), SystemClock::shared()).await
    }

    /// Returns a connection in addition to the store's own.
    pub(crate) fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

pub(crate) fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

pub(crate) fn task(text: &str) -> Task {
    Task::new(id(text), "k".parse().unwrap())
}

pub(crate) async fn try_submit(store: &SqliteStore, task: Task) -> Result<(), Error> {
    let submit = Submit {
        task,
        if_exists: IfExists::Refuse,
    };
    store.submit(vec![submit]).await.remove(0).map(|_| ())
}

pub(crate) async fn submit(store: &SqliteStore, text: &str) {
    try_submit(store, task(text)).await.unwrap();
}

pub(crate) async fn join(store: &SqliteStore, name: &str) -> Lease {
    join_for(store, name, Duration::from_secs(60)).await
}

pub(crate) async fn join_for(store: &SqliteStore, name: &str, ttl: Duration) -> Lease {
    store.join(&node(name), ttl).await.unwrap()
}

pub(crate) fn node(name: &str) -> NodeSpec {
    let mut spec = NodeSpec::new(NodeName::new(name).unwrap());
    spec.slots = 8;
    spec.version = "0".into();
    spec
}

pub(crate) async fn try_claim(
    store: &SqliteStore,
    lease: &Lease,
    text: &str,
) -> Result<Option<Claimed>, Error> {
    store.claim(lease, vec![id(text)]).await.remove(0)
}

pub(crate) async fn claim(store: &SqliteStore, lease: &Lease, text: &str) -> Claimed {
    try_claim(store, lease, text).await.unwrap().unwrap()
}

/// The write that a message makes of a claimed task's state.
pub(crate) fn write(state: &TaskState, message: impl Into<Message>) -> Write {
    let message = message.into();
    let mut next = transition(state, &message, jiff::Timestamp::now()).unwrap();
    next.version += 1;
    next.commit = Some(CommitId(fastrand::u64(..)));
    let step = Step {
        message: message.kind(),
        from: state.code(),
        to: next.code(),
        command: None,
    };
    Write {
        follows: state.version,
        drop_claim: !matches!(next.code(), StateKind::Runnable)
            || message.kind() == Action::Release.kind(),
        state: next,
        steps: vec![step],
        outcomes: vec![],
        effects: Effects::default(),
    }
}

pub(crate) fn commit_of(claimed: &Claimed, message: impl Into<Message>) -> Commit {
    Commit::new(claimed.claim.clone(), write(&claimed.state, message))
}

pub(crate) async fn commit(
    store: &SqliteStore,
    claimed: &Claimed,
    message: impl Into<Message>,
) -> Result<(), Error> {
    store
        .commit(vec![commit_of(claimed, message)])
        .await
        .remove(0)
}

pub(crate) async fn code(store: &SqliteStore, text: &str) -> StateKind {
    store.get(&id(text)).await.unwrap().state.unwrap().code()
}

/// The next events of a watch, until `last` is among them.
pub(crate) async fn until(stream: &mut EventStream, last: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut reported = Vec::new();
    let wait = Duration::from_secs(20);
    while !reported.iter().any(&last) {
        let next = tokio::time::timeout(wait, stream.next()).await;
        reported.extend(next.expect("no more events").expect("the stream has ended"));
    }
    reported
}

pub(crate) fn is_task(event: &Event, text: &str) -> bool {
    matches!(event, Event::Task(view) if view.id.as_str() == text)
}
