//! Circles of imports: files that need each other can only be read and changed together.
//!
//! Two kinds of circles are found. In a circle of files each imports an item of the next one, also by the name of a module
//! that exports the item again. In a circle of folders a file imports a module, and a file inside that module leads back.
//!
//! Imports between a module and those inside it do not count, and neither do imports of tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The sources of the crates.
const SOURCES: [&str; 5] = [
    "statemachine/src",
    "src",
    "exec/src",
    "cli/src",
    "xtask/src",
];

/// The circles that are known, each by its crate and its modules in order. One that is gone has to go from this list.
const KNOWN: [(&str, &[&str]); 1] = [(
    "src",
    &[
        "schedule::data",
        "schedule::deadlines",
        "schedule::run",
        "schedule::spec",
        "schedule::tally",
        "schedule::times",
    ],
)];

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
    // Where a module has an item from, which others may import from there.
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

/// Returns the paths that the `use` declarations of a text name, without those of its tests.
fn uses(text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut declaration: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("mod tests") {
            break;
        }
        let begins = |line: &str| {
            let open = line.strip_prefix("pub").map_or(line, |rest| {
                let rest = rest.trim_start();
                let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                inside.map_or(rest, |(_, rest)| rest.trim_start())
            });
            open.strip_prefix("use ").map(str::to_owned)
        };
        match &mut declaration {
            None => declaration = begins(line),
            Some(_) if line.starts_with("//") => {}
            Some(before) => before.push_str(line),
        }
        if let Some((whole, _)) = declaration.as_deref().and_then(|text| text.split_once(';')) {
            tree(whole, &mut Vec::new(), &mut paths);
            declaration = None;
        }
    }
    paths
}

/// Adds the paths of a tree such as `a::{b, c::{d, e}}`.
fn tree(text: &str, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let text = match text.contains('{') {
        true => text,
        false => text.split(" as ").next().unwrap_or(text),
    };
    let depth = before.len();
    let head = text.split('{').next().unwrap_or(text);
    for name in head
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        before.push(name.to_owned());
    }
    match text.find('{') {
        None => paths.push(before.clone()),
        Some(open) => {
            let close = text.rfind('}').filter(|close| *close > open);
            let inner = text.get(open + 1..close.unwrap_or(text.len()));
            for part in parts(inner.unwrap_or_default()) {
                tree(part, before, paths);
            }
        }
    }
    before.truncate(depth);
}

/// Divides the inside of braces at its own commas.
fn parts(inner: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns the module that a path of `module` leads to, the longest beginning that is one, and the name of an item in it.
fn resolve(
    module: &str,
    path: &[String],
    texts: &BTreeMap<Module, String>,
) -> Option<(Module, Option<String>)> {
    let below = |folder: &str, name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}::{name}"),
    };
    let mut names: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut rest = path.iter().map(String::as_str).peekable();
    match *rest.peek()? {
        "crate" => {
            names.clear();
            rest.next();
        }
        "self" => drop(rest.next()),
        "super" => {}
        // A module inside this one, or another crate.
        name if texts.contains_key(&below(module, name)) => {}
        _ => return None,
    }
    while rest.next_if_eq(&"super").is_some() {
        names.pop();
    }
    let mut found = names.join("::");
    for name in rest {
        let next = below(&found, name);
        if !texts.contains_key(&next) {
            return Some((found, Some(name.to_owned())));
        }
        found = next;
    }
    Some((found, None))
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
        let module = |path: &str| module_of(Path::new("src"), &Path::new("src").join(path));
        assert_eq!(module("a/mod.rs").as_deref(), Some("a"));
        assert_eq!(module("lib.rs").as_deref(), Some(""));
        assert_eq!(module("a/tests.rs"), None);
    }
}
