//! The operations of clients: submits, commands, deletes, retries, transactions, queries, export and
//! import.

pub(crate) mod audit;
mod by_end;
mod by_index;
mod command;
mod delete;
mod export;
mod history;
pub(crate) mod hold;
mod identity;
mod moment;
mod query;
mod raise;
mod record_lease;
mod retry;
mod submit;
mod swap;
mod transaction;
mod transfer;
mod usage;
pub(crate) mod values;

pub(crate) use command::Commands;
pub(crate) use delete::Deletes;
pub(crate) use export::Exports;
pub(crate) use query::Queries;
pub(crate) use raise::fences_above;
pub(crate) use record_lease::RecordLease;
pub(crate) use retry::Retries;
pub(crate) use submit::Submits;
pub(crate) use transaction::Transactions;
pub(crate) use transfer::Imports;
