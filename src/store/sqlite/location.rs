//! [`Location`]: the file and the settings in the URL of a store.

use std::path::Path;

use super::{Options, Synchronous};
use crate::store::Error;

/// Separates the path from the setting. Any other `?` is part of the file name. A file whose name looks
/// like a path with another parameter can be opened, but not created.
const SETTING: &str = "?synchronous=";

/// The file of a store, and the settings of its URL.
///
/// The URL is `sqlite:PATH` or `sqlite:PATH?synchronous=LEVEL`, where the level is `full` (the default) or
/// `normal` ([`Synchronous`]).
///
/// # Example
///
/// ```
/// use std::path::Path;
/// use windlass::store::sqlite::{Location, Synchronous};
///
/// let location = Location::of("sqlite:jobs.db?synchronous=normal").ok_or("another store")?;
/// assert_eq!(location.path(), Path::new("jobs.db"));
/// assert_eq!(location.options()?.synchronous, Synchronous::Normal);
/// assert!(Location::of("memory:").is_none());
/// # Ok::<(), windlass::BoxError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location<'a> {
    path: &'a str,
    synchronous: Option<&'a str>,
}

impl<'a> Location<'a> {
    /// Splits the URL of a store. Returns `None` for a store that is not a file, and for an empty
    /// path.
    pub fn of(url: &'a str) -> Option<Self> {
        let location = url.strip_prefix("sqlite:")?;
        let (path, synchronous) = match location.rsplit_once(SETTING) {
            Some((path, level)) => (path, Some(level)),
            None => (location, None),
        };
        (!path.is_empty()).then_some(Self { path, synchronous })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &'a Path {
        Path::new(self.path)
    }

    /// Returns the parameter name at the end of a path that looks like it has one: `mode` of
    /// `jobs.db?mode=ro`.
    fn parameter(&self) -> Option<&'a str> {
        let (_, parameter) = self.path.rsplit_once('?')?;
        let (name, _) = parameter.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (!name.is_empty() && name.chars().all(is_name)).then_some(name)
    }

    /// Returns the default options with the setting of the URL.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `store`) for a level other than `full` and `normal`, and for another parameter
    /// (`sqlite:jobs.db?synchronus=normal`), unless a file has that name.
    pub fn options(&self) -> Result<Options, Error> {
        if let Some(name) = self.parameter()
            && !self.path().exists()
        {
            let reason = format!(
                "the URL has an unknown parameter '{name}', and there is no file '{}'; the known ones are \
                 synchronous=full and synchronous=normal",
                self.path
            );
            return Err(windlass_statemachine::Invalid::new("store", reason).into());
        }
        let synchronous = match self.synchronous {
            None | Some("full") => Synchronous::Full,
            Some("normal") => Synchronous::Normal,
            Some(other) => {
                let reason = format!(
                    "the URL has synchronous={other}; write synchronous=full (survives a power failure) or \
                     synchronous=normal (a power failure may lose the latest writes)"
                );
                return Err(windlass_statemachine::Invalid::new("store", reason).into());
            }
        };
        Ok(Options {
            synchronous,
            ..Options::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_and_its_level() {
        for (url, path, level) in [
            ("sqlite:a.db", "a.db", Synchronous::Full),
            (
                "sqlite:/x/a.db?synchronous=full",
                "/x/a.db",
                Synchronous::Full,
            ),
            (
                "sqlite:a.db?synchronous=normal",
                "a.db",
                Synchronous::Normal,
            ),
            // Any other question mark is part of the name.
            ("sqlite:a?b.db", "a?b.db", Synchronous::Full),
            (
                "sqlite:a?b.db?synchronous=normal",
                "a?b.db",
                Synchronous::Normal,
            ),
        ] {
            let location = Location::of(url).unwrap();
            assert_eq!(location.path(), Path::new(path), "{url}");
            assert_eq!(location.options().unwrap().synchronous, level, "{url}");
        }
        for url in [
            "memory:",
            "sqlite:",
            "sqlite:?synchronous=full",
            "etcd://h:1/n",
        ] {
            assert_eq!(Location::of(url), None, "{url}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_refused_unless_there_is_such_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db?synchronus=normal");
        let url = format!("sqlite:{}", path.display());
        for (url, name) in [
            (url.as_str(), "synchronus"),
            ("sqlite:none.db?mode=ro", "mode"),
            ("sqlite:none.db?cache=1&synchronous=full", "cache"),
            ("sqlite:none.db?x=1?synchronous=full", "x"),
        ] {
            let error = Location::of(url).unwrap().options().unwrap_err();
            let says =
                format!("store: the URL has an unknown parameter '{name}', and there is no file");
            let text = error.to_string();
            assert!(
                text.starts_with(&says) && text.contains("synchronous=normal"),
                "{text}"
            );
        }
        std::fs::write(&path, "").unwrap();
        assert!(Location::of(&url).unwrap().options().is_ok());
        for url in [
            "sqlite:none?",
            "sqlite:none?b.db",
            "sqlite:none?=b",
            "sqlite:no ne?a b=c",
        ] {
            assert!(Location::of(url).unwrap().options().is_ok(), "{url}");
        }
    }

    #[test]
    fn another_level_is_refused_with_what_to_write() {
        for level in ["", "off", "FULL", "normal&x=1"] {
            let url = format!("sqlite:a.db?synchronous={level}");
            let error = Location::of(&url).unwrap().options().unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("store: "), "{text}");
            assert!(text.contains("synchronous=full"), "{text}");
        }
    }
}
