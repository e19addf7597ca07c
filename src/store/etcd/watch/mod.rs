//! The two streams: the watch of a node with its mirror of the tasks, and the feed of changes.

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
