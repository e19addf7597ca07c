//! The licences of the crates that a program contains: most ask that their text is given with it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{fault, name, targets::FEATURES};
use crate::cargo;

/// How the names of files with a licence begin, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// A crate of the program.
#[derive(Debug, serde::Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

/// The text of the file for the program of a target: the crates with their licences, then each text once.
///
/// # Errors
///
/// When cargo does not list the crates, and when a file cannot be read.
pub(super) fn of(triple: &str) -> Result<String, String> {
    let contained = contained(triple)?;
    let mut packages = packages()?;
    // Those of the workspace have the licence of windlass.
    packages.retain(|package| {
        package.source.is_some()
            && contained.contains(&(package.name.clone(), package.version.clone()))
    });
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    if packages.len() < 50 {
        return Err(format!(
            "cargo lists {} crates in the program, which cannot be all",
            packages.len()
        ));
    }
    let mut texts = Texts::default();
    let mut list = String::new();
    for package in &packages {
        let title = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see below");
        list += &format!("{title}: {licence}\n");
        for text in texts_of(package.manifest_path.parent().unwrap_or(Path::new(".")))? {
            texts.add(text, &title);
        }
    }
    let mut written = format!(
        "The program windlass contains these crates. Their licences follow the list. It also contains the standard library\n\
         of Rust (MIT OR Apache-2.0) and SQLite (public domain).\n\n{list}"
    );
    for (text, of) in texts.0.into_values() {
        let line = "-".repeat(80);
        written += &format!(
            "\n{line}\n{}\n{line}\n\n{}\n",
            of.join(", "),
            text.trim_end()
        );
    }
    Ok(written)
}

/// Texts with the crates that have them, by their words: many copies of a licence differ in their indentation alone.
#[derive(Default)]
struct Texts(BTreeMap<String, (String, Vec<String>)>);

impl Texts {
    fn add(&mut self, text: String, of: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (_, crates) = (self.0.entry(words.join(" "))).or_insert_with(|| (text, Vec::new()));
        if crates.last().is_none_or(|last| last != of) {
            crates.push(of.to_owned());
        }
    }
}

/// Names and versions of the crates that are linked into the program.
fn contained(triple: &str) -> Result<std::collections::BTreeSet<(String, String)>, String> {
    let mut tree = cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "windlass-cli",
        "--features",
        FEATURES,
    ]);
    tree.args(["--target", triple, "--edges", "normal", "--prefix", "none"]);
    let text = printed("cargo tree", &mut tree)?;
    let crates = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let version = words.next()?.strip_prefix('v')?;
        Some((name.to_owned(), version.to_owned()))
    });
    Ok(crates.collect())
}

fn packages() -> Result<Vec<Package>, String> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut metadata = cargo();
    metadata.args([
        "metadata",
        "--locked",
        "--all-features",
        "--format-version",
        "1",
    ]);
    let text = printed("cargo metadata", &mut metadata)?;
    let metadata: Metadata = serde_json::from_str(&text)
        .map_err(|e| format!("cargo metadata could not be read: {e}"))?;
    Ok(metadata.packages)
}

/// The texts of the licences in the folder of a crate.
fn texts_of(folder: &Path) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for file in super::files(folder)? {
        let is_licence = is_licence(&name(&file));
        if is_licence {
            let bytes = fs::read(&file).map_err(|e| fault(&file, &e))?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

fn is_licence(file: &str) -> bool {
    let file = file.to_uppercase();
    NAMES.iter().any(|name| file.starts_with(name))
}

fn printed(what: &str, command: &mut Command) -> Result<String, String> {
    let out = command.output();
    let out = out.map_err(|e| format!("{what}: could not be started: {e}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(format!(
            "{what}: {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_licences_are_known_by_their_names() {
        assert!(
            [
                "LICENSE-MIT",
                "license",
                "COPYING",
                "UNLICENSE",
                "LICENCE.md"
            ]
            .into_iter()
            .all(is_licence)
        );
        assert!(
            !["README.md", "Cargo.toml", "lib.rs"]
                .into_iter()
                .any(is_licence)
        );
    }

    #[test]
    fn the_licences_of_the_program_name_its_crates_and_not_those_of_tests() {
        let text = of("x86_64-unknown-linux-gnu").unwrap();
        for named in [
            "\ntokio 1.",
            "\nrusqlite 0.",
            "\netcd-client 0.",
            "\nring 0.",
            "Permission is hereby granted",
        ] {
            assert!(text.contains(named), "{named}");
        }
        assert!(
            !text.contains("\nproptest ") && !text.contains("\nwindlass"),
            "{}",
            &text[..2000]
        );
    }

    #[test]
    fn a_text_that_several_crates_have_is_written_once() {
        let mut texts = Texts::default();
        for (of, text) in [
            ("a 1", "You may\n"),
            ("b 1", "  You\n  may"),
            ("b 1", "You may"),
            ("c 1", "You must"),
        ] {
            texts.add(text.to_owned(), of);
        }
        let texts: Vec<_> = texts.0.into_values().collect();
        let (first, second) = (&texts[0], &texts[1]);
        assert_eq!(
            (first.0.as_str(), first.1.join(",")),
            ("You may\n", "a 1,b 1".to_owned())
        );
        assert_eq!(
            (second.0.as_str(), second.1.join(",")),
            ("You must", "c 1".to_owned())
        );
        assert_eq!(texts.len(), 2);
    }
}
