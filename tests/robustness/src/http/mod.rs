//! Clients that reach the store by HTTP, over a line that cuts, delays and repeats.
//!
//! | module | what |
//! |---|---|
//! | [`mod@line`] | the proxy between clients and servers |
//! | [`client`] | a client that repeats a request until it is answered |
//! | [`servers`] | the processes `windlass serve`, killed and started again |
//! | [`deeds`] | what the clients ask for, and what was acknowledged |
//! | [`stream`] | a client that follows the changes through cuts |
//! | [`check`] | the checkers |
//! | [`run`] | one run of all of it |

pub mod check;
pub mod client;
pub mod deeds;
pub mod line;
pub mod run;
pub mod servers;
pub mod stream;
