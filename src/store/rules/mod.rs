//! The rules that all stores share: pure functions without storage, clock or I/O.
//!
//! A store reads the input of a rule, and maps the result to its storage. It never makes the decision
//! of a rule itself.
//!
//! | module | rule |
//! |---|---|
//! | `size` | how many bytes a task, a state and a command may have |
//! | `submit` | what a submit does when its id exists |
//! | `command` | whether a command can be sent, and the outcomes that stores record themselves |
//! | `delete` | which tasks are deleted |
//! | `commit` | whether a write of a claim follows the stored state, or was applied before |
//! | `claim` | whether a task can be claimed |
//! | `worker` | what a registration of a remote worker does, and which server speaks for it |
//! | `limits` | whether a limit has a slot for one more task |
//! | `log_lines` | which log lines of a task are kept, and in which parts |
//! | `kept_time` | the precision of stored times |
//! | `list` | the place of a task in an order, and the pages of a list |
//! | `stats` | whether tasks count as available, and the counts of a list |
//! | `unique` | what a submit does when another task has its unique key |
//! | `stand_ins` | refuses a wait for an id that the same write does not submit, because another task has its unique key |
//! | `waits` | what a claim reads of the tasks that a task waits for, and what a watch reports of the task |
//! | `history` | the lines that a commit adds to the history |
//! | `retry` | the state that a retry starts a task with |
//! | `reschedule` | the task and the state that a reschedule leaves |
//! | `facts` | what `transaction` and `effects` are decided on |
//! | `steps` | what is written for one operation, or why it is refused |
//! | `transaction` | whether a transaction of several operations and guards can be applied, and what has to be written |
//! | `effects` | what the effects of a message may name; otherwise each effect is decided like an operation of a transaction |
//!
//! The texts of the errors are in [`Error`](super::Error), the limits of a page in
//! [`Page::check`](super::Page::check).

pub(crate) mod claim;
pub(crate) mod command;
pub(crate) mod commit;
pub(crate) mod delete;
pub(crate) mod dependencies;
pub(crate) mod effects;
pub(crate) mod facts;
pub(crate) mod failures;
mod guard;
pub(crate) mod history;
pub(crate) mod kept_time;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod log_lines;
pub(crate) mod reschedule;
pub(crate) mod retry;
pub(crate) mod size;
mod stand_ins;
pub(crate) mod stats;
mod steps;
pub(crate) mod submit;
pub(crate) mod transaction;
pub(crate) mod unique;
pub(crate) mod worker;
