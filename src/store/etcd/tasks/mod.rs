//! What clients ask for: submits, commands, deletes, retries, queries, export and import.

mod clear;
mod command;
mod delete;
mod export;
mod history;
mod identity;
mod query;
mod retry;
mod submit;
mod swap;
mod transfer;

pub(crate) use clear::Clearing;
pub(crate) use command::Commands;
pub(crate) use delete::Deletes;
pub(crate) use query::Queries;
pub(crate) use retry::Retries;
pub(crate) use submit::Submits;
pub(crate) use transfer::Imports;
