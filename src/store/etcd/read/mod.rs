//! Reading what the keys hold, at one revision.

mod codes;
pub(crate) mod commands;
pub(crate) mod format;
pub(crate) mod reader;

pub(crate) use commands::Known;
pub(crate) use format::PropsSetting;
pub(crate) use reader::{Access, Reader};
