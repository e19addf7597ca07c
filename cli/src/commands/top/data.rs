//! What a page shows, and where it comes from: a store or a server.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use windlass::{
    Client, Kind,
    client::{
        Stats,
        activity::{Activity, Summary},
    },
    store::{Error, NodeRecord},
    wire::WhyForm,
};

use crate::{commands::why::resolve, exit::Failure, hint::Hint, http::Server};

/// How long a read may take.
const BOUND: Duration = Duration::from_secs(20);
/// A store that reads every task to count them is asked so seldom that this is a small part of the time.
const SELDOM: u32 = 20;

/// What a page shows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Top"))]
pub(crate) struct Data {
    /// What the tasks did in the last time, since this program began to count, or the server.
    pub(super) activity: Summary,
    /// Which tasks are not run.
    pub(super) why: Why,
    /// The live nodes and remote workers.
    pub(super) nodes: Vec<NodeRecord>,
}

/// Which tasks are not run, as `windlass why` prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "TopWhy"))]
pub(super) struct Why {
    /// Why the store takes no writes, so that no task makes progress; absent where nothing shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) no_writes: Option<String>,
    /// The rows of the inbox that were refused; absent without such a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused_rows: Option<RefusedRows>,
    /// The reasons, the one with the most tasks first.
    pub(super) waiting: Vec<Waiting>,
    /// The time for which the numbers hold.
    pub(super) at: Timestamp,
}

/// The rows of the inbox that were refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "TopRefusedRows"))]
pub(super) struct RefusedRows {
    /// What was refused, in words.
    pub(super) text: String,
    /// The command or the request that shows the rows with the reasons.
    pub(super) remedy: String,
}

/// Tasks of a kind that are not run for the same reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "TopWaiting"))]
pub(super) struct Waiting {
    /// The kind of the tasks.
    pub(super) kind: Kind,
    /// The name of the reason: one of `windlass list --waits`, `paused` or `quarantined`.
    pub(super) reason: String,
    /// The number of tasks.
    pub(super) tasks: u64,
    /// Whether there may be more: only a part of the tasks was read.
    pub(super) at_least: bool,
    /// The reason in words.
    pub(super) text: String,
    /// The command that shows or resolves it; from a server, the request.
    pub(super) remedy: String,
}

/// The answer of a server to `GET /v1/nodes`.
#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<NodeRecord>,
}

impl Why {
    fn new(stats: &Stats, no_writes: Option<Error>, hint: &Hint) -> Self {
        let form = WhyForm::new(stats, no_writes, |one| resolve(one, hint))
            .with_refused(&stats.refused_rows, hint.command("doctor"));
        let waiting = form.waiting.into_iter().map(|one| Waiting {
            kind: one.kind.clone(),
            reason: one.reason.to_owned(),
            tasks: one.tasks,
            at_least: one.at_least,
            text: one.text,
            remedy: one.remedy,
        });
        let refused_rows = form.refused_rows.map(|rows| RefusedRows {
            text: rows.text,
            remedy: rows.remedy,
        });
        Self {
            refused_rows,
            waiting: waiting.collect(),
            no_writes: form.no_writes,
            at: form.at,
        }
    }
}

/// Where the data come from.
pub(super) enum Source {
    Store(Box<OfStore>),
    Server(Server),
}

/// The data of a store.
pub(super) struct OfStore {
    client: Client,
    activity: Activity,
    hint: Hint,
    /// The last reasons, and when the next ones are read.
    why: Option<(Why, Instant)>,
}

impl Source {
    /// Returns the source of a store. It counts from now on.
    pub(super) async fn of_store(client: Client, hint: Hint) -> Result<Self, Failure> {
        Ok(Self::Store(Box::new(OfStore {
            activity: client.activity().await?,
            client,
            hint,
            why: None,
        })))
    }

    /// Reads the data.
    ///
    /// # Errors
    ///
    /// When the store or the server does not answer.
    pub(super) async fn read(&mut self) -> Result<Data, Failure> {
        match self {
            Self::Store(store) => {
                let late = |_| Failure::Store("it has not answered in time".to_owned());
                timeout(BOUND, store.read()).await.map_err(late)?
            }
            Self::Server(server) => {
                let read = timeout(BOUND, of_server(server)).await;
                read.map_err(|_| server.silent("its requests"))?
            }
        }
    }
}

impl OfStore {
    async fn read(&mut self) -> Result<Data, Failure> {
        let nodes = self.client.nodes().await?;
        let start = Instant::now();
        let why = match self.why.take().filter(|(_, next)| start < *next) {
            Some(kept) => self.why.insert(kept),
            None => {
                let no_writes = self.client.write_error().await;
                let why = Why::new(&self.client.stats().await?, no_writes, &self.hint);
                self.why
                    .insert((why, Instant::now() + start.elapsed() * SELDOM))
            }
        };
        Ok(Data {
            activity: self.activity.summary(),
            why: why.0.clone(),
            nodes,
        })
    }
}

async fn of_server(server: &Server) -> Result<Data, Failure> {
    let mut connection = server.connect().await?;
    Ok(Data {
        activity: connection.get("/v1/activity").await?,
        why: connection.get("/v1/why").await?,
        nodes: connection.get::<Nodes>("/v1/nodes").await?.nodes,
    })
}
