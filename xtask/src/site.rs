//! The site of the documents: the pages of `docs/` by mdBook, in `target/site`.
//!
//! A link that leaves `docs/`, and one to a folder, leads to the public repository. After the build every link of every
//! page is followed.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{bounded, root, target, tools};

/// How long mdBook may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Where the files are that the site does not have.
const REPOSITORY: &str = "https://github.com/windlass-rs/windlass";

/// Builds the site, checks its links, and prints where it is.
///
/// # Errors
///
/// When mdBook cannot be fetched or fails, or a link leads nowhere: one line for each.
pub(crate) fn site() -> Result<(), String> {
    let site = build(&root(), &target())?;
    println!("{}", site.join("index.html").display());
    Ok(())
}

fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let (book, site) = (target.join("book"), target.join("site"));
    for folder in [&book, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed("remove", folder))?;
        }
    }
    stage(root, Path::new("docs"), &book)?;
    copy(&root.join("book.toml"), &book.join("book.toml"))?;
    let mut mdbook = Command::new(tools::mdbook(root)?);
    mdbook.arg("build").arg(&book).arg("--dest-dir").arg(&site);
    bounded::run("the site of the documents", LIMIT, &mut mdbook)?;
    copy(&root.join("llms.txt"), &site.join("llms.txt"))?;
    let mut pages = HashMap::new();
    read_pages(&site, Path::new(""), &mut pages)?;
    if pages.len() < 2 {
        return Err(format!("{} has no pages", site.display()));
    }
    let wrong = wrong_links(&pages, |file| site.join(file).is_file());
    if wrong.is_empty() {
        Ok(site)
    } else {
        Err(format!("links of the site: {}", wrong.join("; ")))
    }
}

fn failed(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("could not {verb} {path}: {error}")
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(failed("copy", from))
}

/// Copies a folder of the repository into the book, and turns the links of its pages.
fn stage(root: &Path, folder: &Path, book: &Path) -> Result<(), String> {
    let to = book.join(folder);
    fs::create_dir_all(&to).map_err(failed("create", &to))?;
    let from = root.join(folder);
    for entry in fs::read_dir(&from).map_err(failed("read", &from))? {
        let name = entry.map_err(failed("read", &from))?.file_name();
        let path = folder.join(&name);
        let (source, staged) = (root.join(&path), book.join(&path));
        if source.is_dir() {
            stage(root, &path, book)?;
        } else if path.extension().is_some_and(|e| e == "md") {
            let text = fs::read_to_string(&source).map_err(failed("read", &source))?;
            let turned = turned(&text, folder, |path| root.join(path).is_dir());
            fs::write(&staged, turned).map_err(failed("write", &staged))?;
        } else {
            copy(&source, &staged)?;
        }
    }
    Ok(())
}

/// Turns the links of a page in this folder that leave the site to the public repository.
fn turned(text: &str, folder: &Path, is_folder: impl Fn(&Path) -> bool) -> String {
    let mut parts = text.split("](");
    let mut turned = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        turned.push_str("](");
        let link = part.split(')').next().unwrap_or_default();
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = joined(folder, file);
        let leaves = !path.starts_with("docs") || is_folder(&path);
        if path == Path::new("docs/README.md") {
            // The first page of the site.
            turned.push_str(&part.replacen("README.md", "index.md", 1));
            continue;
        }
        if file.is_empty() || file.contains([':', ' ', '<', '`']) || !leaves {
            turned.push_str(part);
            continue;
        }
        let form = if is_folder(&path) { "tree" } else { "blob" };
        turned.push_str(&format!("{REPOSITORY}/{form}/main/{}", path.display()));
        if !anchor.is_empty() {
            turned.push_str(&format!("#{anchor}"));
        }
        turned.push_str(&part[link.len()..]);
    }
    turned
}

/// Joins paths without a look at the disk.
fn joined(folder: &Path, file: &str) -> PathBuf {
    let mut path = folder.to_path_buf();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Returns the links of the pages that lead to no file or no heading of the site.
fn wrong_links(pages: &HashMap<PathBuf, String>, is_file: impl Fn(&Path) -> bool) -> Vec<String> {
    let ids: HashMap<&PathBuf, HashSet<&str>> = pages
        .iter()
        .map(|(name, text)| (name, values(text, " id=\"").collect()))
        .collect();
    let mut wrong = Vec::new();
    for (name, text) in pages {
        let folder = name.parent().unwrap_or(Path::new(""));
        for link in values(text, " href=\"").chain(values(text, " src=\"")) {
            // `404.html` is served for every path, and names its files from the root.
            if link.contains(':') || name.ends_with("404.html") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = file.split('?').next().unwrap_or_default();
            let to = match file {
                "" => name.clone(),
                file => joined(folder, file),
            };
            let is_there = is_file(&to);
            let has_anchor = ids.get(&to).is_none_or(|ids| ids.contains(anchor));
            if !is_there || !(anchor.is_empty() || has_anchor) {
                wrong.push(format!("{}: {link}", name.display()));
            }
        }
    }
    wrong.sort();
    wrong
}

/// Reads each HTML page below a folder of the site, by its path from the site.
fn read_pages(
    site: &Path,
    folder: &Path,
    pages: &mut HashMap<PathBuf, String>,
) -> Result<(), String> {
    let from = site.join(folder);
    for entry in fs::read_dir(&from).map_err(failed("read", &from))? {
        let path = folder.join(entry.map_err(failed("read", &from))?.file_name());
        let file = site.join(&path);
        if file.is_dir() {
            read_pages(site, &path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") {
            let text = fs::read_to_string(&file).map_err(failed("read", &file))?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// The values of an attribute.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(attribute).skip(1);
    parts.filter_map(|part| part.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_site_lead_to_the_repository() {
        let text = "[a](tutorial.md) [b](../operate/server.md#tokens) [c](../../examples/etl.rs) [d](#x) \
                    [e](https://example.org) [f](../reference/schemas) [g](../../README.md#more) [h](../README.md)";
        let folder = Path::new("docs/learn");
        let turned = turned(text, folder, |path| path.ends_with("schemas"));
        assert_eq!(
            turned,
            "[a](tutorial.md) [b](../operate/server.md#tokens) \
             [c](https://github.com/windlass-rs/windlass/blob/main/examples/etl.rs) [d](#x) [e](https://example.org) \
             [f](https://github.com/windlass-rs/windlass/tree/main/docs/reference/schemas) \
             [g](https://github.com/windlass-rs/windlass/blob/main/README.md#more) [h](../index.md)"
        );
    }

    #[test]
    fn a_link_to_no_page_and_one_to_no_heading_are_found() {
        let index = r##"<a href="learn/a.html#one">"##;
        let page = r##"<h2 id="one"></h2><a href="#two"> <a href="b.html"> <img src="../x.svg"> <a href="https://a.b">"##;
        let pages = [("index.html", index), ("learn/a.html", page)];
        let pages = pages.map(|(name, text)| (PathBuf::from(name), text.to_owned()));
        let wrong = wrong_links(&HashMap::from(pages), |file| {
            file.ends_with("index.html") || file.ends_with("a.html")
        });
        let expected = ["#two", "../x.svg", "b.html"].map(|link| format!("learn/a.html: {link}"));
        assert_eq!(wrong, expected);
    }
}
