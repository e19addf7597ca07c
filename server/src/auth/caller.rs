//! [`Caller`]: who sends a request.

use jiff::Timestamp;
use windlass::Author;

use super::{Role, Scope, hex::Hash};

/// Who sends a request, and what that allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    /// When the secret that was shown stops being valid.
    pub(crate) until: Option<Timestamp>,
    /// The name in the histories.
    pub(crate) author: Author,
}

/// How a caller has proven who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum User {
    /// By the secret of a token.
    Token { name: String, hash: Hash },
    /// As a user of the operating system, by a connection to the server's socket.
    Peer { uid: u32 },
}

impl Caller {
    /// Returns the caller that is a user of the operating system.
    pub(crate) fn peer(uid: u32) -> Self {
        let user = nix::unistd::User::from_uid(uid.into());
        let name = user.ok().flatten().map(|user| user.name);
        let named = name.and_then(|name| Author::new(name).ok());
        Self {
            user: User::Peer { uid },
            role: Role::Admin,
            scope: Scope::default(),
            until: None,
            author: named.unwrap_or_else(|| Author::user(uid)),
        }
    }

    /// Returns what tells this caller from others: the same text for each of its requests.
    pub(crate) fn key(&self) -> String {
        match &self.user {
            User::Token { name, .. } => format!("token {name}"),
            User::Peer { uid } => format!("uid {uid}"),
        }
    }
}
