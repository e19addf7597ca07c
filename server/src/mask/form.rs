//! [`MaskForm`]: the JSON form of a mask.

use jiff::Timestamp;
use serde::Serialize;
use windlass::Author;

use super::ReadMask;

/// A mask, as the requests and `windlass mask list` show it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Mask"))]
#[non_exhaustive]
pub struct MaskForm<'a> {
    /// The kind; `inbox/*` for every kind that begins with `inbox/`, `*` for every kind.
    pub kind: &'a str,
    /// The places that are hidden, as JSON pointers that begin with the name of a document.
    pub pointers: &'a [String],
    /// Whether the texts of errors are hidden.
    pub errors: bool,
    /// Whether the lines that handlers log are hidden, and the text of the progress.
    pub log: bool,
    /// When it was set.
    pub set_at: Option<Timestamp>,
    /// Who set it.
    pub set_by: Option<&'a Author>,
    /// Why the mask cannot be read: everything of every task is hidden until it is set again or removed.
    pub unreadable: Option<&'a str>,
}

impl<'a> From<&'a ReadMask> for MaskForm<'a> {
    fn from(read: &'a ReadMask) -> Self {
        match &read.mask {
            Ok(mask) => Self {
                kind: &mask.kind,
                pointers: &mask.pointers,
                errors: mask.errors,
                log: mask.log,
                set_at: mask.set_at,
                set_by: mask.set_by.as_ref(),
                unreadable: None,
            },
            Err(reason) => Self {
                kind: &read.kind,
                pointers: &[],
                errors: true,
                log: true,
                set_at: None,
                set_by: None,
                unreadable: Some(reason),
            },
        }
    }
}
