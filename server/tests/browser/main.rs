//! The dashboard in a real Chromium: each page, each action, keyboard, phone, dark, without scripts, a cut connection, two tabs.
//!
//! `cargo xtask browser` gets Chromium and axe-core, and runs these tests one after another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod actions;
mod dashboard;
mod figures;
mod live;
mod many;
mod million;
mod pages;
mod pictures;
mod schedules;
mod webdriver;
