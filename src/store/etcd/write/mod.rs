//! Writing: the item of a change, its content, and how items are packed into transactions.

mod audit;
pub(crate) mod batch;
pub(crate) mod edit;
pub(crate) mod imported;
pub(crate) mod item;
pub(crate) mod log_lines;
pub(crate) mod pipeline;
pub(crate) mod slots;
#[cfg(test)]
mod tests;
pub(crate) mod transaction;
pub(crate) mod tries;
mod union;

pub(crate) use batch::Done;
pub(crate) use edit::{Edit, Step};
pub(crate) use item::Item;
pub(crate) use pipeline::Pipeline;
pub(crate) use tries::{Tried, Tries, Wrote};
