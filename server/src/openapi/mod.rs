//! The OpenAPI document, made from the table of requests and from what a server answers: `docs/openapi.json`.

mod document;
mod examples;
mod fixture;
mod refusals;
mod schemas;
mod tests;
