//! The `use` declarations of a text, and the modules that they lead to.

use std::collections::BTreeMap;

use super::Module;

/// Returns the paths that the `use` declarations of a text name, without those of its tests.
pub(super) fn uses(text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut declaration: Option<String> = None;
    for line in text.lines().map(str::trim) {
        let item = without_visibility(line);
        if item.starts_with("mod tests") {
            break;
        }
        match &mut declaration {
            None => declaration = item.strip_prefix("use ").map(str::to_owned),
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

/// Returns an item without its `pub` or `pub(…)`.
fn without_visibility(item: &str) -> &str {
    item.strip_prefix("pub").map_or(item, |rest| {
        let rest = rest.trim_start();
        let inside = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        inside.map_or(rest, |(_, rest)| rest.trim_start())
    })
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
pub(super) fn resolve(
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
