//! [`TrustedHeader`]: a proxy that says who sends a request.

use std::{collections::BTreeMap, net::IpAddr};

use axum::http::{HeaderMap, HeaderName};
use windlass::{Author, Invalid};

use super::{Caller, Role, Scope, User};
use crate::way::Way;

/// The header in which a proxy in front of the server says which user sends a request, after it has checked that itself.
///
/// The header counts in requests that come from one of the named addresses, or by a Unix socket, and in no others. With a
/// trusted header, the user at the other end of a socket is the proxy, and no longer a caller without a token.
///
/// # Example
///
/// ```
/// use windlass_server::{Role, TrustedHeader};
///
/// let header = TrustedHeader::new("X-Forwarded-User")?
///     .from(["10.0.0.5".parse().expect("an address")])
///     .user("ann", Role::Operate)
///     .others(Role::Read);
/// # drop(header);
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "give it to the builder of a server"]
pub struct TrustedHeader {
    name: HeaderName,
    proxies: Vec<IpAddr>,
    users: BTreeMap<String, Role>,
    others: Option<Role>,
}

/// Returns whether browsers, clients and HTTP itself give a header of this name another meaning. Names are in lower case.
fn is_of_requests(name: &str) -> bool {
    const OTHERS: [&str; 26] = [
        "authorization",
        "connection",
        "cookie",
        "date",
        "dnt",
        "expect",
        "forwarded",
        "from",
        "host",
        "idempotency-key",
        "keep-alive",
        "last-event-id",
        "origin",
        "pragma",
        "priority",
        "range",
        "referer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "upgrade-insecure-requests",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-request-id",
    ];
    // `Sec-Fetch-Site` is set by every browser, `Accept` and `Content-Type` by every client.
    const BEGINNINGS: [&str; 8] = [
        "accept",
        "access-control-",
        "cache-",
        "content-",
        "if-",
        "proxy-",
        "sec-",
        "trace",
    ];
    OTHERS.contains(&name) || BEGINNINGS.iter().any(|begins| name.starts_with(begins))
}

impl TrustedHeader {
    /// Trusts a header, from nobody and for no user yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `header`) for a text that is not the name of a header, or that of one which requests have for
    /// another purpose.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        let read = name
            .parse()
            .ok()
            .filter(|name: &HeaderName| !is_of_requests(name.as_str()));
        let what = || {
            format!(
                "'{name}' is not the name of a header for this purpose: requests have none such, or have it for another purpose; \
                 give one that only the proxy sets, such as X-Forwarded-User"
            )
        };
        Ok(Self {
            name: read.ok_or_else(|| Invalid::new("header", what()))?,
            proxies: Vec::new(),
            users: BTreeMap::new(),
            others: None,
        })
    }

    /// Trusts the header in requests that come from these addresses.
    pub fn from(mut self, proxies: impl IntoIterator<Item = IpAddr>) -> Self {
        let plain = proxies.into_iter().map(|ip| ip.to_canonical());
        self.proxies.extend(plain);
        self
    }

    /// Gives a user a role.
    pub fn user(mut self, name: impl Into<String>, role: Role) -> Self {
        self.users.insert(name.into(), role);
        self
    }

    /// Gives every other user a role; without it they are refused.
    pub fn others(mut self, role: Role) -> Self {
        self.others = Some(role);
        self
    }

    /// Returns the caller that the header names: `None` without the header, and an error with the reason for one that names
    /// no user with a role.
    pub(crate) fn caller(
        &self,
        way: Option<Way>,
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, &'static str> {
        let is_trusted = match way {
            Some(Way::Socket { .. }) => true,
            Some(Way::Tcp { from, .. }) => self.proxies.contains(&from),
            None => false,
        };
        let mut named = headers.get_all(&self.name).iter();
        let Some(name) = named.next().filter(|_| is_trusted) else {
            return Ok(None);
        };
        let name = name.to_str().ok().filter(|_| named.next().is_none());
        let name = name.ok_or("the header of the proxy does not name one user")?;
        // Proxies send it for those who have not said who they are.
        if name.trim().is_empty() {
            return Ok(None);
        }
        let role = self.users.get(name).copied().or(self.others);
        let role = role.ok_or("the user that the proxy names has no role here")?;
        let author = Author::new(format!("proxy {name}"));
        Ok(Some(Caller {
            user: User::Proxied,
            role,
            scope: Scope::default(),
            max_tasks: None,
            until: None,
            author: author.map_err(|_| "the header of the proxy does not name one user")?,
        }))
    }
}
