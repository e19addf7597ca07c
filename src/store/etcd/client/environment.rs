//! Options from the environment.

use windlass_statemachine::Invalid;

use super::options::Options;
use crate::store::Error;

const CERTIFICATE: &str = "CERTIFICATE";
const KEY: &str = "PRIVATE KEY";

fn file(variable: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    std::fs::read(&path).map(Some).map_err(|e| {
        let path = path.to_string_lossy();
        Error::Unusable(format!(
            "the file '{path}' ({variable}) cannot be read: {e}"
        ))
    })
}

/// Reads a [`file`], which must contain a PEM block of this type.
fn pem(variable: &str, block: &'static str) -> Result<Option<Vec<u8>>, Error> {
    let text = file(variable)?;
    match &text {
        Some(text) if !has_block(text, block) => Err(Error::Unusable(format!(
            "the file of {variable} holds no {} in PEM",
            block.to_lowercase()
        ))),
        _ => Ok(text),
    }
}

/// Returns whether there is a block `CERTIFICATE`, or a `PRIVATE KEY` of any algorithm.
fn has_block(text: &[u8], block: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut begins = text.lines().filter(|line| line.starts_with("-----BEGIN "));
    begins.any(|line| line.trim_end().ends_with(&format!("{block}-----")))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Options {
    /// Adds the options from the environment: `WINDLASS_ETCD_USER` with `WINDLASS_ETCD_PASSWORD` or
    /// `WINDLASS_ETCD_PASSWORD_FILE`, the PEM files `WINDLASS_ETCD_CA`, `WINDLASS_ETCD_CERT` and
    /// `WINDLASS_ETCD_KEY`, the limits of the servers, `WINDLASS_ETCD_MAX_TXN_OPS` and
    /// `WINDLASS_ETCD_MAX_REQUEST_BYTES`, `WINDLASS_ETCD_COMPACT_AFTER` and `WINDLASS_ETCD_METAFORA_NODES`.
    /// The environment overrides the URL.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] for a file that cannot be read or has other content. [`Error::Invalid`] when one of a
    /// pair is missing, and for a limit, a duration or a truth value that cannot be parsed.
    pub fn with_environment(mut self) -> Result<Self, Error> {
        if let Some(user) = variable("WINDLASS_ETCD_USER") {
            let password = match file("WINDLASS_ETCD_PASSWORD_FILE")? {
                Some(bytes) => Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
                None => variable("WINDLASS_ETCD_PASSWORD"),
            };
            let Some(password) = password else {
                let reason =
                    "has no password: set WINDLASS_ETCD_PASSWORD_FILE or WINDLASS_ETCD_PASSWORD";
                return Err(Invalid::new("WINDLASS_ETCD_USER", reason).into());
            };
            self.user = Some((user, password));
        }
        for (name, field) in [
            ("max-txn-ops", "WINDLASS_ETCD_MAX_TXN_OPS"),
            ("max-request-bytes", "WINDLASS_ETCD_MAX_REQUEST_BYTES"),
            ("compact-after", "WINDLASS_ETCD_COMPACT_AFTER"),
            ("metafora-nodes", "WINDLASS_ETCD_METAFORA_NODES"),
        ] {
            if let Some(value) = variable(field) {
                self.set(name, field, &value)?;
            }
        }
        if let Some(ca) = pem("WINDLASS_ETCD_CA", CERTIFICATE)? {
            self.ca = Some(ca);
        }
        let (cert, key) = (
            pem("WINDLASS_ETCD_CERT", CERTIFICATE)?,
            pem("WINDLASS_ETCD_KEY", KEY)?,
        );
        match (cert, key) {
            (Some(cert), Some(key)) => self.identity = Some((cert, key)),
            (None, None) => {}
            _ => {
                let reason = "and WINDLASS_ETCD_KEY belong together; set both or none";
                return Err(Invalid::new("WINDLASS_ETCD_CERT", reason).into());
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_to_hold_what_it_is_given_for() {
        let cert =
            b"subject=x\n-----BEGIN CERTIFICATE-----\r\nMA==\r\n-----END CERTIFICATE-----\r\n";
        assert!(has_block(cert, CERTIFICATE) && !has_block(cert, KEY));
        let request = b"-----BEGIN CERTIFICATE REQUEST-----\n";
        assert!(!has_block(request, CERTIFICATE));
        for sort in ["", "EC ", "RSA ", "ENCRYPTED "] {
            let key = format!("-----BEGIN {sort}PRIVATE KEY-----\n");
            assert!(has_block(key.as_bytes(), KEY) && !has_block(key.as_bytes(), CERTIFICATE));
        }
        for text in [
            b"".as_slice(),
            b"my-host\n",
            b"\x30\x82\x01",
            b"-----END CERTIFICATE-----",
        ] {
            assert!(!has_block(text, CERTIFICATE));
        }
    }
}
