//! [`EtcdStore`]: the components of a store, connected to one namespace.

use std::{fmt, sync::Arc};

use super::{
    client::{
        Capacity, Fault, Link,
        diagnose::{diagnose, refused},
        options::{self, Options},
    },
    doctor::Doctor,
    edits::{Clearing, Edits},
    index::Index,
    node::{
        Claimer, Claims, Committer, Effects, Leases, LogWriter, NewTasks, NodeCommands, Peers,
        Repairs,
    },
    read::{Access, Mark, Reader},
    schema::{Fences, KeyValue, Keys, namespace},
    tasks::{Deletes, Imports, Queries, RecordLease, Transactions},
    upkeep::{Compaction, Members, Purges, Upkeep},
    watch::{Feed, Watcher},
    write::Pipeline,
};
use crate::{
    clock::Clock,
    store::{Error, Limits},
};

/// A store on etcd. Clones are the same connection.
///
/// # Flow
///
/// Each read is a request to etcd. Writes are queued in a pipeline, which packs those of many tasks
/// into one transaction, each with its own comparisons.
///
/// # Guarantees
///
/// An acknowledged write is on a quorum of the members. A claim is a key on the node's lease; its
/// fence is the revision at which that key was written, and every write compares it.
///
/// # Assumptions
///
/// Only windlass and Metafora write below `/NAMESPACE/`. Either the members' auto-compaction is on,
/// or [`Options::compact_after`] is set; otherwise the history fills their quota.
///
/// # Errors
///
/// [`Error::Unavailable`] while etcd does not respond; [`Error::Unusable`] if a retry cannot help.
/// Its text says what to do.
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
pub struct EtcdStore(pub(crate) Arc<Components>);

/// The components behind the traits of a store.
pub(crate) struct Components {
    pub(crate) leases: Leases,
    pub(crate) claimer: Claimer,
    pub(crate) committer: Committer,
    pub(crate) node_commands: NodeCommands,
    pub(crate) peers: Peers,
    pub(crate) watcher: Watcher,
    pub(crate) feed: Feed,
    pub(crate) transactions: Transactions,
    pub(crate) queries: Queries,
    pub(crate) imports: Imports,
    pub(crate) purges: Purges,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) doctor: Doctor,
    access: Access,
    limits: Limits,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.0.doctor.members.options;
        f.debug_tuple("EtcdStore").field(options).finish()
    }
}

impl EtcdStore {
    /// Connects to the namespace and checks that it can be read. `clock` provides the times of
    /// records and decides when tasks are due. Leases use the servers' clocks.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when no etcd responds in time; [`Error::Unusable`] with what to do.
    pub async fn connect(options: Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        options::check_namespace(&options.namespace)?;
        let link = match Link::connect(&options).await {
            Ok(link) => link,
            Err(fault) => return Err(unconnected(&options, fault).await),
        };
        let reader = Reader {
            keys: Keys::new(&options.namespace),
            fences: Fences::default(),
            mark: Mark::default(),
            metafora_nodes: options.metafora_nodes,
            capacity: Arc::new(Capacity::new(&options)),
            link,
        };
        let mut failed = None;
        for _ in 0..reader.link.members() {
            match reader.load_format().await {
                Ok(()) => {
                    check_version(reader.link.version().await.as_deref())?;
                    check_unnamed(&reader.link, &options.namespace).await?;
                    reader.link.accepted();
                    let components = Components::new(reader, options, clock);
                    return Ok(Self(Arc::new(components)));
                }
                Err(fault @ (Fault::Unknown(_) | Fault::NotNow(_))) => {
                    // The report of a member without a quorum is more helpful than a member that
                    // does not respond.
                    if failed.is_none() || fault.is_without_quorum() {
                        failed = Some(fault);
                    }
                }
                Err(fault) => return Err(unconnected(&options, fault).await),
            }
        }
        let failed = failed.unwrap_or(Fault::NotNow("no endpoint is given".into()));
        Err(unconnected(&options, failed).await)
    }

    /// Returns what a state store needs: the access, and the size limit.
    pub(crate) fn for_states(&self) -> (Access, usize) {
        (self.0.access.clone(), self.0.limits.max_bytes)
    }
}

impl Components {
    fn new(reader: Reader, options: Options, clock: Arc<dyn Clock>) -> Self {
        let (link, capacity) = (reader.link.clone(), reader.capacity.clone());
        let access = Access {
            pipeline: Pipeline::start(link, capacity, options.in_flight),
            reader,
            clock,
        };
        let index = options
            .memory_index
            .then(|| Index::start(access.reader.clone()));
        let (claims, new) = (Arc::new(Claims::default()), Arc::new(NewTasks::default()));
        let limits = options.limits;
        let max_bytes = limits.max_bytes;
        let (after, every) = (options.compact_after, options.look_every);
        // Each component gets its own handle of the shared parts.
        let access = || access.clone();
        let clearing = || Clearing { access: access() };
        let repairs = Repairs { access: access() };
        let peers = Peers::new(access().reader);
        let node_commands = NodeCommands { access: access() };
        let edits = || Edits {
            clearing: clearing(),
        };
        let leases = Leases {
            access: access(),
            claims: claims.clone(),
        };
        let members = Members::new(options, access());
        let compaction = Compaction::new(access(), after);
        Self {
            claimer: Claimer {
                leases: leases.clone(),
                repairs: repairs.clone(),
                new: new.clone(),
            },
            committer: Committer {
                access: access(),
                claims: claims.clone(),
                effects: Effects {
                    edits: edits(),
                    limits,
                },
                log: LogWriter {
                    access: access(),
                    claims: claims.clone(),
                },
            },
            watcher: Watcher {
                reader: access().reader,
                claims,
                new,
                peers: peers.clone(),
                repairs,
                commands: node_commands.clone(),
            },
            feed: Feed { access: access() },
            transactions: Transactions {
                edits: edits(),
                record_lease: RecordLease::new(access()),
                limits,
            },
            queries: Queries {
                reader: access().reader,
                clock: access().clock,
                index,
            },
            imports: Imports::new(clearing(), max_bytes),
            purges: Purges::new(Deletes { edits: edits() }),
            upkeep: Arc::new(Upkeep::new(compaction, members.clone(), every)),
            doctor: Doctor::new(access(), members),
            leases,
            node_commands,
            peers,
            access: access(),
            limits,
        }
    }

    pub(crate) async fn write_error(&self) -> Option<Error> {
        self.access.link().write_error().await
    }

    pub(crate) fn limits(&self) -> Limits {
        let capacity = self.access.capacity();
        let (settled, operations) = (capacity.settled_at_once(), capacity.transaction());
        Limits {
            max_outcomes: settled.min(self.limits.max_outcomes),
            max_operations: operations.min(self.limits.max_operations),
            ..self.limits
        }
    }
}

/// Refuses servers that are too old.
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

/// Explains why there is no connection, with advice if the cause is known.
async fn unconnected(options: &Options, fault: Fault) -> Error {
    if let Fault::Unknown(reason) = &fault {
        return match diagnose(options, reason).await {
            Some(advice) => Error::Unusable(format!("etcd: {reason}; {advice}")),
            None => {
                let members = options.endpoints.join(", ");
                let reason = refused(reason).unwrap_or(reason);
                Error::unavailable("connect to etcd", format!("{members}: {reason}"))
            }
        };
    }
    fault.into_error("connect to etcd")
}

/// Refuses a namespace inside a folder of the namespace without a name (which Metafora allows)
/// while that namespace has a live node.
async fn check_unnamed(link: &Link, namespace: &str) -> Result<(), Error> {
    let folder = namespace.split('/').next().unwrap_or_default();
    if !namespace::FOLDERS.contains(&folder) {
        return Ok(());
    }
    let mut has_node = false;
    let mut look = |kv: KeyValue| {
        let key = String::from_utf8_lossy(kv.key()).into_owned();
        let name = key.strip_prefix("/nodes/");
        let name = name.and_then(|rest| rest.strip_suffix("/_metafora"));
        has_node |= name.is_some_and(|name| !name.contains('/'));
    };
    // A user without access to those keys does not use the namespace without a name either.
    let _ = link.scan_keys(0, "/nodes/", &mut look).await;
    if has_node {
        return Err(options::inside(namespace, "/", folder));
    }
    Ok(())
}
