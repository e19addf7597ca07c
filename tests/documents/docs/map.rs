//! `docs/README.md` lists the pages with a line for each. The summary of the site and `llms.txt` are made of it.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::read;

/// The most words that the pages for users have together.
const WORDS: usize = 45_000;

/// Pages that are generated, or describe every field: programs and searches read them, nobody from end to end.
const GENERATED: [&str; 3] = [
    "reference/cli.md",
    "reference/json.md",
    "reference/metrics.md",
];

/// Where the pages are read as Markdown.
const RAW: &str = "https://raw.githubusercontent.com/windlass-rs/windlass/main/docs";

const WRITE: &str = "write it again: cargo test --workspace --all-features --test documents -- --ignored write_the_maps";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A row of `docs/README.md`.
struct Page {
    title: String,
    path: String,
    does: String,
}

/// Returns the parts of `docs/README.md`: name and pages.
fn parts() -> Vec<(String, Vec<Page>)> {
    let text = read("docs/README.md");
    let parts = text.split("\n## ").skip(1);
    let parts = parts.map(|part| {
        let name = part.lines().next().unwrap().to_owned();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| ["));
        let pages = rows.map(|row| {
            let (title, rest) = row.split_once("](").unwrap();
            let (path, does) = rest.split_once(") | ").unwrap();
            Page {
                title: title.to_owned(),
                path: path.to_owned(),
                does: does.trim_end_matches([' ', '|']).to_owned(),
            }
        });
        (name, pages.collect())
    });
    parts.collect()
}

/// The summary of the site, in mdBook's form.
fn summary() -> String {
    let mut text = "# Summary\n\n[The documents](README.md)\n".to_owned();
    for (part, pages) in parts() {
        write!(text, "\n# {part}\n\n").unwrap();
        for page in pages {
            writeln!(text, "- [{}]({})", page.title, page.path).unwrap();
        }
    }
    text
}

/// The map for language models, in the form of llmstxt.org.
fn map() -> String {
    let about = read("docs/README.md");
    let about = about.split("\n\n").nth(1).unwrap();
    let about = about
        .split(" Start with")
        .next()
        .unwrap()
        .replace('\n', " ");
    let mut text = format!(
        "# windlass\n\n> {about}\n\nThe library is the Rust crate `windlass`; the command line is the program `windlass`; the package \
         for Python is `windlass-tasks` (`import windlass_tasks`). One machine needs a SQLite file and no server; a cluster \
         needs etcd. A handler is an async function that returns a message (run, sleep, pause, release, checkpoint, error, \
         complete, kill); each transition is durable before the next step. Code between two writes runs at least once.\n"
    );
    for (part, pages) in parts() {
        // Pages of this name may be left out where space is short.
        let part = if part == "Internals" {
            "Optional"
        } else {
            &part
        };
        write!(text, "\n## {part}\n\n").unwrap();
        for page in pages {
            let Page { title, path, does } = page;
            writeln!(text, "- [{title}]({RAW}/{path}): {does}").unwrap();
        }
    }
    text
}

/// Returns every page below `docs`, by its path from there.
fn pages() -> BTreeSet<String> {
    let docs = root().join("docs");
    let mut pages = BTreeSet::new();
    for folder in ["learn", "operate", "reference", "internals"] {
        for entry in fs::read_dir(docs.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.insert(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

#[test]
fn the_index_lists_each_page_once_in_the_part_of_its_folder() {
    let mut listed = BTreeSet::new();
    for (part, pages) in parts() {
        for page in pages {
            let folder = page.path.split('/').next().unwrap();
            assert_eq!(folder, part.to_lowercase(), "{}", page.path);
            assert!(page.does.len() > 20, "{} has no line", page.path);
            assert!(
                listed.insert(page.path.clone()),
                "{} is there twice",
                page.path
            );
        }
    }
    assert_eq!(listed, pages());
}

/// Returns the files that are made of the index, with their texts.
fn made() -> [(PathBuf, String); 2] {
    [
        (root().join("docs/SUMMARY.md"), summary()),
        (root().join("llms.txt"), map()),
    ]
}

#[test]
fn the_summary_and_the_map_for_language_models_are_those_of_the_index() {
    for (path, text) in made() {
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} is stale; {WRITE}", path.display());
    }
}

#[test]
#[ignore = "writes docs/SUMMARY.md and llms.txt"]
fn write_the_maps() {
    for (path, text) in made() {
        fs::write(path, text).unwrap();
    }
}

/// Whether a line is a row of the table of requests, which is generated (`server/src/reference.rs`).
fn is_request(line: &str) -> bool {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    methods
        .iter()
        .any(|method| line.starts_with(&format!("| `{method} /")))
}

/// Reading takes time: a page that grows makes another one shorter.
#[test]
fn the_pages_for_users_have_at_most_45_000_words() {
    let mut counted = Vec::new();
    let user =
        |page: &&String| !page.starts_with("internals/") && !GENERATED.contains(&page.as_str());
    for page in pages().iter().filter(user) {
        let text = read(&format!("docs/{page}"));
        let lines = text.lines().filter(|line| !is_request(line));
        let words = lines.flat_map(str::split_whitespace).count();
        counted.push((words, page.clone()));
    }
    counted.sort();
    let all: usize = counted.iter().map(|(words, _)| words).sum();
    assert!(all <= WORDS, "{all} words: {counted:#?}");
    assert!(all > WORDS / 3, "the pages were not found");
}

/// The README is for the first two minutes.
#[test]
fn the_readme_has_less_than_900_words() {
    let words = read("README.md").split_whitespace().count();
    assert!(words < 900, "{words} words");
}
