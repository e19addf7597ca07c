//! The operations of clients: transactions, queries, purges, export and import.

pub(crate) mod audit;
mod by_end;
mod by_index;
mod command;
mod delete;
mod export;
mod fences;
mod history;
pub(crate) mod hold;
mod identity;
mod lost;
mod moment;
mod query;
mod record_lease;
mod swap;
mod transaction;
mod transfer;
mod usage;
pub(crate) mod values;

pub(crate) use delete::Deletes;
pub(crate) use export::Exports;
pub(crate) use fences::raise_fences;
pub(crate) use query::Queries;
pub(crate) use record_lease::RecordLease;
pub(crate) use transaction::Transactions;
pub(crate) use transfer::Imports;
