//! The public surface of the libraries, as a list: `docs/reference/api.txt`.
//!
//! The list is made of the sources, because the JSON of rustdoc needs a nightly compiler. Every item that is `pub` is
//! public: the lint `unreachable_pub` refuses one that no path leads to. Code that is compiled only for tests is left out;
//! features, operating systems and the order of the items make no difference.

mod print;
mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use read::Surface;

/// The list, from the root of the workspace.
const LIST: &str = "docs/reference/api.txt";

/// The libraries, each with the folder of its sources.
const LIBRARIES: [(&str, &str); 4] = [
    ("windlass", "src"),
    ("windlass_macros", "macros/src"),
    ("windlass_server", "server/src"),
    ("windlass_statemachine", "statemachine/src"),
];

/// How many lines of a difference are shown.
const SHOWN: usize = 20;

const HEAD: &str = "The public items of the libraries. `cargo xtask api` writes this list; `cargo xtask verify api` compares it with \
                    the sources.\n";

/// Compares the list with the sources. Returns what differs.
pub(crate) fn check(root: &Path) -> Option<String> {
    let (listed, found) = match (fs::read_to_string(root.join(LIST)), list(root)) {
        (Ok(listed), Ok(found)) => (listed, found),
        (Err(error), _) => return Some(format!("could not read {LIST}: {error}")),
        (_, Err(error)) => return Some(error),
    };
    difference(&listed, &found)
}

/// Writes the list.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let list = list(root)?;
    let written = fs::write(root.join(LIST), list);
    written.map_err(|error| format!("could not write {LIST}: {error}"))
}

fn list(root: &Path) -> Result<String, String> {
    let mut list = HEAD.to_owned();
    for (name, sources) in LIBRARIES {
        let mut surface = Surface::default();
        surface.library(name, &root.join(sources).join("lib.rs"))?;
        for (module, lines) in surface.into_modules() {
            list.push_str(&format!("\n# {module}\n"));
            for line in lines {
                list.push_str(&line);
                list.push('\n');
            }
        }
    }
    Ok(list)
}

/// The lines of each module.
fn modules(list: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut module = "";
    for line in list.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(name) => module = name,
            None => drop(modules.entry(module).or_default().insert(line)),
        }
    }
    modules
}

fn difference(listed: &str, found: &str) -> Option<String> {
    if listed == found {
        return None;
    }
    let (old, new) = (modules(listed), modules(found));
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let none = BTreeSet::new();
    let mut lines = Vec::new();
    for name in names {
        let (old, new) = (
            old.get(name).unwrap_or(&none),
            new.get(name).unwrap_or(&none),
        );
        lines.extend(old.difference(new).map(|line| format!("- {name}: {line}")));
        lines.extend(new.difference(old).map(|line| format!("+ {name}: {line}")));
    }
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    Some(format!(
        "the public surface is not that of {LIST}; note a change for users in CHANGELOG.md, and write the list with \
         `cargo xtask api`:\n{}",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_sources() {
        assert_eq!(check(&crate::root()), None);
    }

    #[test]
    fn a_difference_names_the_module_and_the_line() {
        let old = "# a\nfn one()\nfn two()\n";
        let text = difference(old, "# a\nfn one()\n# b\nfn three()\n").unwrap_or_default();
        assert!(text.ends_with("- a: fn two()\n+ b: fn three()"), "{text}");
        assert_eq!(difference(old, old), None);
    }
}
