//! The store of a cluster: a namespace on etcd.
//!
//! A namespace is shared with Metafora's `metcdv3` on purpose: its clients, commanders and nodes
//! work on the same keys (`docs/storage.md`).
//!
//! The folders are layers: each knows only those below it in this table, and `store` puts the
//! components together.
//!
//! | folder | what |
//! |---|---|
//! | `store`, `coordinator`, `registry`, `state_store`, `order` | the traits of a store, on the components below |
//! | `doctor` | the examination of a namespace and its cluster |
//! | `upkeep` | retention, compaction, the state of the members |
//! | `watch` | the two streams, and the mirror of each task |
//! | `tasks` | submit, command, delete, retry, reschedule, transactions, queries, history, to and from other stores |
//! | `node` | leases, claims, commits, effects, releases, node commands, repairs |
//! | `parts` | what one operation puts into a write, for calls, transactions and effects |
//! | `index` | every task in the orders of lists, in memory, for a process that asks for it |
//! | `read` | all that belongs to a task at one revision, of many tasks at once |
//! | `write` | the item of a change, what changes put into it, the batches, the pipeline, and the tries |
//! | `client` | the connection, with a time limit on every call, and the limits of the servers |
//! | `schema` | pure: keys, and the forms of what they hold, Metafora's too |

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

pub use client::options::Options;
pub use state_store::EtcdStates;
pub use store::EtcdStore;
