//! Circles of imports: files that need each other can only be read and changed together.
//!
//! Two kinds of circles are found. In a circle of files each imports an item of the next one, also by the name of a module
//! that exports the item again. In a circle of folders a file imports a module, and a file inside that module leads back.
//!
//! Imports between a module and those inside it do not count, and neither do imports of tests.

mod imports;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use self::imports::{resolve, uses};

/// The sources of the crates.
const SOURCES: [&str; 7] = [
    "statemachine/src",
    "macros/src",
    "src",
    "exec/src",
    "server/src",
    "cli/src",
    "xtask/src",
];

/// The circles that are known, each by its crate and its modules in order. One that is gone has to go from this list.
const KNOWN: [(&str, &[&str]); 3] = [
    // A command is a message, the module of messages exports what sends one, and the stored form of a command makes one.
    (
        "statemachine/src",
        &["command", "message", "operation::send", "record::command"],
    ),
    // The same, through the modules that export them.
    (
        "statemachine/src",
        &[
            "command",
            "message",
            "message::effects",
            "operation",
            "operation::send",
            "record",
            "record::command",
        ],
    ),
    // A schedule keeps the data of the one that it replaces, and the tally of its times visits these.
    (
        "src",
        &[
            "schedule::check",
            "schedule::data",
            "schedule::deadlines",
            "schedule::run",
            "schedule::spec",
            "schedule::tally",
            "schedule::times",
        ],
    ),
];

/// A module by its path: `store::copy::lines`.
type Module = String;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Checks all crates. Returns what is wrong, a line each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: BTreeSet<(&str, Vec<Module>)> = KNOWN
        .iter()
        .map(|(source, circle)| (*source, circle.iter().map(ToString::to_string).collect()))
        .collect();
    for source in SOURCES {
        match circles(&root.join(source)) {
            Ok(circles) => {
                for circle in circles {
                    let names = circle.join(", ");
                    if !known.remove(&(source, circle)) {
                        wrong.push(format!(
                            "these modules of {source} import each other: {names}; move what both need into a module \
                             below them"
                        ));
                    }
                }
            }
            Err(error) => wrong.push(format!("could not read {source}: {error}")),
        }
    }
    wrong.extend(known.into_iter().map(|(source, circle)| {
        let names = circle.join(", ");
        format!(
            "the circle {names} of {source} is gone; delete it from KNOWN in xtask/src/circles.rs"
        )
    }));
    wrong
}

fn circles(source: &Path) -> std::io::Result<Vec<Vec<Module>>> {
    let mut files = Vec::new();
    collect(source, &mut files)?;
    let mut texts = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        if let Some(module) = module_of(source, &file) {
            texts.insert(module, text);
        }
    }
    Ok(found(&texts))
}

/// Returns the circles of files and those of folders.
fn found(texts: &BTreeMap<Module, String>) -> Vec<Vec<Module>> {
    let files = strong(&of_files(texts));
    let folders = strong(&of_folders(texts));
    let all: BTreeSet<Vec<Module>> = files.into_iter().chain(folders).collect();
    all.into_iter().collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the path of a file's module; empty for the crate itself. `None` for a file of tests.
fn module_of(source: &Path, file: &Path) -> Option<Module> {
    let path = file.strip_prefix(source).ok()?.with_extension("");
    let mut names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    if matches!(names.last(), Some(&"mod" | &"lib" | &"main")) {
        names.pop();
    }
    let is_of_tests = |name: &&str| *name == "tests" || name.ends_with("_tests");
    (!names.iter().any(is_of_tests)).then(|| names.join("::"))
}

/// Returns which module has the items that each one imports.
fn of_files(texts: &BTreeMap<Module, String>) -> Graph {
    // The source of an item that a module exports again.
    let mut exports: BTreeMap<(Module, String), Module> = BTreeMap::new();
    for (module, text) in texts {
        for path in uses(text) {
            if let Some((target, Some(item))) = resolve(module, &path, texts) {
                exports.insert((module.clone(), item), target);
            }
        }
    }
    let origin = |(mut target, item): (Module, Option<String>)| {
        let Some(item) = item else { return target };
        let mut seen = BTreeSet::new();
        while seen.insert(target.clone())
            && let Some(next) = exports.get(&(target.clone(), item.clone()))
        {
            target = next.clone();
        }
        target
    };
    graph(texts, origin)
}

/// Returns which module each one names in its imports, and which modules each folder has.
fn of_folders(texts: &BTreeMap<Module, String>) -> Graph {
    let mut graph = graph(texts, |(target, _)| target);
    for module in texts.keys() {
        if let Some((folder, _)) = module.rsplit_once("::") {
            let inside = graph.entry(folder.to_owned()).or_default();
            inside.insert(module.clone());
        }
    }
    graph
}

/// Returns which module imports which. `target` decides which module an import leads to.
fn graph(
    texts: &BTreeMap<Module, String>,
    target: impl Fn((Module, Option<String>)) -> Module,
) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in texts {
        let imports = graph.entry(module.clone()).or_default();
        for path in uses(text) {
            let Some(target) = resolve(module, &path, texts).map(&target) else {
                continue;
            };
            let is_inside = |one: &str, other: &str| {
                one == other || other.is_empty() || one.starts_with(&format!("{other}::"))
            };
            if !is_inside(module, &target) && !is_inside(&target, module) {
                imports.insert(target);
            }
        }
    }
    graph
}

/// Returns the sets of modules that reach each other.
fn strong(graph: &Graph) -> Vec<Vec<Module>> {
    let reach = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for next in graph.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        graph.keys().map(|module| (module, reach(module))).collect();
    let mut circles: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, seen) in &reached {
        if !seen.contains(*module) {
            continue;
        }
        let back = |other: &&Module| reached.get(other).is_some_and(|all| all.contains(*module));
        circles.insert(seen.iter().filter(back).cloned().collect());
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<Module>> {
        let texts = files
            .iter()
            .map(|(module, text)| (module.to_string(), text.to_string()));
        super::found(&texts.collect())
    }

    #[test]
    fn a_circle_is_found_through_trees_and_other_modules() {
        let files = [
            ("", "mod a; mod b; mod c;"),
            ("a", "use super::{b::{Thing, Other as X}, c};"),
            ("b", "use crate::c::deep::Y;"),
            ("c", "mod deep;\nuse super::d;"),
            ("c::deep", "use super::super::a::Z;"),
            ("d", "// use super::a;\nuse std::a;"),
        ];
        let (of_files, of_folders) = (vec!["a", "b", "c::deep"], vec!["a", "b", "c", "c::deep"]);
        assert_eq!(found(&files), [of_folders, of_files]);
    }

    #[test]
    fn a_circle_is_found_through_a_module_that_exports_an_item_again() {
        let files = [
            ("a", "mod one; mod two;\npub use self::one::X;\nuse two::Y;"),
            ("a::one", "use super::Y;"),
            ("a::two", "use super::X;"),
        ];
        assert_eq!(found(&files), [["a::one", "a::two"]]);
    }

    #[test]
    fn a_circle_is_found_through_a_folder() {
        let files = [
            ("a", "mod one; mod two;\npub use two::X;"),
            ("a::one", "use crate::b::Y;"),
            ("a::two", ""),
            ("b", "use crate::a::X;"),
        ];
        assert_eq!(found(&files), [["a", "a::one", "b"]]);
    }

    #[test]
    fn a_module_and_those_inside_it_are_one() {
        let files = [
            ("", "use a::X;"),
            ("a", "mod b;\nuse self::b::Y;"),
            ("a::b", "use super::X;"),
        ];
        assert_eq!(found(&files), [] as [Vec<Module>; 0]);
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let files = [
            ("a", "use super::b::X;"),
            ("b", "#[cfg(test)]\nmod tests {\n    use crate::a::Y;\n}"),
        ];
        assert_eq!(found(&files), [] as [Vec<Module>; 0]);
        let shared = "#[cfg(test)]\npub(super) mod tests {\n    use crate::a::Y;\n}";
        let files = [("a", "use super::b::X;"), ("b", shared)];
        assert_eq!(found(&files), [] as [Vec<Module>; 0]);
        let module = |path: &str| module_of(Path::new("src"), &Path::new("src").join(path));
        assert_eq!(module("a/mod.rs").as_deref(), Some("a"));
        assert_eq!(module("lib.rs").as_deref(), Some(""));
        assert_eq!(module("a/tests.rs"), None);
    }
}
