//! Who calls, and what the caller may do.

mod caller;
mod form;
mod hex;
mod keyring;
mod role;
mod scope;
mod secret;
mod session;
mod token;
mod trusted;

pub(crate) use caller::{Caller, User};
pub use form::TokenForm;
pub(crate) use hex::text as to_hex;
pub(crate) use keyring::{Keyring, Refused};
pub use role::Role;
pub use scope::Scope;
pub use session::{Link, Sessions};
pub use token::{NewToken, Token, Tokens};
pub use trusted::TrustedHeader;
