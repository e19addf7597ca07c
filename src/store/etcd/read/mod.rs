//! Reads the content of keys at one revision.

pub(crate) mod blocks;
pub(crate) mod by_id;
mod codes;
pub(crate) mod commands;
mod copied;
mod format;
mod key_set;
mod log_lines;
mod mark;
pub(crate) mod reader;

pub(crate) use by_id::Folders;
pub(crate) use commands::Known;
pub(crate) use key_set::KeySet;
pub(crate) use mark::Mark;
pub(crate) use reader::{Access, Reader};
