//! The tags of releases: `v0.1.0`.

use std::{path::Path, process::Command};

/// The tag of a version.
pub(super) fn of(version: &str) -> String {
    format!("v{version}")
}

/// Whether the repository has this tag.
///
/// # Errors
///
/// When git fails.
pub(super) fn exists(root: &Path, tag: &str) -> Result<bool, String> {
    Ok(all(root, &[])?.iter().any(|known| known == tag))
}

/// The tag of the last release before the checked out commit: none before the first release.
///
/// # Errors
///
/// When git fails.
pub(crate) fn last(root: &Path) -> Result<Option<String>, String> {
    // A commit that is a release itself is compared with the one before it.
    let tags = all(root, &["--no-contains", "HEAD"])?;
    Ok(newest(&tags))
}

/// The newest release of these tags. Tags of other forms and those before a release (`v1.0.0-rc.1`) do not count.
fn newest(tags: &[String]) -> Option<String> {
    let releases = tags.iter().filter_map(|tag| Some((numbers(tag)?, tag)));
    releases.max().map(|(_, tag)| tag.clone())
}

fn numbers(tag: &str) -> Option<[u64; 3]> {
    let mut parts = tag.strip_prefix('v')?.split('.');
    let mut next = || parts.next()?.parse().ok();
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

fn all(root: &Path, args: &[&str]) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["tag", "--list", "v*"])
        .args(args);
    let out = git.output();
    let out = out.map_err(|e| format!("git: could not be started: {e}"))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Err(format!("could not list the tags: {}", why.trim()));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_newest_release_is_found_by_its_numbers() {
        let found = newest(&tags("v0.9.0 v0.10.1 v0.10.0 v1.0.0-rc.1 vnext v0.11"));
        assert_eq!(found.as_deref(), Some("v0.10.1"));
        assert_eq!(newest(&tags("v0.2.0-alpha.1 versions")), None);
    }

    #[test]
    fn a_release_is_compared_with_the_one_before_it() {
        let folder = std::env::temp_dir().join(format!("windlass-tags-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(&folder)
                .args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
            assert!(git.args(args).status().unwrap().success(), "{args:?}");
        };
        git(&["init", "-q"]);
        git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        assert_eq!(last(&folder), Ok(None));
        git(&["tag", "v0.1.0"]);
        assert_eq!(last(&folder), Ok(None));
        assert_eq!(exists(&folder, "v0.1.0"), Ok(true));
        git(&["commit", "-q", "--allow-empty", "-m", "second"]);
        assert_eq!(last(&folder), Ok(Some("v0.1.0".to_owned())));
        git(&["tag", "v0.2.0"]);
        assert_eq!(last(&folder), Ok(Some("v0.1.0".to_owned())));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
