//! The two streams: what a node follows, with what is kept of each task, and the feed of changes.

mod entries;
mod feed;
mod follow;
mod list;
mod mirror;
mod releases;
#[cfg(test)]
mod tests;

pub(crate) use feed::Feed;
pub(crate) use follow::Watcher;
