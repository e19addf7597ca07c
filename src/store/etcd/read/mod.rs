//! Reading what the keys hold, at one revision.

pub(crate) mod access;
pub(crate) mod commands;
pub(crate) mod reader;

pub(crate) use access::Access;
pub(crate) use commands::Known;
pub(crate) use reader::Reader;
