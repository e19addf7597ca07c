//! Writing: the item of a change, what changes put into it, and how many become one transaction.

pub(crate) mod attempt;
pub(crate) mod batch;
pub(crate) mod edit;
pub(crate) mod imported;
pub(crate) mod item;
pub(crate) mod order;
pub(crate) mod pipeline;
#[cfg(test)]
mod tests;

pub(crate) use attempt::{Change, Step, Tried};
pub(crate) use batch::Done;
pub(crate) use edit::Edit;
pub(crate) use item::Item;
pub(crate) use order::in_order;
pub(crate) use pipeline::Pipeline;
