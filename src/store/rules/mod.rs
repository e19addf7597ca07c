//! The rules that all stores share: pure functions without storage, clock or I/O.
//!
//! A store reads the input of a rule, and maps the result to its storage. It does not decide by itself
//! what a rule decides.
//!
//! | module | rule |
//! |---|---|
//! | `size` | how many bytes a task, a state and a command may have |
//! | `submit` | what a submit does when its id is taken |
//! | `plan` | whether a transition's effects can be applied, and which of them have to be written |
//! | `command` | whether a command can be sent, and the outcomes that stores record themselves |
//! | `claim` | whether a task can be claimed |
//! | `history` | the lines that a commit adds to the history |
//! | `retry` | the state that a retry starts a task with |
//! | `reschedule` | the state that a reschedule leaves a task in |
//! | `transaction` | whether a transaction of several operations and guards can be applied, and what has to be written |
//!
//! The texts of the errors are in [`Error`](super::Error), the limits of a page in
//! [`Page::check`](super::Page::check).

pub(crate) mod claim;
pub(crate) mod command;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod reschedule;
pub(crate) mod retry;
pub(crate) mod size;
pub(crate) mod submit;
pub(crate) mod transaction;
