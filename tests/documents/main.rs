//! The documents, the examples, and the code that they describe.
//!
//! One program, because each program of tests is compiled and linked by itself.

mod doc_names;
mod docs;
mod examples;
