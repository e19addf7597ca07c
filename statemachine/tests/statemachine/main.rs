//! The state machine from outside: its table, its stories, its properties, and the forms that stores keep.
//!
//! One program, because each program of tests is linked by itself.

mod common;
mod golden;
mod machine;
mod model;
mod properties;
mod same_value;
mod signals;
mod table;
mod written_json;
