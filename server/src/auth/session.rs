//! [`Sessions`]: how a person's browser becomes a caller.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    Author, Invalid,
    store::{Error, Expected, NamedValue, SetValue, Store},
};

use super::{
    Caller, Role, User,
    hex::{self, Hash},
    secret::{Secret, after, hash},
};

/// The folders of the named values with sessions, and with links that open one.
pub(super) const SESSIONS: &str = "server/session/";
const LINKS: &str = "server/link/";
/// The named value with the first part of the name by which browsers of this machine call a server.
pub(super) const NAME: &str = "server/name";

/// How long a link may be opened.
const LINK: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// How many sessions one user may have; the one that expires first ends for one more.
const MOST: usize = 20;

/// The stored form of a session, and of a link that opens one. The name has the hash of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) user: GrantUser,
    pub(super) expires_at: Timestamp,
}

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrantUser {
    /// The holder of a token: the session has the role and the scope that the token has now, and ends with the secret by
    /// which it was opened. Another token of the same name has another secret.
    Token {
        name: String,
        #[serde(with = "hex")]
        secret: Hash,
    },
    /// A user of the operating system, who can write to the store.
    User { name: String, role: Role },
}

impl GrantUser {
    /// Returns whether two sessions count together: those of one token, or of one user, whatever their roles are.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Token { name: one, .. }, Self::Token { name: two, .. })
            | (Self::User { name: one, .. }, Self::User { name: two, .. }) => one == two,
            _ => false,
        }
    }
}

/// A link that opens a session in a browser, once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The name of this machine for the browser, such as `w4f1c….localhost`. Browsers send cookies to every port of a name,
    /// and no server of another user knows this one.
    pub host: String,
    /// The path below the base path of the server.
    pub path: String,
    /// Until when the link can be opened.
    pub expires_at: Timestamp,
}

/// The sessions of browsers, which every server of a namespace knows.
///
/// # Example
///
/// ```
/// use windlass::store::Store;
/// use windlass_server::{Role, Sessions};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let sessions = Sessions::new(&Store::open("memory:").await?);
/// let link = sessions.link("ann".parse()?, Role::Operate).await?;
/// println!("http://{}:7474{}", link.host, link.path);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Sessions {
    store: Store,
}

impl Sessions {
    /// Returns the sessions of a store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
        }
    }

    /// Makes a link that opens a session, once, within five minutes. What the session does has `user` as its author.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `role`) for [`Role::Work`], which no page is for; [`Error::Unavailable`];
    /// [`Error::Unusable`] without random numbers.
    pub async fn link(&self, user: Author, role: Role) -> Result<Link, Error> {
        if role == Role::Work {
            let what = "'work' is for workers, and a session is for a browser; give read, operate or admin";
            return Err(Invalid::new("role", what).into());
        }
        let host = self.host().await?;
        let secret = Secret::new("wll_")?;
        let name = user.as_str().to_owned();
        let grant = self.grant(GrantUser::User { name, role }, LINK)?;
        self.store_new(LINKS, &secret, &grant, Some(user)).await?;
        Ok(Link {
            host,
            path: format!("/session/{}", secret.text()),
            expires_at: grant.expires_at,
        })
    }

    /// Opens the session of a link, and returns its secret; `None` for a link that was opened, or is too old. Of two that
    /// open a link at once one gets the session.
    pub(crate) async fn open(&self, secret: &str) -> Result<Option<Secret>, Error> {
        let name = format!("{LINKS}{}", hex::text(&hash(secret)));
        let Some(value) = self.value(&name).await? else {
            return Ok(None);
        };
        let taken = SetValue::delete(&name).expect(Expected::Version(value.version));
        if !self.store.registry().set_value(&taken).await? {
            return Ok(None);
        }
        match read(&value) {
            Some(link) if self.store.clock().now() < link.expires_at => {
                self.begin(link.user).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Opens a session of the holder of a token.
    pub(crate) async fn open_for(&self, caller: &Caller) -> Result<Option<Secret>, Error> {
        match &caller.user {
            User::Token { of, hash } if caller.role != Role::Work => {
                let (name, secret) = (of.name.clone(), *hash);
                let user = GrantUser::Token { name, secret };
                self.begin(user).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Ends a session.
    pub(crate) async fn end(&self, secret: &str) -> Result<(), Error> {
        let name = format!("{SESSIONS}{}", hex::text(&hash(secret)));
        let registry = self.store.registry();
        registry.set_value(&SetValue::delete(name)).await?;
        Ok(())
    }

    /// Returns the name by which browsers of this machine call a server of the namespace. It is made once.
    async fn host(&self) -> Result<String, Error> {
        let made = Secret::new("w")?;
        let label: String = made.text().chars().take(25).collect();
        let new = SetValue::new(NAME, label).expect(Expected::Absent);
        self.store.registry().set_value(&new).await?;
        let value = self.value(NAME).await?;
        let label = value.and_then(|value| label_of(&value));
        let missing = || {
            let text = format!("the named value {NAME} is not a name; delete it, and try again");
            Error::Unusable(text)
        };
        label
            .map(|label| format!("{label}.localhost"))
            .ok_or_else(missing)
    }

    async fn begin(&self, user: GrantUser) -> Result<Secret, Error> {
        self.make_room(&user).await?;
        let secret = Secret::new("wls_")?;
        let grant = self.grant(user, SESSION)?;
        self.store_new(SESSIONS, &secret, &grant, None).await?;
        Ok(secret)
    }

    /// Deletes what has expired, and the sessions that expire first of a user who has too many.
    async fn make_room(&self, user: &GrantUser) -> Result<(), Error> {
        let now = self.store.clock().now();
        let registry = self.store.registry();
        let mut of_user = Vec::new();
        for folder in [LINKS, SESSIONS] {
            for value in registry.values(folder).await? {
                match read(&value) {
                    Some(grant) if now < grant.expires_at => {
                        if folder == SESSIONS && grant.user.is_same(user) {
                            of_user.push((grant.expires_at, value.name));
                        }
                    }
                    _ => drop(registry.set_value(&SetValue::delete(value.name)).await?),
                }
            }
        }
        of_user.sort_unstable();
        let too_many = (of_user.len() + 1).saturating_sub(MOST);
        for (_, name) in of_user.into_iter().take(too_many) {
            registry.set_value(&SetValue::delete(name)).await?;
        }
        Ok(())
    }

    fn grant(&self, user: GrantUser, time: Duration) -> Result<Grant, Invalid> {
        let expires_at = after(self.store.clock().now(), "expires_at", time)?;
        Ok(Grant { user, expires_at })
    }

    async fn store_new(
        &self,
        folder: &str,
        secret: &Secret,
        grant: &Grant,
        by: Option<Author>,
    ) -> Result<(), Error> {
        let unwritable = |error: serde_json::Error| Invalid::new("session", error.to_string());
        let text = serde_json::to_string(grant).map_err(unwritable)?;
        let name = format!("{folder}{}", hex::text(&secret.hash()));
        let value = SetValue::new(name, text).expect(Expected::Absent).by(by);
        self.store.registry().set_value(&value).await?;
        Ok(())
    }

    async fn value(&self, name: &str) -> Result<Option<NamedValue>, Error> {
        let found = self.store.registry().values(name).await?;
        Ok(found.into_iter().find(|value| value.name == name))
    }
}

/// Reads a session or a link; `None` if it cannot be read, so that it opens nothing.
pub(super) fn read(value: &NamedValue) -> Option<Grant> {
    serde_json::from_str(&value.text).ok()
}

/// Returns the first part of the name of the namespace for browsers, if it is one.
pub(super) fn label_of(value: &NamedValue) -> Option<String> {
    let text = &value.text;
    let is_label = text.len() >= 16 && text.bytes().all(|b| b.is_ascii_alphanumeric());
    is_label.then(|| text.clone())
}
