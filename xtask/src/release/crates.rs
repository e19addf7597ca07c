//! The packages of the crates, in the order in which they are published.

use std::{fs, path::Path, process::Command};

use super::{VERSION, delete_old, dist, fault};
use crate::{
    packages::{self, PUBLISHED},
    target,
};

/// The most that crates.io takes, in bytes.
const MOST: u64 = 10 * 1024 * 1024;
/// The files that each package has.
const NEEDED: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs"];

/// Packs the crates, checks that they build from the files of their packages, and what the packages have.
///
/// # Errors
///
/// When one cannot be packed or built, lacks a file, or is too large.
pub(super) fn rehearse(protoc: &Path) -> Result<(), String> {
    delete_old(|name| name.ends_with(".crate"))?;
    packages::check(protoc, &packages::Compiler::This)?;
    for (n, name) in PUBLISHED.into_iter().enumerate() {
        let file = format!("{name}-{VERSION}.crate");
        let made = target().join("packaged/package").join(&file);
        let size = fs::metadata(&made).map_err(|e| fault(&made, &e))?.len();
        let lacking = lacking(&listed(&made)?, &format!("{name}-{VERSION}"));
        if !lacking.is_empty() {
            return Err(format!("{file} lacks {}", lacking.join(", ")));
        }
        if size > MOST {
            return Err(format!(
                "{file} has {size} bytes, and crates.io takes {MOST}"
            ));
        }
        fs::copy(&made, dist().join(&file)).map_err(|e| fault(&made, &e))?;
        eprintln!("    {}. {file}, {} KiB", n + 1, size / 1024);
    }
    Ok(())
}

fn listed(package: &Path) -> Result<Vec<String>, String> {
    let mut tar = Command::new("tar");
    let out = tar.arg("-tzf").arg(package).output();
    let out = out.map_err(|e| format!("tar: could not be started: {e}"))?;
    if !out.status.success() {
        return Err(format!(
            "{} cannot be read: {}",
            package.display(),
            out.status
        ));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

/// Those of the needed files that a package does not list.
fn lacking(listed: &[String], folder: &str) -> Vec<&'static str> {
    let is_there = |file: &&str| {
        listed
            .iter()
            .any(|path| *path == format!("{folder}/{file}"))
    };
    NEEDED.into_iter().filter(|file| !is_there(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_package_lacks_is_named() {
        let listed = [
            "a-1/Cargo.toml",
            "a-1/LICENSE-MIT",
            "a-1/src/lib.rs",
            "a-1/x/LICENSE-APACHE",
        ];
        let listed = listed.map(str::to_owned);
        assert_eq!(lacking(&listed, "a-1"), ["LICENSE-APACHE"]);
    }

    /// `cargo publish` refuses a crate whose dependencies are not published yet.
    #[test]
    fn each_crate_is_published_after_those_that_it_depends_on() {
        let mut published: Vec<&str> = Vec::new();
        for name in PUBLISHED {
            let folder = match name.strip_prefix("windlass-") {
                Some(folder) => crate::root().join(folder),
                None => crate::root(),
            };
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            // Up to the dependencies of tests, which are not needed for it.
            let package = manifest.split_once("[package]").unwrap().1;
            let needed = package
                .split_once("[dev-dependencies]")
                .map_or(package, |(before, _)| before);
            for other in PUBLISHED.into_iter().filter(|other| *other != name) {
                let is_needed = needed.lines().any(|line| {
                    line.split(['.', ' ']).next() == Some(other) && line.contains("workspace")
                });
                assert!(
                    !is_needed || published.contains(&other),
                    "{name} comes before {other}"
                );
            }
            published.push(name);
        }
    }
}
