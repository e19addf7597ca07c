//! Planted mutants: defects that are put into a copy of the tree, each behind a switch that the environment sets when a program
//! runs. One build is therefore enough for all of them, and the shipped code has none.
//!
//! | module | what |
//! |---|---|
//! | [`mod@workers`] | `cargo xtask mutants workers`: each rule of the remote workers is broken, and a named test has to fail |
//! | [`mod@simulation`] | `cargo xtask mutants simulation`: old defects come back, and the simulation has to find them |
//! | [`defects`] | the list of these defects |
//! | [`seeds`] | runs seeds of the simulation until one fails |

mod defects;
mod seeds;
mod simulation;
mod workers;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(crate) use self::{simulation::simulation, workers::workers};
use crate::root;

/// The variable that names the planted mutant.
const SWITCH: &str = "WINDLASS_PLANTED";

/// The marks around the expression within its context ([`within`]).
const MARKS: [char; 2] = ['⟨', '⟩'];

/// An expression that a mutant replaces.
struct Edit {
    file: &'static str,
    /// Which of the places with this text; the first is 1. An expression within its context has one place.
    place: usize,
    /// The expression, or the expression between the marks within its context.
    from: &'static str,
    to: &'static str,
}

/// Returns an edit of an expression: `place` says which of the equal expressions of the file.
const fn edit(file: &'static str, place: usize, from: &'static str, to: &'static str) -> Edit {
    Edit {
        file,
        place,
        from,
        to,
    }
}

/// Returns an edit of the expression between `⟨` and `⟩`. The file has the whole text once.
const fn within(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    edit(file, 1, from, to)
}

impl Edit {
    /// Returns where the expression begins in a file, and the expression.
    fn find(&self, text: &str) -> Result<(usize, &'static str), String> {
        let wrong = |what: &str| Err(format!("{} {what} '{}'", self.file, self.from));
        let marked = self.from.split_once(MARKS[0]);
        let marked = marked.and_then(|(before, rest)| Some((before, rest.split_once(MARKS[1])?)));
        let Some((before, (expression, after))) = marked else {
            let mut places = text.match_indices(self.from);
            return match places.nth(self.place - 1) {
                Some((at, _)) => Ok((at, self.from)),
                None => wrong(&format!("has no place {} with", self.place)),
            };
        };
        let whole = format!("{before}{expression}{after}");
        let mut places = text.match_indices(&whole).map(|(at, _)| at);
        match (places.next(), places.next()) {
            (Some(at), None) => Ok((at + before.len(), expression)),
            (None, _) => wrong("has no place with"),
            (Some(_), Some(_)) => wrong("has several places with"),
        }
    }

    /// Returns the root of the crate that the file is in.
    fn crate_root(&self) -> String {
        let folder = self
            .file
            .split_once("src/")
            .map_or("", |(folder, _)| folder);
        format!("{folder}src/lib.rs")
    }
}

/// Copies the tree into `folder/tree`, with a switch for each mutant. Returns the copy, and the folder in which cargo builds it.
fn plant<'m>(
    folder: &Path,
    mutants: impl IntoIterator<Item = (&'static str, &'m [Edit])>,
) -> Result<(PathBuf, PathBuf), String> {
    let tree = folder.join("tree");
    copy(&tree)?;
    for (file, text) in switched(&root(), mutants)? {
        let path = tree.join(&file);
        fs::write(&path, text).map_err(|e| format!("could not write {}: {e}", path.display()))?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok((tree, target.unwrap_or_else(|| folder.join("build"))))
}

/// Copies the files that git knows, and new ones.
fn copy(tree: &Path) -> Result<(), String> {
    let script = "rm -rf \"$1\" && mkdir -p \"$1\" && git ls-files -z --cached --others --exclude-standard \
                  | xargs -0 cp --parents -t \"$1\"";
    let copied = Command::new("sh")
        .current_dir(root())
        .args(["-c", script, "sh"])
        .arg(tree)
        .status();
    match copied {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("could not copy the tree to {}", tree.display())),
    }
}

/// An expression with the switches of its mutants.
struct Place {
    length: usize,
    switch: String,
}

/// Returns each file that has a switch, with its text.
fn switched<'m>(
    root: &Path,
    mutants: impl IntoIterator<Item = (&'static str, &'m [Edit])>,
) -> Result<BTreeMap<String, String>, String> {
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).map_err(|e| format!("could not read {file}: {e}"))
    };
    let mut texts = BTreeMap::new();
    let mut roots = BTreeSet::new();
    let mut files = BTreeMap::<&str, BTreeMap<usize, Place>>::new();
    for (name, edits) in mutants {
        for edit in edits {
            if !texts.contains_key(edit.file) {
                texts.insert(edit.file.to_owned(), read(edit.file)?);
            }
            roots.insert(edit.crate_root());
            let found = edit.find(&texts[edit.file]);
            let (at, from) = found.map_err(|why| format!("{name}: {why}"))?;
            let places = files.entry(edit.file).or_default();
            let place = places.entry(at).or_insert_with(|| Place {
                length: from.len(),
                switch: from.to_owned(),
            });
            if place.length != from.len() {
                return Err(format!("{name}: another mutant begins at '{from}'"));
            }
            let (to, rest) = (edit.to, &place.switch);
            place.switch = format!("if crate::is_planted(\"{name}\") {{ {to} }} else {{ {rest} }}");
        }
    }
    for (file, places) in files {
        let text = texts.entry(file.to_owned()).or_default();
        let mut next = usize::MAX;
        // The later places of a file first, so that the earlier ones stay where they are.
        for (at, Place { length, switch }) in places.into_iter().rev() {
            if at + length > next {
                return Err(format!("{file}: two mutants overlap at '{switch}'"));
            }
            text.replace_range(at..at + length, &format!("({switch})"));
            next = at;
        }
    }
    let switch = format!(
        "\npub(crate) fn is_planted(name: &str) -> bool {{\n    static PLANTED: std::sync::OnceLock<Option<String>> = \
         std::sync::OnceLock::new();\n    let planted = PLANTED.get_or_init(|| std::env::var(\"{SWITCH}\").ok());\n    \
         planted.as_deref() == Some(name)\n}}\n"
    );
    for file in roots {
        let text = match texts.remove(&file) {
            Some(text) => text,
            None => read(&file)?,
        };
        texts.insert(file, text + &switch);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "if a == b { c() }\nif a == b { d() }\n";

    #[test]
    fn an_expression_is_found_by_its_place_or_by_its_context() {
        for (edit, found) in [
            (edit("f", 2, "a == b", "true"), Ok((21, "a == b"))),
            (within("f", "if ⟨a == b⟩ { d", "true"), Ok((21, "a == b"))),
            (edit("f", 3, "a == b", "true"), Err("has no place 3")),
            (within("f", "if ⟨a == b⟩ {", "true"), Err("several places")),
            (within("f", "if ⟨a⟩ { d", "true"), Err("has no place")),
        ] {
            match (edit.find(TEXT), found) {
                (Ok(is), Ok(expected)) => assert_eq!(is, expected),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (is, _) => panic!("{}: {is:?}", edit.from),
            }
        }
    }

    #[test]
    fn mutants_of_one_expression_have_a_switch_each_and_overlaps_are_refused() {
        let folder = std::env::temp_dir().join(format!("xtask-planted-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "mod f;\n").unwrap();
        fs::write(folder.join("src/f.rs"), TEXT).unwrap();
        let planted = |mutants: &[(&'static str, Edit)]| {
            let mutants = mutants.iter();
            switched(
                &folder,
                mutants.map(|(name, edit)| (*name, std::slice::from_ref(edit))),
            )
        };
        let of = |from, to| edit("src/f.rs", 1, from, to);
        let both = planted(&[("x", of("a == b", "true")), ("y", of("a == b", "false"))]).unwrap();
        let switch = "if (if crate::is_planted(\"y\") { false } else { if crate::is_planted(\"x\") \
                      { true } else { a == b } }) { c() }\n";
        assert!(both["src/f.rs"].starts_with(switch), "{}", both["src/f.rs"]);
        assert!(both["src/lib.rs"].contains("fn is_planted("));
        let overlap = planted(&[("x", of("a == b", "true")), ("y", of("== b { c", "false"))]);
        let same = planted(&[("x", of("a == b", "true")), ("y", of("a ==", "false"))]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(overlap.unwrap_err().contains("overlap"));
        assert!(same.unwrap_err().contains("another mutant"));
    }
}
