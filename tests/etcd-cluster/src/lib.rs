//! etcd servers for tests: each on free ports of the loopback, with its own folder.
//!
//! | module | what |
//! |---|---|
//! | [`cluster`] | one member or three: started, killed, stopped, led by another one, compacted |
//! | [`gateway`] | what is asked of a member, by its JSON gateway |
//! | [`proxy`] | a way to the members that can be cut, or fall silent (feature `proxy`) |

mod base64;
pub mod cluster;
pub mod gateway;
#[cfg(feature = "proxy")]
pub mod proxy;
mod setup;

pub use cluster::Cluster;
#[cfg(feature = "proxy")]
pub use proxy::Proxy;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
