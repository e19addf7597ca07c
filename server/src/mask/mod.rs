//! Masks: values of tasks that the server shows to nobody.
//!
//! A [`Mask`] is a row of the namespace, which the [`Keyring`](crate::auth::Keyring) follows together with the tokens.
//! [`Hiding`] is what the rows hide at one moment, and [`shown`] makes the forms of tasks and commands without it.

mod form;
mod hiding;
mod path;
mod placeholder;
mod row;
mod rows;
mod shown;
mod store_errors;

pub use form::MaskForm;
pub(crate) use hiding::Hiding;
pub(crate) use path::Document;
pub(crate) use placeholder::{HIDDEN, refuse_placeholder, refuse_placeholders, refuse_reported};
pub use row::Mask;
pub use rows::{Masks, ReadMask};
pub(crate) use store_errors::{masked_result, without_values};
