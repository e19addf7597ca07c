//! Hides passwords in the URLs of stores, which are printed and logged.

/// Returns whether the URL of a store may hold a password: user and password before the host. No store
/// reads them there, but a user may write them there by mistake.
pub fn has_password(url: &str) -> bool {
    split(url).is_some()
}

/// Returns the URL without user and password.
pub fn without_password(url: &str) -> String {
    match split(url) {
        Some((scheme, rest)) => format!("{scheme}://***@{rest}"),
        None => url.to_owned(),
    }
}

/// Returns the scheme, and the part after user and password.
fn split(url: &str) -> Option<(&str, &str)> {
    // A slash may be missing, and a password may hold any character. So may the name of a file.
    let (scheme, rest) = url.split_once(':')?;
    let (_, rest) = rest.rsplit_once('@')?;
    (scheme != "sqlite").then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        for (url, shown) in [
            ("etcd://u:secret@h:1/ns", "etcd://***@h:1/ns"),
            ("etcds://secret@h:1/ns", "etcds://***@h:1/ns"),
            ("etcd://u:se/cr@et@h:1/ns", "etcd://***@h:1/ns"),
            ("redis://u:secret@h", "redis://***@h"),
            ("etcd:/u:secret@h", "etcd://***@h"),
        ] {
            assert!(has_password(url), "{url}");
            assert_eq!(without_password(url), shown);
        }
        for url in [
            "etcd://h:1/ns",
            "sqlite:a@b.db",
            "sqlite://a@b.db",
            "memory:",
            "",
        ] {
            assert!(!has_password(url), "{url}");
            assert_eq!(without_password(url), url);
        }
    }
}
