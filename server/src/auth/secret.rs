//! [`Secret`]: what a caller shows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use windlass::{Invalid, store::Error};

use super::hex::{self, Hash};

/// A secret of 256 random bits. Its debug form does not show it.
pub(crate) struct Secret(String);

impl Secret {
    /// Makes a secret. It begins with a prefix, so that a scanner of repositories and logs can find one.
    pub(crate) fn new(prefix: &str) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::Unusable(format!(
                "the operating system gives no random numbers: {error}"
            ))
        })?;
        Ok(Self(format!("{prefix}{}", hex::text(&bytes))))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn hash(&self) -> Hash {
        hash(&self.0)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Returns the hash of a secret. Secrets are compared by their hashes, so the time of a comparison says nothing of them.
pub(crate) fn hash(secret: &str) -> Hash {
    Sha256::digest(secret).into()
}

/// Returns the moment after a length of time.
pub(super) fn after(
    now: Timestamp,
    field: &'static str,
    time: Duration,
) -> Result<Timestamp, Invalid> {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    let latest = |_| Invalid::new(field, "ends after the year 9999; give a shorter time");
    now.checked_add(time).map_err(latest)
}
