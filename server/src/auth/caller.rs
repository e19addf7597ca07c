//! [`Caller`]: who sends a request.

use jiff::Timestamp;
use windlass::Author;

use super::{Role, Scope, hex::Hash};
use crate::bulk::OfToken;

/// Who sends a request, and what that allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    /// The most live tasks of its kinds.
    pub(crate) max_tasks: Option<u64>,
    /// When the secret that was shown stops being valid.
    pub(crate) until: Option<Timestamp>,
    /// The name in the histories.
    pub(crate) author: Author,
}

/// How a caller has proven who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum User {
    /// By the secret of a token.
    Token { of: OfToken, hash: Hash },
    /// By the cookie of a session: of the holder of a token, or of a user of the operating system.
    Session { token: Option<OfToken>, hash: Hash },
    /// By a header of a proxy that is trusted.
    Proxied,
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
            max_tasks: None,
            until: None,
            author: named.unwrap_or_else(|| Author::user(uid)),
        }
    }

    /// Returns what tells this caller from others: the same text for each of its requests.
    pub(crate) fn key(&self) -> String {
        match (&self.user, self.token()) {
            (User::Peer { uid }, _) => format!("uid {uid}"),
            // Sessions of a token, and the token itself, are one caller. Another token of the same name is another one.
            (_, Some(of)) => format!("token {} of {}", of.name, of.made_at),
            _ => self.author.as_str().to_owned(),
        }
    }

    /// Returns the token that the caller has shown, now or when the session was opened.
    pub(crate) fn token(&self) -> Option<&OfToken> {
        match &self.user {
            User::Token { of, .. } => Some(of),
            User::Session { token, .. } => token.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the secret that was shown has not expired.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Returns the hash of the secret that the caller has shown.
    pub(crate) fn hash(&self) -> Option<&Hash> {
        match &self.user {
            User::Token { hash, .. } | User::Session { hash, .. } => Some(hash),
            User::Peer { .. } | User::Proxied => None,
        }
    }

    /// Returns whether a browser adds the proof to every request, also to those that pages of others make.
    pub(crate) fn is_proven_by_browser(&self) -> bool {
        matches!(self.user, User::Session { .. } | User::Proxied)
    }
}
