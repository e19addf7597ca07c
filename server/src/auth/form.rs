//! [`TokenForm`]: the JSON form of a token.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use windlass::Author;

use super::{Role, Token};

/// A token, without its secrets, as the requests and `windlass token` show it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Token"))]
#[non_exhaustive]
pub struct TokenForm<'a> {
    /// The name.
    pub name: &'a str,
    /// What its holder may do: `read`, `operate`, `work` or `admin`.
    pub role: Role,
    /// The kinds of the tasks that its holder may see and change; none stands for every kind.
    pub kinds: &'a [String],
    /// The labels of these tasks.
    pub labels: &'a BTreeMap<String, String>,
    /// The most live tasks that these kinds may have when its holder submits one; `null` for any number.
    pub max_tasks: Option<u64>,
    /// When it was made.
    pub made_at: Timestamp,
    /// Who made it.
    pub made_by: Option<&'a Author>,
    /// When it expires; `null` for never.
    pub expires_at: Option<Timestamp>,
    /// How many of its secrets are valid: two while one replaces the other.
    pub secrets: usize,
    /// The secret, in the answer that makes it and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<&'a str>,
}

impl<'a> TokenForm<'a> {
    /// Returns the form of a token at a time.
    pub fn new(token: &'a Token, now: Timestamp) -> Self {
        Self {
            name: &token.name,
            role: token.role,
            kinds: &token.scope.kinds,
            labels: &token.scope.labels,
            max_tasks: token.max_tasks,
            made_at: token.made_at,
            made_by: token.made_by.as_ref(),
            expires_at: token.expires_at,
            secrets: token.secrets_at(now),
            secret: None,
        }
    }
}
