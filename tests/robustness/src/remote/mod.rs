//! Remote workers that reach servers over a line that cuts, delays and repeats, while the servers are killed.
//!
//! | module | what |
//! |---|---|
//! | [`ledger`] | what the handlers saw, and what is wrong with it |
//! | [`run`] | one run of all of it |
//! | [`python`] | the same with workers in Python, which are killed and stopped too |
//! | [`unended`] | what is stored of the tasks that have not ended in time |
//! | [`held`] | thousands of tasks that workers hold while their server is killed |

pub mod held;
pub mod ledger;
pub mod python;
pub mod run;
pub mod unended;
