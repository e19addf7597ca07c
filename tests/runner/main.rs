//! The runner on the memory store, with tokio's paused time: what takes minutes passes at once, and
//! nothing depends on how busy the machine is.

mod commands;
mod handlers;
mod limits;
mod nodes;
mod support;
mod validation;
