//! What stores do: the conformance suite on each, the suite against planted defects, and what is particular to one store.
//!
//! One program, because each program of tests is compiled and linked by itself.

#[cfg(feature = "testing")]
mod broken_stores;
mod conformance;
mod duties;
#[path = "../logged/mod.rs"]
mod logged;
mod own_state_store;
mod split;
mod sqlite;
mod workers;
