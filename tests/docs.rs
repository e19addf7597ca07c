//! What the documentation says of the code, checked against it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use windlass::{ActionKind, Code, statemachine::transition::TABLE};

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_table_of_the_lifecycle_is_the_table_of_the_code() {
    let text = read("docs/lifecycle.md");
    let table = text
        .split("<!-- table")
        .nth(1)
        .unwrap()
        .split("<!-- end of table")
        .next()
        .unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let heads = ActionKind::ALL.map(ActionKind::as_str);
    assert_eq!(rows[0][1..], heads);
    let cells: Vec<Vec<String>> = rows[2..]
        .iter()
        .map(|row| row.iter().map(ToString::to_string).collect())
        .collect();
    let code: Vec<Vec<String>> = Code::ALL
        .iter()
        .zip(TABLE)
        .map(|(from, row)| {
            let to = row.iter().map(|to| to.map_or("–", Code::as_str).to_owned());
            std::iter::once(from.to_string()).chain(to).collect()
        })
        .collect();
    assert_eq!(cells, code);
}

#[test]
fn every_guarantee_has_a_row() {
    let text = read("docs/guarantees.md");
    for n in 1..=8 {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| G{n} |")));
        let held_by = row.and_then(|row| row.trim_matches('|').split('|').nth(2));
        assert!(
            held_by.is_some_and(|cell| cell.trim().len() > 10),
            "G{n}: {row:?}"
        );
    }
}

/// Files that the documents name exist: a test, a module, another document.
#[test]
fn what_the_documents_point_to_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut checked = 0;
    let mut missing = Vec::new();
    let docs = std::fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|f| f.unwrap().path());
    for doc in docs.chain([root.join("README.md"), root.join("CONTRIBUTING.md")]) {
        let text = std::fs::read_to_string(&doc).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let top = [
                "src/",
                "statemachine/",
                "tests/",
                "cli/",
                "docs/",
                "examples/",
                "benches/",
            ];
            if !top.iter().any(|top| name.starts_with(top)) || name.contains([' ', '*', '<', '{']) {
                continue;
            }
            checked += 1;
            if !root.join(name).exists() {
                missing.push(format!("{}: {name}", doc.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(
        checked > 20,
        "only {checked} names were found: has the writing changed?"
    );
}

#[test]
fn the_schema_of_the_storage_page_is_the_schema_of_the_code() {
    let (text, code) = (read("docs/storage.md"), read("src/store/sqlite/schema.rs"));
    let blocks: Vec<&str> = text
        .split("```sql\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .map(str::trim)
        .collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        assert!(
            code.contains(block),
            "docs/storage.md says otherwise than the code:\n{block}"
        );
    }
    let tables = |text: &str| text.matches("CREATE TABLE ").count();
    let in_code = code.split("mod tests").next().map_or(0, tables);
    assert_eq!(tables(&text), in_code, "every table is told");
}

/// The options and variables that the examples of services give exist; their times fit each other.
#[test]
fn the_examples_of_services_use_what_there_is() {
    let (cli, operations) = (read("docs/cli.md"), read("docs/operations.md"));
    let unit = read("examples/systemd/windlass-worker.service");
    let yaml = read("examples/kubernetes/worker.yaml");
    let all = format!("{unit}\n{}\n{yaml}", read("examples/systemd/worker.env"));
    let worker = cli.split("## `windlass worker`").nth(1).unwrap();
    let worker = worker.split("\n## ").next().unwrap();
    let words = |of: &'static str| {
        let is_part = move |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
        let words = all.lines().map(str::trim_start);
        let words = words.filter(|line| !line.starts_with('#') && !line.starts_with("---"));
        let words = words.flat_map(move |line| line.split(is_part));
        words.filter(move |word| word.starts_with(of))
    };
    let mut checked = 0;
    for option in words("--") {
        assert!(worker.contains(&format!("`{option}")), "{option}");
        checked += 1;
    }
    for variable in words("WINDLASS_") {
        let is_known = [&cli, &operations].iter().any(|d| d.contains(variable));
        assert!(is_known, "{variable}");
        checked += 1;
    }
    assert!(checked >= 12, "only {checked} were found");
    // The grace is 30 s in both.
    assert!(unit.contains("TimeoutStopSec=60s") && unit.contains("--grace 30s"));
    assert!(yaml.contains("terminationGracePeriodSeconds: 60") && yaml.contains("--grace, 30s"));
}

/// The source text of every crate, joined.
fn sources(folder: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "go") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Each test that the track record names exists.
#[test]
fn the_tests_of_the_track_record_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    for folder in ["src", "statemachine", "cli", "tests", "xtask"] {
        sources(&root.join(folder), &mut code);
    }
    let is_test = |name: &str| {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.matches('_').count() >= 2 && name.chars().all(is_word)
    };
    let page = read("docs/track-record.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit(" | ").next());
    let named = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let named: Vec<&str> = named.filter(|name| is_test(name)).collect();
    assert!(named.len() > 80, "the page names {} tests", named.len());
    let is_missing = |name: &&&str| {
        let definition = [format!("fn {name}("), format!(" {name}: ")];
        !definition.iter().any(|text| code.contains(text))
    };
    let missing: Vec<_> = named.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "named and missing: {missing:?}");
}
