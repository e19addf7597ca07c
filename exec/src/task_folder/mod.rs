//! The folder names of tasks on this machine, and whether their tasks still need them.

mod fate;
mod name;

pub(crate) use self::{fate::Fate, name::task_folder};
