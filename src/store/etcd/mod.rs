//! The store of a cluster: a namespace on etcd.
//!
//! A namespace is shared with Metafora's `metcdv3` on purpose: its clients, commanders and nodes
//! work on the same keys (`docs/storage.md`).
//!
//! | module | what |
//! |---|---|
//! | `options`, `link`, `errors` | how etcd is reached, with a time limit on every call |
//! | `keys`, `records`, `queued`, `parts` | where everything is, in what form, and what goes with a task |
//! | `item`, `pipeline`, `capacity` | one task's write, how many are combined into one transaction, and what the servers take |
//! | `read`, `scan` | reading many tasks at once, and all of them |
//! | `fences` | what fences are made of |
//! | `leases`, `held` | the leases of a node, and the claims that hang on them |
//! | `claims`, `commits`, `outcomes`, `effects`, `leave`, `leftover`, `node_commands` | the work of a coordinator |
//! | `submits`, `sends`, `ends`, `queries`, `history`, `identity` | the work of a registry |
//! | `moving` | tasks to and from other stores |
//! | `examine`, `probe` | what the doctor asks for |
//! | `upkeep`, `compaction` | what a node does for the servers now and then |
//! | `mirror`, `entries`, `releases`, `watch`, `changes` | the two streams, and what is kept of each task |
//! | `peers` | the nodes that live, as the watches tell |
//! | `states` | [`EtcdStates`], a state store |

mod capacity;
mod changes;
mod claims;
mod commits;
mod compaction;
mod coordinator;
mod effects;
mod ends;
mod entries;
mod errors;
mod examine;
mod fences;
mod held;
mod history;
mod identity;
mod item;
mod keys;
mod leases;
mod leave;
mod leftover;
mod link;
mod mirror;
mod moving;
mod node_commands;
mod options;
mod outcomes;
mod parts;
mod peers;
mod pipeline;
mod probe;
mod purge;
mod queries;
mod queued;
mod read;
mod records;
mod registry;
mod releases;
mod replacing;
mod scan;
mod sends;
mod states;
mod submits;
mod upkeep;
mod watch;

use std::{fmt, sync::Arc};

use jiff::Timestamp;
pub use options::Options;
pub use states::EtcdStates;

use super::Error;
use crate::clock::Clock;

/// A store on etcd. Clones are the same connection.
///
/// # Flow
///
/// Reads go to etcd as they are asked for. Writes wait in a pipeline, which packs those of many
/// tasks into one transaction, each with its own comparisons.
///
/// # Guarantees
///
/// What is acknowledged is on a quorum of the members. A claim is a key on the node's lease; its
/// fence is the revision at which that key was written, and every write compares it.
///
/// # Assumptions
///
/// Nobody but windlass and Metafora writes below `/NAMESPACE/`. The members' auto-compaction is on,
/// or [`Options::compact_after`] is set (without either the history fills their quota).
///
/// # Errors
///
/// [`Error::Unavailable`] while etcd does not answer; [`Error::Unusable`] for what trying again does
/// not mend, with what to do.
///
/// # Example
///
/// ```no_run
/// use windlass::{clock::SystemClock, store::etcd::{EtcdStore, Options}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let options = Options::parse("etcd://127.0.0.1:2379/demo")?.with_environment()?;
/// let store = EtcdStore::connect(options, SystemClock::shared()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EtcdStore(Arc<Inner>);

struct Inner {
    link: link::Link,
    keys: keys::Keys,
    fences: fences::Fences,
    options: Options,
    clock: Arc<dyn Clock>,
    pipeline: pipeline::Pipeline,
    capacity: Arc<capacity::Capacity>,
    claims: held::Claims,
    leases: leases::Leases,
    upkeep: upkeep::Upkeep,
    purging: purge::Purging,
    peers: peers::Peers,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.0.options).finish()
    }
}

impl EtcdStore {
    /// Connects to the namespace and looks whether it can be read. `clock` tells the times that are
    /// recorded and when tasks are due; leases have the servers' clocks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when no etcd answers in time; [`Error::Unusable`] with what to do.
    pub async fn connect(options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        options::check_namespace(&options.namespace)?;
        let link = match link::Link::connect(&options).await {
            Ok(link) => link,
            Err(fault) => return Err(unconnected(&options, fault).await),
        };
        let keys = keys::Keys::new(&options.namespace);
        let capacity = Arc::new(capacity::Capacity::new(&options));
        let pipeline = pipeline::Pipeline::start(link.clone(), &options, capacity.clone());
        let inner = Arc::new(Inner {
            link,
            keys,
            fences: fences::Fences::default(),
            options,
            clock,
            pipeline,
            capacity,
            claims: held::Claims::default(),
            leases: leases::Leases::default(),
            upkeep: upkeep::Upkeep::default(),
            purging: purge::Purging::default(),
            peers: peers::Peers::default(),
        });
        let mut failed = None;
        for _ in 0..inner.link.members() {
            match inner.load_fences().await {
                Ok(()) => {
                    check_version(inner.link.version().await.as_deref())?;
                    inner.check_unnamed().await?;
                    inner.link.accepted();
                    return Ok(Self(inner));
                }
                Err(fault @ (errors::Fault::Unknown(_) | errors::Fault::NotNow(_))) => {
                    // That one of them lives and has no quorum says more than that another is gone.
                    if failed.is_none() || fault.is_without_quorum() {
                        failed = Some(fault);
                    }
                }
                Err(fault) => return Err(unconnected(&inner.options, fault).await),
            }
        }
        let failed = failed.unwrap_or(errors::Fault::NotNow("no endpoint is given".into()));
        Err(unconnected(&inner.options, failed).await)
    }
}

/// Refuses servers that lack what the store is made of.
fn check_version(version: Option<&str>) -> Result<(), Error> {
    let Some(version) = version else {
        return Ok(());
    };
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < (3, 4) => Err(Error::Unusable(format!(
            "etcd {version} is too old: windlass needs 3.4 or newer (update its members one after the other)"
        ))),
        _ => Ok(()),
    }
}

/// Why there is no connection, with what is to be done where that can be found out.
async fn unconnected(options: &Options, fault: errors::Fault) -> Error {
    if let errors::Fault::Unknown(reason) = &fault {
        return match link::diagnose(options, reason).await {
            Some(advice) => Error::Unusable(format!("etcd: {reason}; {advice}")),
            None => {
                let members = options.endpoints.join(", ");
                Error::unavailable("connect to etcd", format!("{members}: {reason}"))
            }
        };
    }
    fault.into_error("connect to etcd")
}

impl Inner {
    /// Refuses a namespace in the folder of one without a name, which Metafora takes and which has a
    /// node that lives.
    async fn check_unnamed(&self) -> Result<(), Error> {
        let namespace = &self.options.namespace;
        let folder = namespace.split('/').next().unwrap_or_default();
        if !keys::FOLDERS.contains(&folder) {
            return Ok(());
        }
        let mut has_node = false;
        let mut look = |kv: etcd_client::KeyValue| {
            let key = String::from_utf8_lossy(kv.key()).into_owned();
            let name = key.strip_prefix("/nodes/");
            let name = name.and_then(|rest| rest.strip_suffix("/_metafora"));
            has_node |= name.is_some_and(|name| !name.contains('/'));
        };
        // Whoever may not read those keys has no such namespace either.
        let _ = self.scan_keys(0, "/nodes/", &mut look).await;
        if has_node {
            return Err(options::inside(namespace, "/", folder));
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
