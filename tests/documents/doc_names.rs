//! Checks that the paths, tests, modules, chores and commands named in the documents exist.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Where the sources and the documents are.
const FOLDERS: [&str; 13] = [
    "src",
    "statemachine",
    "macros",
    "exec",
    "server",
    "cli",
    "tests",
    "xtask",
    "examples",
    "benches",
    "docs",
    "sdk",
    "deploy",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The documents that users and contributors read: name and text.
fn documents() -> Vec<(String, String)> {
    let mut names = Vec::new();
    for folder in [
        "docs",
        "docs/learn",
        "docs/operate",
        "docs/reference",
        "docs/internals",
    ] {
        let pages = fs::read_dir(root().join(folder)).unwrap();
        let pages = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
        let pages = pages.filter(|page| page.ends_with(".md"));
        names.extend(pages.map(|page| format!("{folder}/{page}")));
    }
    names.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "examples/README.md",
        ]
        .map(String::from),
    );
    let documents = names.into_iter().map(|name| {
        let text = read(&name);
        (name, text)
    });
    documents.collect()
}

/// The texts between backticks, outside of blocks.
fn quoted(text: &str) -> Vec<&str> {
    let outside = text.split("\n```").step_by(2);
    let quoted = outside.flat_map(|part| part.split('`').skip(1).step_by(2));
    quoted.collect()
}

/// Every file of the workspace, by its path from the root.
fn files() -> Vec<PathBuf> {
    fn below(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files.push(path.strip_prefix(root()).unwrap().to_path_buf());
            } else if !path.ends_with("target") {
                below(&path, files);
            }
        }
    }
    let mut files = Vec::new();
    for folder in FOLDERS {
        below(&root().join(folder), &mut files);
    }
    files
}

/// The text of every source file in Rust, Go and Python, joined.
fn sources() -> String {
    let is_source = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| e == "rs" || e == "go" || e == "py")
    };
    let own = |path: &PathBuf| path.ends_with(file!());
    let sources = files().into_iter().filter(|p| is_source(p) && !own(p));
    let texts = sources.map(|path| fs::read_to_string(root().join(path)).unwrap());
    texts.collect()
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_lower_case(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Returns whether a name is that of a test: it has two underscores or more.
fn is_test(name: &str) -> bool {
    is_identifier(name) && name.matches('_').count() >= 2 && name == name.to_ascii_lowercase()
}

/// The anchors of a page: its headings as sites of code show them.
fn anchors(text: &str) -> HashSet<String> {
    let outside: String = text.split("\n```").step_by(2).collect();
    let headings = outside.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let letters = heading.trim_start_matches('#').trim().to_lowercase();
        let letters = letters.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c => (c.is_alphanumeric() || "-_".contains(c)).then_some(c),
        });
        letters.collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_in_the_documents_leads_to_a_file_and_a_heading() {
    let (mut checked, mut missing) = (0, Vec::new());
    for (document, text) in documents() {
        let folder = root().join(&document).parent().unwrap().to_path_buf();
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root().join(&document),
                file => folder.join(file),
            };
            let is_there = match anchor {
                "" => target.exists(),
                anchor => {
                    fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(anchor))
                }
            };
            if !is_there {
                missing.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 60, "{checked} links were found");
}

#[test]
fn every_path_in_the_documents_exists() {
    let files = files();
    let (mut checked, mut missing) = (0, Vec::new());
    for (document, text) in documents() {
        for name in quoted(&text) {
            let is_kind = name == windlass::Kind::RUN_LINE;
            if is_kind || name.contains([' ', '*', '<', '{', ':']) {
                continue;
            }
            let top = name.split_once('/').map(|(top, _)| top);
            let is_rust = name.ends_with(".rs");
            let exists = match top {
                Some(top) if FOLDERS.contains(&top) => root().join(name).exists(),
                _ if is_rust => files.iter().any(|file| file.ends_with(name)),
                _ => continue,
            };
            checked += 1;
            if !exists {
                missing.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 50, "{checked} paths were found");
}

/// A function, a field, a method: a name with an underscore or a path.
#[test]
fn every_identifier_in_the_documents_is_in_the_sources() {
    let sources = sources();
    let words: HashSet<&str> = sources
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let (mut checked, mut missing) = (0, Vec::new());
    for (document, text) in documents() {
        for name in quoted(&text) {
            let name = name.split('(').next().unwrap_or(name);
            let is_path = name.contains("::") && name.split("::").all(is_identifier);
            let has_underscore = is_identifier(name) && name.contains('_');
            let last = name.rsplit("::").next().unwrap_or(name);
            // Variables and revisions of other programs are in capitals.
            if !(is_path || has_underscore) || last == last.to_ascii_uppercase() {
                continue;
            }
            checked += 1;
            if !words.contains(last) {
                missing.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 150, "{checked} identifiers were found");
}

/// Whether a test has this name: a function, or an entry of a macro that makes tests.
fn is_test_of(name: &str, sources: &str) -> bool {
    let definition = [
        format!("fn {name}("),
        format!("def {name}("),
        format!(" {name}: "),
    ];
    definition.iter().any(|text| sources.contains(text))
}

#[test]
fn each_row_of_the_track_record_names_its_tests_or_says_why_there_is_none() {
    let (page, sources) = (read("docs/internals/track-record.md"), sources());
    let (mut named, mut wrong) = (0, Vec::new());
    let rows = page.lines().filter(|line| line.starts_with("| "));
    for row in rows.filter(|row| !row.starts_with("| defect |")) {
        let cell = row.trim_end_matches(['|', ' ']).rsplit(" | ").next();
        let tests = cell.unwrap_or_default().split('`').skip(1).step_by(2);
        let tests: Vec<&str> = tests.filter(|name| is_test(name)).collect();
        let missing: Vec<&&str> = (tests.iter())
            .filter(|test| !is_test_of(test, &sources))
            .collect();
        if !missing.is_empty() {
            wrong.push(format!("{missing:?} are missing: {row}"));
        }
        if tests.is_empty() && !cell.is_some_and(|cell| cell.starts_with("no test: ")) {
            wrong.push(format!("names no test: {row}"));
        }
        named += tests.len();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(named > 100, "the page names {named} tests");
}

/// The words in the last column of the guarantees are topics of the conformance suite.
#[test]
fn every_conformance_topic_in_the_guarantees_exists() {
    let page = read("docs/reference/guarantees.md");
    let mut topics = 0;
    for row in page.lines().filter(|line| line.starts_with("| G")) {
        let held_by = row.trim_end_matches(['|', ' ']).rsplit(" | ").next();
        for topic in quoted(held_by.unwrap())
            .into_iter()
            .filter(|n| is_lower_case(n))
        {
            let file = format!("src/testing/conformance/{topic}.rs");
            assert!(root().join(&file).exists(), "{row}: {file}");
            topics += 1;
        }
    }
    assert!(topics >= 6, "{topics} topics were found");
}

#[test]
fn every_module_of_the_architecture_exists() {
    let page = read("docs/internals/architecture.md");
    let mut modules = 0;
    for (section, folder) in [
        ("## `statemachine/`", "statemachine/src"),
        ("## `src/`", "src"),
        ("## `src/store/etcd/`", "src"),
        ("## `server/`", "server/src"),
        ("## `exec/`", "exec/src"),
        ("## `cli/`", "cli/src"),
    ] {
        let section = page.split(section).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            for module in quoted(row.split(" | ").next().unwrap()) {
                let path = root().join(folder).join(module);
                let exists = path.is_dir() || path.with_extension("rs").exists();
                assert!(exists, "{folder}/{module}");
                modules += 1;
            }
        }
    }
    assert!(modules > 25, "{modules} modules were found");
}

/// A step of a path is `file::function`, or `folder::function` for a function in one of its files.
#[test]
fn every_step_of_the_paths_of_the_architecture_exists() {
    let page = read("docs/internals/architecture.md");
    let files = files();
    let mut checked = 0;
    let is_step = |name: &&str| name.contains("::") && !name.starts_with("Store");
    for step in quoted(&page).into_iter().filter(is_step) {
        let (place, function) = step.split_once("::").unwrap();
        let in_place = |file: &&PathBuf| {
            let is_source = file.starts_with("src") || file.starts_with("statemachine/src");
            let module = file.with_extension("");
            let folder = module.parent().unwrap();
            is_source && (module.ends_with(place) || folder.ends_with(place))
        };
        let has = |file: &PathBuf| {
            let text = read(file.to_str().unwrap());
            ["(", "<"]
                .iter()
                .any(|end| text.contains(&format!("fn {function}{end}")))
        };
        assert!(files.iter().filter(in_place).any(has), "{step}");
        checked += 1;
    }
    assert!(checked > 50, "{checked} steps were found");
}

#[test]
fn every_chore_and_command_in_the_documents_exists() {
    let (chores, commands) = (read("xtask/src/main.rs"), read("docs/reference/cli.md"));
    let mut found = [0; 2];
    for (document, text) in documents() {
        let lines = text.lines().flat_map(|line| line.split(['`', '|', ';']));
        for line in lines.map(|line| line.trim_start_matches(['$', ' '])) {
            let word = |of: &str| {
                let word = line.strip_prefix(of)?.split([' ', ',']).next()?;
                is_lower_case(word).then_some(word)
            };
            if let Some(chore) = word("cargo xtask ") {
                assert!(
                    chores.contains(&format!("Some(\"{chore}\")")),
                    "{document}: {line}"
                );
                found[0] += 1;
            }
            if let Some(command) = word("windlass ").filter(|_| line.is_ascii())
                && text.contains(&format!("`{line}`"))
            {
                let heading = format!("## `windlass {command}");
                // The chore that writes that page is hidden from it.
                let is_known = commands.contains(&heading) || command == "reference";
                assert!(is_known, "{document}: {line}");
                found[1] += 1;
            }
        }
    }
    assert!(found[0] > 8 && found[1] > 30, "{found:?} were found");
}

/// Each row of a comparison with another system names a test or an example that runs it.
#[test]
fn each_row_of_the_comparisons_names_what_checks_it() {
    let (sources, files) = (sources(), files());
    let page = read("docs/learn/coming-from.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| !line.ends_with("| checked by |"));
    let (mut checked, mut missing) = (0, Vec::new());
    for row in rows {
        let column = row
            .trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .unwrap_or_default();
        let names = quoted(column);
        if names.is_empty() {
            missing.push(row.to_owned());
        }
        for name in names {
            checked += 1;
            let is_example = files
                .iter()
                .any(|path| path.ends_with(Path::new("examples").join(name)));
            let test = name.rsplit("::").next().unwrap_or(name);
            let is_test = ["fn", "def"].map(|word| sources.contains(&format!("{word} {test}(")));
            if !is_example && !is_test.contains(&true) {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(checked > 30, "{checked}");
    assert!(missing.is_empty(), "{missing:#?}");
}
