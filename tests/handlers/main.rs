//! Handlers on a runner and in the helpers for tests.
//!
//! One program, because each program of tests is compiled and linked by itself.

#[path = "../logged/mod.rs"]
mod logged;
mod runner;
mod simulation;
mod testing;
mod testing_page;
