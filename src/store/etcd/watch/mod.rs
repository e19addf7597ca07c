//! The two streams: the watch of a node with its mirror of the tasks, and the feed of changes.

mod entries;
mod feed;
mod limited;
#[cfg(test)]
mod limited_tests;
mod list;
mod mirror;
mod releases;
#[cfg(test)]
mod tests;
mod waiters;
mod watcher;

pub(crate) use feed::Feed;
pub(crate) use watcher::Watcher;
