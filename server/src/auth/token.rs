//! [`Tokens`]: the tokens of a namespace.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    Author, Invalid,
    store::{Error, Expected, NamedValue, SetValue, Store},
};

use super::{
    Role, Scope,
    hex::{self, Hash},
    secret::{Secret, after},
};
use crate::bulk::OfToken;

/// The folder of the named values with the tokens.
pub(crate) const FOLDER: &str = "server/token/";
/// How the secret of a token begins.
const PREFIX: &str = "wlt_";
/// How many secrets of one token are valid at once.
const SECRETS: usize = 2;

/// A token: what a program that shows its secret may do, until when.
///
/// The namespace has the hash of the secret only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// The name: 1 to 64 of the characters `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// The tasks that its holder may see and change.
    pub scope: Scope,
    /// The most live tasks that the kinds of the scope may have when its holder submits one; `None` for any number.
    pub max_tasks: Option<u64>,
    /// When it was made.
    pub made_at: Timestamp,
    /// Who made it, if that is known.
    pub made_by: Option<Author>,
    /// When it expires; `None` for never.
    pub expires_at: Option<Timestamp>,
    secrets: Vec<Valid>,
}

/// A secret of a token, as the namespace keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Valid {
    #[serde(with = "hex")]
    hash: Hash,
    /// When it stops being valid before its token does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

/// The stored form of a token.
#[derive(Serialize, Deserialize)]
struct Stored {
    role: Role,
    #[serde(flatten)]
    scope: StoredScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tasks: Option<u64>,
    made_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_by: Option<Author>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    secrets: Vec<Valid>,
}

/// A scope whose reader ignores the fields of later versions.
#[derive(Default, Serialize, Deserialize)]
struct StoredScope {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<String>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    labels: std::collections::BTreeMap<String, String>,
}

impl Token {
    /// Reads a stored token.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    pub(crate) fn read(value: &NamedValue) -> Result<Self, Error> {
        let name = value.name.strip_prefix(FOLDER).unwrap_or(&value.name);
        let stored: Stored = serde_json::from_str(&value.text).map_err(|error| Error::Corrupt {
            what: format!("token '{name}'"),
            reason: format!("{error}; revoke it, and make another one"),
        })?;
        Ok(Self {
            name: name.to_owned(),
            role: stored.role,
            scope: Scope {
                kinds: stored.scope.kinds,
                labels: stored.scope.labels,
            },
            max_tasks: stored.max_tasks,
            made_at: stored.made_at,
            made_by: stored.made_by,
            expires_at: stored.expires_at,
            secrets: stored.secrets,
        })
    }

    fn write(&self) -> Result<String, Error> {
        let stored = Stored {
            role: self.role,
            scope: StoredScope {
                kinds: self.scope.kinds.clone(),
                labels: self.scope.labels.clone(),
            },
            max_tasks: self.max_tasks,
            made_at: self.made_at,
            made_by: self.made_by.clone(),
            expires_at: self.expires_at,
            secrets: self.secrets.clone(),
        };
        let unwritable = |error: serde_json::Error| Invalid::new("token", error.to_string());
        Ok(serde_json::to_string(&stored).map_err(unwritable)?)
    }

    /// Returns what names it, and no other token that has its name at another time.
    pub(crate) fn of(&self) -> OfToken {
        OfToken {
            name: self.name.clone(),
            made_at: self.made_at,
        }
    }

    /// Returns the hashes of its secrets, each with the time at which it stops being valid.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = (Hash, Option<Timestamp>)> {
        let ends = |until: Option<Timestamp>| match (until, self.expires_at) {
            (Some(until), Some(expires)) => Some(until.min(expires)),
            (until, expires) => until.or(expires),
        };
        let secrets = self.secrets.iter();
        secrets.map(move |secret| (secret.hash, ends(secret.until)))
    }

    /// Returns how many secrets are valid at a time.
    pub fn secrets_at(&self, now: Timestamp) -> usize {
        let is_valid = |until: Option<Timestamp>| until.is_none_or(|until| now < until);
        self.hashes().filter(|(_, until)| is_valid(*until)).count()
    }
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewToken {
    /// The name.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// The tasks that its holder may see and change; every task by default.
    pub scope: Scope,
    /// The most live tasks that the kinds of the scope may have when its holder submits one; any number by default.
    pub max_tasks: Option<u64>,
    /// How long it is valid; for ever by default.
    pub valid_for: Option<Duration>,
}

impl NewToken {
    /// Returns a token for every task that never expires.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            scope: Scope::default(),
            max_tasks: None,
            valid_for: None,
        }
    }

    /// Restricts the token to some tasks.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the quota: the most live tasks that the kinds of the scope may have, also those of other callers, when the holder of the
    /// token submits or retries one. The scope must have kinds, and no labels.
    #[must_use]
    pub fn max_tasks(mut self, tasks: u64) -> Self {
        self.max_tasks = Some(tasks);
        self
    }

    /// Lets the token expire.
    #[must_use]
    pub fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = Some(time);
        self
    }

    fn check(&self) -> Result<(), Invalid> {
        check_name(&self.name)?;
        self.scope.check()?;
        if self.role == Role::Admin && !self.scope.is_everything() {
            let what = "an admin token has every task, because it can make tokens of any scope; leave out kinds and \
                        labels, or make it an operate token";
            return Err(Invalid::new("role", what));
        }
        if self.role == Role::Work && self.max_tasks.is_some() {
            let what =
                "is for submits, and the holder of a work token submits nothing; leave it out";
            return Err(Invalid::new("max_tasks", what));
        }
        if self.max_tasks.is_some()
            && (self.scope.kinds.is_empty() || !self.scope.labels.is_empty())
        {
            let what =
                "is counted by kind, which the store keeps; give the token kinds and no labels";
            return Err(Invalid::new("max_tasks", what));
        }
        if self.valid_for.is_some_and(|time| time.is_zero()) {
            return Err(Invalid::new("expires_in", "is not more than 0 seconds"));
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    let what = "is not 1 to 64 of the characters a-z, A-Z, 0-9, '.', '_' and '-'";
    Err(Invalid::new("name", what))
}

/// The tokens of a namespace. Every program that can write to the store can make one, also when every token is
/// lost.
///
/// # Example
///
/// ```
/// use windlass::store::Store;
/// use windlass_server::{NewToken, Role, Tokens};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let tokens = Tokens::new(&Store::open("memory:").await?);
/// let (token, secret) = tokens.make(NewToken::new("ci", Role::Operate), None).await?;
/// assert!(secret.starts_with("wlt_"));
/// assert_eq!(tokens.list().await?, [token]);
/// assert!(tokens.revoke("ci", None).await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Store,
}

impl Tokens {
    /// Returns the tokens of a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// Makes a token, and returns it with its secret, which nothing shows again.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] naming the field; [`Error::AlreadyExists`]; [`Error::Unavailable`].
    pub async fn make(&self, new: NewToken, by: Option<Author>) -> Result<(Token, String), Error> {
        new.check()?;
        let now = self.store.clock().now();
        let expires_at = new.valid_for.map(|time| after(now, "expires_in", time));
        let secret = Secret::new(PREFIX)?;
        let token = Token {
            name: new.name,
            role: new.role,
            scope: new.scope,
            max_tasks: new.max_tasks,
            made_at: now,
            made_by: by.clone(),
            expires_at: expires_at.transpose()?,
            secrets: vec![Valid {
                hash: secret.hash(),
                until: None,
            }],
        };
        let value = SetValue::new(format!("{FOLDER}{}", token.name), token.write()?);
        let value = value.expect(Expected::Absent).by(by);
        if self.store.registry().set_value(&value).await? {
            return Ok((token, secret.into_text()));
        }
        Err(Error::AlreadyExists {
            what: "token",
            name: token.name,
            difference: None,
        })
    }

    /// Gives a token another secret, and returns it. The last secret before it stays valid for `overlap`, so that the
    /// programs that have it can be given the new one in the meantime; every older secret ends at once.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Corrupt`]; [`Error::Unavailable`], also when others change the token at the same
    /// time.
    pub async fn rotate(
        &self,
        name: &str,
        overlap: Duration,
        by: Option<Author>,
    ) -> Result<(Token, String), Error> {
        let (value, mut token) = self.find(name).await?;
        let now = self.store.clock().now();
        let ends = after(now, "overlap", overlap)?;
        let secret = Secret::new(PREFIX)?;
        token.secrets.retain(|secret| secret.until.is_none());
        token.secrets.truncate(SECRETS - 1);
        for old in &mut token.secrets {
            old.until = Some(ends);
        }
        token.secrets.insert(
            0,
            Valid {
                hash: secret.hash(),
                until: None,
            },
        );
        let change = SetValue::new(&value.name, token.write()?);
        let change = change.expect(Expected::Version(value.version)).by(by);
        if self.store.registry().set_value(&change).await? {
            return Ok((token, secret.into_text()));
        }
        Err(Error::unavailable(
            "rotate a token",
            "it was changed in the meantime; try again",
        ))
    }

    /// Revokes a token, and returns whether it existed. Every server refuses it within a second of reaching the store.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `name`); [`Error::Unavailable`].
    pub async fn revoke(&self, name: &str, by: Option<Author>) -> Result<bool, Error> {
        check_name(name)?;
        let name = format!("{FOLDER}{name}");
        let found = self.store.registry().values(&name).await?;
        let exists = found.iter().any(|value| value.name == name);
        let change = SetValue::delete(name).by(by);
        self.store.registry().set_value(&change).await?;
        Ok(exists)
    }

    /// Returns the tokens, by name. A token that cannot be read is left out, and named in the log.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn list(&self) -> Result<Vec<Token>, Error> {
        let values = self.store.registry().values(FOLDER).await?;
        Ok(readable(&values))
    }

    async fn find(&self, name: &str) -> Result<(NamedValue, Token), Error> {
        check_name(name)?;
        let key = format!("{FOLDER}{name}");
        let found = self.store.registry().values(&key).await?;
        let value = found.into_iter().find(|value| value.name == key);
        let value = value.ok_or_else(|| Error::NotFound {
            what: "token",
            name: name.to_owned(),
        })?;
        let token = Token::read(&value)?;
        Ok((value, token))
    }
}

/// Returns the tokens that can be read.
pub(crate) fn readable(values: &[NamedValue]) -> Vec<Token> {
    let read = |value: &NamedValue| match Token::read(value) {
        Ok(token) => Some(token),
        Err(error) => {
            tracing::warn!(%error, "a token cannot be read, and is refused");
            None
        }
    };
    values.iter().filter_map(read).collect()
}
