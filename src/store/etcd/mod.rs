//! The store of a cluster: a namespace on etcd.
//!
//! A namespace can be shared with Metafora's `metcdv3`: its clients, commanders and nodes work on
//! the same keys (`docs/reference/storage.md`).
//!
//! The folders are layers: each depends only on those below it in this table, and `store` connects
//! the components.
//!
//! | folder | what |
//! |---|---|
//! | `store`, `coordinator`, `registry`, `state_store`, `order` | the traits of a store, implemented with the components below |
//! | `doctor` | the examination of a namespace and its cluster |
//! | `upkeep` | retention, compaction, the state of the members |
//! | `watch` | the two streams, and the mirror of the tasks |
//! | `tasks` | submit, command, delete, retry, reschedule, transactions, queries, history, export and import |
//! | `node` | leases, claims, commits, effects, releases, node commands, repairs |
//! | `parts` | what one operation puts into a write, for calls, transactions and effects |
//! | `index` | every task in the orders of lists, in memory, for processes that enable it |
//! | `read` | reads everything that belongs to a task at one revision, for many tasks at once |
//! | `write` | the item of a change, its content, the batches, the pipeline, and the tries |
//! | `client` | the connection, with a time limit on every call, and the limits of the servers |
//! | `schema` | pure: keys, and the forms of their values, including Metafora's |

mod client;
mod coordinator;
mod doctor;
mod edits;
mod index;
mod node;
mod order;
mod read;
mod registry;
mod schema;
mod state_store;
mod store;
mod tasks;
mod upkeep;
mod watch;
mod write;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use client::connector::Connector;
pub use client::options::Options;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use schema::fuzzing::check_values;
pub use state_store::EtcdStates;
pub use store::EtcdStore;
