//! One version for the crates, the Python package and its wheel.

use std::{fs, path::Path};

/// Where the version is written, and what stands before it on its line.
const PLACES: [(&str, &str); 2] = [
    ("sdk/python/pyproject.toml", "version = \""),
    ("sdk/python/src/windlass_tasks/_version.py", "VERSION = \""),
];

/// Compares each place with the version of the workspace. Returns what is wrong, a line each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let ours = env!("CARGO_PKG_VERSION");
    let wrong =
        PLACES
            .into_iter()
            .filter_map(|(file, before)| match fs::read_to_string(root.join(file)) {
                Ok(text) => wrong(file, version(&text, before), ours),
                Err(error) => Some(format!("could not read {file}: {error}")),
            });
    wrong.collect()
}

/// Writes the version of the workspace into each place.
///
/// # Errors
///
/// When a file cannot be read or written, and when it has no version.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (file, before) in PLACES {
        let path = root.join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("could not read {file}: {e}"))?;
        let written = with_version(&text, before, env!("CARGO_PKG_VERSION"));
        let written = written.ok_or_else(|| format!("{file} has no version"))?;
        fs::write(&path, written).map_err(|e| format!("could not write {file}: {e}"))?;
    }
    Ok(())
}

/// The text with another version on the first line that has one.
fn with_version(text: &str, before: &str, ours: &str) -> Option<String> {
    let old = version(text, before)?;
    let (old, new) = (format!("{before}{old}\""), format!("{before}{ours}\""));
    let mut is_written = false;
    let lines = text.split_inclusive('\n').map(|line| {
        if is_written || !line.starts_with(&old) {
            return line.to_owned();
        }
        is_written = true;
        line.replacen(&old, &new, 1)
    });
    Some(lines.collect())
}

fn version<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(before))?;
    rest.split_once('"').map(|(version, _)| version)
}

fn wrong(file: &str, version: Option<&str>, ours: &str) -> Option<String> {
    match version {
        Some(version) if version == ours => None,
        Some(version) => Some(format!(
            "{file} has the version {version}, and the crates have {ours}: write the same one"
        )),
        None => Some(format!("{file} has no version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_differs_from_that_of_the_crates_is_named() {
        let text = "[project]\nname = \"windlass-tasks\"\nversion = \"0.1.0\"\n";
        let found = version(text, "version = \"");
        assert_eq!(wrong("a.toml", found, "0.1.0"), None);
        let error = wrong("a.toml", found, "0.2.0").unwrap();
        assert!(
            error.starts_with("a.toml has the version 0.1.0, and the crates have 0.2.0"),
            "{error}"
        );
        let error = wrong("a.toml", version("", "version = \""), "0.2.0").unwrap();
        assert_eq!(error, "a.toml has no version");
    }

    #[test]
    fn the_version_of_the_crates_is_written_and_nothing_else() {
        let text = "least-version = \"0.1.0\"\nversion = \"0.1.0\"\nversion = \"0.1.0\"\n";
        let written = with_version(text, "version = \"", "0.2.0").unwrap();
        let expected = "least-version = \"0.1.0\"\nversion = \"0.2.0\"\nversion = \"0.1.0\"\n";
        assert_eq!(written, expected);
        assert_eq!(with_version("", "version = \"", "0.2.0"), None);
    }

    #[test]
    fn the_versions_of_this_tree_are_one() {
        assert_eq!(check(&crate::root()), Vec::<String>::new());
    }
}
