//! The OpenAPI document, made from the table of requests and from what a server answers: `docs/reference/openapi.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests make the document, and a test fails by panicking"
)]

mod document;
mod examples;
mod fixture;
mod refusals;
mod schemas;
mod tests;
