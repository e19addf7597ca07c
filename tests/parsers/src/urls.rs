//! URLs of stores.
//!
//! [`Store::open`](windlass::Store::open) itself is not called: it creates files and opens connections.

use std::str;

use windlass::store::{for_other_processes, has_password, without_password};

/// Reads a URL. Returns whether a store has that form of URL.
pub fn check(input: &[u8]) -> bool {
    let Ok(url) = str::from_utf8(input) else {
        return false;
    };
    let shown = without_password(url);
    assert_eq!(without_password(&shown), shown, "{url}");
    assert_eq!(has_password(url), shown != url);
    if let Some(other) = for_other_processes(url) {
        assert!(!has_password(&other), "{url}: {other}");
        assert_eq!(for_other_processes(&other), Some(other), "{url}");
    }
    let accepted = [file(url), cluster(url), url == "memory:"];
    accepted.contains(&true)
}

/// The path and the setting of a file make the URL again.
fn file(url: &str) -> bool {
    use windlass::store::sqlite::Location;

    let Some(location) = Location::of(url) else {
        assert!(
            !url.starts_with("sqlite:")
                || url.starts_with("sqlite:?synchronous=")
                || url == "sqlite:"
        );
        return false;
    };
    let path = location.path().to_str().unwrap();
    let rest = url
        .strip_prefix("sqlite:")
        .and_then(|rest| rest.strip_prefix(path));
    let rest = rest.unwrap_or_else(|| panic!("{url}: {path}"));
    match location.options() {
        Ok(_) => {
            assert!(
                ["", "?synchronous=full", "?synchronous=normal"].contains(&rest),
                "{url}"
            );
            true
        }
        Err(refused) => {
            assert!(refused.to_string().starts_with("store: "), "{refused}");
            false
        }
    }
}

/// The endpoints and the namespace of a cluster make a URL of the same cluster.
#[cfg(feature = "etcd")]
fn cluster(url: &str) -> bool {
    use windlass::store::{Error, etcd::Options};

    let options = match Options::parse(url) {
        Ok(options) => options,
        Err(refused) => {
            let Error::Invalid(invalid) = &refused else {
                panic!("{url}: {refused}");
            };
            crate::names_a_field(invalid);
            if let Some((_, secret)) = password(url) {
                assert!(!refused.to_string().contains(secret), "{refused}");
            }
            return false;
        }
    };
    assert!(!has_password(url), "{url}");
    let (mut scheme, mut hosts) = ("etcd", Vec::new());
    for endpoint in &options.endpoints {
        let (of, host) = endpoint.split_once("://").unwrap();
        scheme = if of == "https" { "etcds" } else { "etcd" };
        hosts.push(host);
    }
    let again = format!("{scheme}://{}/{}", hosts.join(","), options.namespace);
    let again = Options::parse(&again).unwrap_or_else(|e| panic!("{url}: {again}: {e}"));
    assert_eq!(again.endpoints, options.endpoints, "{url}");
    assert_eq!(again.namespace, options.namespace, "{url}");
    true
}

#[cfg(not(feature = "etcd"))]
fn cluster(_: &str) -> bool {
    false
}

/// Returns user and password of a URL, of which the password is long enough to be no other part of an error.
#[cfg(feature = "etcd")]
fn password(url: &str) -> Option<(&str, &str)> {
    // The name of a file may have any character.
    let (_, rest) = url
        .split_once("://")
        .filter(|_| !url.starts_with("sqlite:"))?;
    let (login, _) = rest.rsplit_once('@')?;
    login
        .split_once(':')
        .filter(|(_, secret)| secret.len() > 12 && url.matches(*secret).count() == 1)
}
