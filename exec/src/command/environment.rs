//! The variables that commands inherit from the worker.

use std::{
    ffi::{OsStr, OsString},
    path,
    sync::OnceLock,
};

use windlass::store::{has_password, sqlite::Location};

/// The variables with the place in a trace: those of the headers `traceparent` and `tracestate`.
pub(super) const TRACE: [&str; 2] = ["TRACEPARENT", "TRACESTATE"];
/// The variable that names the store.
pub(super) const STORE: &str = "WINDLASS_STORE";

/// Returns the variables of this process that configure windlass, and those of its own place in a trace. No command inherits
/// them: they may hold a password, and the output of commands is stored; a command belongs to the trace of its task. They
/// do not change while the process runs.
pub(super) fn own_variables() -> &'static [OsString] {
    static NAMES: OnceLock<Vec<OsString>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let names = std::env::vars_os().map(|(name, _)| name);
        names.filter(|name| is_own(name)).collect()
    })
}

fn is_own(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"WINDLASS_") || TRACE.iter().any(|of| of.as_bytes() == name)
}

/// Returns the URL by which a command finds this store, whatever folder the command runs in. `None` for a
/// store that only this process can use, and for a URL that may hold a password.
pub(super) fn store_for_commands(url: &str) -> Option<String> {
    if has_password(url) {
        return None;
    }
    let Some(file) = Location::of(url) else {
        let is_cluster = url.starts_with("etcd:") || url.starts_with("etcds:");
        return is_cluster.then(|| url.to_owned());
    };
    let path = file.path().to_str()?;
    let setting = url.strip_prefix("sqlite:")?.strip_prefix(path)?;
    let path = path::absolute(path).ok()?;
    Some(format!("sqlite:{}{setting}", path.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_finds_the_store_from_every_folder() {
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
            assert_eq!(store_for_commands(url), found, "{url}");
        }
    }
}
