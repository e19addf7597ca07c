//! The dry run of a bulk operation, and its start.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use windlass::{
    Client, Invalid, NewTask, StateKind, TaskId,
    store::{Cursor, Error, Filter, Order, Query, TaskPage, TaskRecord},
};

use super::{
    BulkAction, BulkFilter, KIND, Newest, OfToken, Spec,
    act::{Before, concerns},
};
use crate::Scope;

/// How long the key of a dry run may be used.
pub(super) const VALID: Duration = Duration::from_secs(600);
/// How many tasks a bulk operation may have at most.
const MOST: u64 = 1_000_000;
/// How many tasks are read at once.
const PAGE: u32 = 1000;

/// What a dry run has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// How many tasks match.
    pub tasks: u64,
    /// How many of them sleep until a time, or wait for tasks or a signal, or did when they were paused: a resume runs these at
    /// once. 0 for an action that neither pauses nor resumes.
    pub skipping: u64,
    /// When they were counted.
    pub at: Timestamp,
    /// The key with which the operation can be started, for ten minutes.
    pub key: String,
}

/// Counts the tasks that a bulk operation would change, within the scope of its caller.
///
/// # Errors
///
/// [`Error::Invalid`] (field `filter`) for a filter that selects more than 1,000,000 tasks, or has an invalid field;
/// [`Error::Unavailable`].
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, Runner, store::Store};
/// use windlass_server::{Scope, bulk::{self, BulkAction, BulkFilter, Handler}};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let store = Store::open("memory:").await?;
/// let client = Client::new(&store);
/// client.submit(NewTask::new("mail").paused()).await?;
/// let filter = || serde_json::from_str::<BulkFilter>(r#"{"kind":"mail"}"#).unwrap();
/// let count = bulk::dry_run(&client, &filter(), BulkAction::Delete, &Scope::default()).await?;
/// assert_eq!(count.tasks, 1);
///
/// let started = bulk::start(&client, (filter(), BulkAction::Delete), (1, &count.key), (&Scope::default(), None)).await?;
/// let node = Runner::builder(&store).handler(bulk::KIND, Handler::new(&store)).start().await?;
/// assert!(client.wait(&started).await?.is_completed());
/// node.shutdown().await;
/// # Ok(()) }
/// ```
pub async fn dry_run(
    client: &Client,
    filter: &BulkFilter,
    action: BulkAction,
    scope: &Scope,
) -> Result<Count, Error> {
    let dry_run = Moment {
        at: client.now(),
        newest: newest(client).await?,
    };
    let (tasks, skipping) = count(client, (filter, action), scope, dry_run.before()).await?;
    Ok(Count {
        tasks,
        skipping,
        at: dry_run.at,
        key: dry_run.key(filter, action, tasks),
    })
}

/// Submits a bulk operation with the count and the key of its dry run, and returns its task. The operation stays in
/// the scope of the token of the caller, and ends with that token.
///
/// # Errors
///
/// [`Error::Invalid`]: field `key` when the key is of another dry run, or older than ten minutes; field `tasks` when more
/// tasks match now than the dry run has counted; field `note` when the client has a note and the action sends no command
/// ([`BulkAction::check_note`]). [`Error::Unavailable`].
pub async fn start(
    client: &Client,
    (filter, action): (BulkFilter, BulkAction),
    (tasks, given): (u64, &str),
    (scope, token): (&Scope, Option<&OfToken>),
) -> Result<TaskId, Error> {
    action.check_note(client.note())?;
    let store = client.store().registry().identity().await?;
    let dry_run = Moment::of_key(given, store)
        .filter(|moment| moment.key(&filter, action, tasks) == given)
        .ok_or_else(|| {
            let what = "is not that of a dry run of this filter, action and count; make a dry run, and give what it returns";
            Invalid::new("key", what)
        })?;
    let now = client.now();
    if now.duration_since(dry_run.at).unsigned_abs() > VALID {
        let what = "is older than ten minutes; make another dry run";
        return Err(Invalid::new("key", what).into());
    }
    let (found, _) = count(client, (&filter, action), scope, dry_run.before()).await?;
    if found > tasks {
        let what = format!("is {tasks}, and {found} match now; make another dry run");
        return Err(Invalid::new("tasks", what).into());
    }
    let spec = Spec {
        filter,
        action,
        tasks,
        counted_at: dry_run.at,
        counted_to: Some(dry_run.newest),
        by: client.author().clone(),
        note: client.note().cloned(),
        token: token.cloned(),
    };
    // The same id for the same dry run: a repeated request starts one operation.
    let id = format!("bulk-{}", given.to_ascii_lowercase());
    let task = NewTask::new(KIND).id(id).props(&spec).idempotent();
    Ok(client.submit(task).await?.into_id())
}

/// Counts the tasks that match and were submitted before the dry run, and how many of them a resume runs at once.
async fn count(
    client: &Client,
    (filter, action): (&BulkFilter, BulkAction),
    scope: &Scope,
    before: Before,
) -> Result<(u64, u64), Error> {
    let (mut found, mut skipping, mut read, mut cursor) = (0, 0, 0, None);
    let resumes = matches!(action, BulkAction::Pause | BulkAction::Resume);
    let now = client.now();
    let skips = |task: &TaskRecord| resumes && task.skipped(now).is_some();
    loop {
        let page = page(client, (filter, action), PAGE, cursor.as_ref()).await?;
        read += page.tasks.len() as u64;
        let of_caller = page
            .tasks
            .iter()
            .filter(|task| concerns(task, filter, scope, before));
        for task in of_caller {
            found += 1;
            skipping += u64::from(skips(task));
        }
        if read > MOST {
            let what = format!(
                "selects more than {MOST} tasks; select fewer, for example by the time of their submit"
            );
            return Err(Invalid::new("filter", what).into());
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok((found, skipping)),
        }
    }
}

/// Returns the filter for a store. Without a state it selects only tasks to which the action can apply, as the commands of the
/// command line do.
fn selecting(filter: &BulkFilter, action: BulkAction) -> Result<Filter, Error> {
    let mut selecting = filter.to_filter()?;
    if selecting.states.is_empty() && !selecting.quarantined {
        selecting.states = action.states();
    }
    Ok(selecting)
}

impl BulkAction {
    /// Returns the states of the tasks to which the action can apply; none for every state.
    pub fn states(self) -> Vec<StateKind> {
        let takes_ended = self == Self::Retry;
        let states = StateKind::ALL.into_iter();
        let applies = |state: &StateKind| state.is_terminal() == takes_ended;
        match self {
            Self::Delete => Vec::new(),
            _ => states.filter(applies).collect(),
        }
    }
}

/// Reads some of the tasks that a filter selects, in the order of their submits.
pub(super) async fn page(
    client: &Client,
    (filter, action): (&BulkFilter, BulkAction),
    limit: u32,
    cursor: Option<&Cursor>,
) -> Result<TaskPage, Error> {
    client
        .page(&query(filter, action)?.limit(limit), cursor)
        .await
}

/// Returns the list of an operation: a task comes after those that it waits for.
pub(super) fn query(filter: &BulkFilter, action: BulkAction) -> Result<Query, Error> {
    let query = Query::new(selecting(filter, action)?).order(Order::Submitted);
    Ok(query.reversed().without_props())
}

/// Returns the newest task of the store.
async fn newest(client: &Client) -> Result<Newest, Error> {
    let query = Query::new(Filter::default()).order(Order::Submitted);
    let page = client.page(&query.limit(1).without_props(), None).await?;
    Ok(Newest {
        store: client.store().registry().identity().await?,
        order: page.tasks.first().map_or(0, |record| record.order),
    })
}

/// The moment of a dry run.
struct Moment {
    at: Timestamp,
    newest: Newest,
}

impl Moment {
    fn before(&self) -> Before {
        Before::Order(self.newest.order)
    }

    /// Returns the key of the dry run: its moment, and a hash of what it has counted. It is no secret; it keeps a caller from
    /// starting what was not counted.
    fn key(&self, filter: &BulkFilter, action: BulkAction, tasks: u64) -> String {
        let filter = serde_json::to_string(filter).unwrap_or_default();
        let (micros, Newest { store, order }) = (self.at.as_microsecond(), &self.newest);
        let action = action.as_str();
        let text = format!("{filter}\n{action}\n{tasks}\n{micros}\n{store}\n{order}");
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{micros}-{order}-{hash}")
    }

    /// Reads the moment of a dry run of this store from its key.
    fn of_key(key: &str, store: String) -> Option<Self> {
        let mut parts = key.split('-');
        let (micros, order) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self {
            at: Timestamp::from_microsecond(micros).ok()?,
            newest: Newest { store, order },
        })
    }
}
