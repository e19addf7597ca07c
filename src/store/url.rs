//! The URLs of stores: hides passwords before they are printed or logged, and makes URLs for other processes.

/// Returns whether the URL of a store may contain a password: user and password before the host, or a
/// parameter after `?` with the name of a secret. No store reads a password there, but a user may
/// write one there by mistake.
pub fn has_password(url: &str) -> bool {
    without_password(url) != url
}

/// Returns the URL without user and password, and without the values of secret parameters.
pub fn without_password(url: &str) -> String {
    let shown = match split(url) {
        Some((scheme, rest)) => format!("{scheme}://***@{rest}"),
        None => url.to_owned(),
    };
    match shown.split_once('?') {
        // A `?` may be part of a file name.
        Some((before, query)) if !before.starts_with("sqlite:") => {
            let parameters: Vec<String> = query.split('&').map(without_value).collect();
            format!("{before}?{}", parameters.join("&"))
        }
        _ => shown,
    }
}

/// Returns a parameter, without its value if its name is that of a secret.
fn without_value(parameter: &str) -> String {
    let (name, _) = parameter.split_once('=').unwrap_or((parameter, ""));
    let lower = name.to_lowercase();
    match SECRETS.iter().any(|part| lower.contains(part)) {
        true => format!("{name}=***"),
        false => parameter.to_owned(),
    }
}

/// Returns the URL by which another process of this machine, in any folder, finds the store. `None` for a store that only this
/// process can use, and for a URL that may have a password.
///
/// # Example
///
/// ```
/// use windlass::store::for_other_processes;
///
/// let here = std::env::current_dir()?.display().to_string();
/// assert_eq!(for_other_processes("sqlite:tasks.db"), Some(format!("sqlite:{here}/tasks.db")));
/// assert_eq!(for_other_processes("memory:"), None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn for_other_processes(url: &str) -> Option<String> {
    if has_password(url) {
        return None;
    }
    #[cfg(feature = "sqlite-system")]
    if let Some(file) = super::sqlite::Location::of(url) {
        let path = file.path().to_str()?;
        let setting = url.strip_prefix("sqlite:")?.strip_prefix(path)?;
        let path = std::path::absolute(path).ok()?;
        return Some(format!("sqlite:{}{setting}", path.to_str()?));
    }
    let is_cluster = url.starts_with("etcd:") || url.starts_with("etcds:");
    is_cluster.then(|| url.to_owned())
}

/// Parts of the names of parameters that hold secrets.
const SECRETS: [&str; 5] = ["pass", "pwd", "pw", "secret", "token"];

/// Returns the scheme, and the part after user and password.
fn split(url: &str) -> Option<(&str, &str)> {
    // The slashes may be missing, and a password may contain any character, as may a file name.
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
            (
                "etcd://h:1/ns?user=a&password=secret&compact-after=1h",
                "etcd://h:1/ns?user=a&password=***&compact-after=1h",
            ),
            ("etcd://h/ns?PW=secret", "etcd://h/ns?PW=***"),
        ] {
            assert!(has_password(url), "{url}");
            assert_eq!(without_password(url), shown);
        }
        for url in [
            "etcd://h:1/ns",
            "sqlite:a@b.db",
            "sqlite:a?pw=b.db",
            "etcd://h:1/ns?compact-after=1h",
            "sqlite://a@b.db",
            "memory:",
            "",
        ] {
            assert!(!has_password(url), "{url}");
            assert_eq!(without_password(url), url);
        }
    }

    #[cfg(feature = "sqlite-system")]
    #[test]
    fn another_process_finds_the_store_from_every_folder() {
        let here = std::env::current_dir().unwrap();
        let here = here.display();
        for (url, found) in [
            ("sqlite:/x/a.db", Some("sqlite:/x/a.db".to_owned())),
            ("sqlite:a.db", Some(format!("sqlite:{here}/a.db"))),
            (
                "sqlite:b/a?b.db?synchronous=normal",
                Some(format!("sqlite:{here}/b/a?b.db?synchronous=normal")),
            ),
            (
                "etcds://h:1,h:2/n?compact-after=1h",
                Some("etcds://h:1,h:2/n?compact-after=1h".to_owned()),
            ),
            ("etcd://user:secret@h:1/n", None),
            ("etcd://h:1/n?password=secret", None),
            ("memory:", None),
        ] {
            assert_eq!(for_other_processes(url), found, "{url}");
        }
    }
}
