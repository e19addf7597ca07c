//! Checks statements of the documentation against the code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "docs/map.rs"]
mod map;

use windlass::{
    ActionKind, StateKind,
    statemachine::transition::{SIGNAL, TABLE},
};

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_table_of_the_lifecycle_is_the_table_of_the_code() {
    let text = read("docs/reference/lifecycle.md");
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
    let code: Vec<Vec<String>> = StateKind::ALL
        .iter()
        .zip(TABLE)
        .map(|(from, row)| {
            let to = row
                .iter()
                .map(|to| to.map_or("–", StateKind::as_str).to_owned());
            std::iter::once(from.to_string()).chain(to).collect()
        })
        .collect();
    assert_eq!(cells, code);
    let signal = text.split("<!-- signal -->").nth(1).unwrap();
    let signal = signal.split("<!-- end of signal").next().unwrap();
    let rows = signal.lines().filter(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows[0], StateKind::ALL.map(StateKind::as_str));
    assert_eq!(rows[2], SIGNAL.map(|to| to.map_or("–", StateKind::as_str)));
}

#[test]
fn every_guarantee_has_a_row() {
    let text = read("docs/reference/guarantees.md");
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

#[test]
fn the_page_of_the_schema_is_the_schema_of_the_code() {
    let (text, code) = (
        read("docs/internals/sqlite-schema.md"),
        read("src/store/sqlite/schema/tables.sql"),
    );
    let blocks: Vec<&str> = text
        .split("```sql\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .map(str::trim)
        .collect();
    assert!(blocks.len() >= 2, "{}", blocks.len());
    for block in blocks {
        assert!(
            code.contains(block),
            "docs/internals/sqlite-schema.md says otherwise than the code:\n{block}"
        );
    }
    let tables = |text: &str| text.matches("CREATE TABLE ").count();
    assert_eq!(tables(&text), tables(&code), "every table is on the page");
}

/// The options and variables that the examples of services give exist; their times fit each other.
#[test]
fn the_examples_of_services_use_what_there_is() {
    let (cli, operations) = (
        read("docs/reference/cli.md"),
        read("docs/operate/operations-etcd.md"),
    );
    let unit = read("examples/systemd/windlass-worker.service");
    let yaml = read("examples/kubernetes/worker.yaml");
    let [etcd, sqlite] = ["worker.env", "worker-sqlite.env"];
    let [etcd, sqlite] = [etcd, sqlite].map(|name| read(&format!("examples/systemd/{name}")));
    let server = ["systemd/windlass-serve.service", "kubernetes/server.yaml"];
    let server = server
        .map(|name| read(&format!("examples/{name}")))
        .join("\n");
    let worker = format!("{unit}\n{etcd}\n{sqlite}\n{yaml}");
    let mut checked = 0;
    for (command, all) in [("worker", &worker), ("serve", &server)] {
        let heading = format!("## `windlass {command}`");
        let options = cli.split(&heading).nth(1).unwrap();
        let options = options.split("\n## ").next().unwrap();
        for option in words(all, "--") {
            // After the short option, if it has one.
            let is_listed =
                ["`", ", "].map(|before| options.contains(&format!("{before}{option}")));
            assert!(is_listed.contains(&true), "{command} {option}");
            checked += 1;
        }
        for variable in words(all, "WINDLASS_") {
            let is_known = [&cli, &operations].iter().any(|d| d.contains(variable));
            assert!(is_known, "{variable}");
            checked += 1;
        }
    }
    assert!(checked >= 24, "only {checked} were found");
    // The grace is 30 s in both.
    assert!(unit.contains("TimeoutStopSec=60s") && unit.contains("--grace 30s"));
    assert!(yaml.contains("terminationGracePeriodSeconds: 60") && yaml.contains("--grace, 30s"));
}

/// The words of a file, outside of its comments, that begin with a text.
fn words<'a>(all: &'a str, of: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
    let lines = all.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with("---"));
    let words = lines.flat_map(move |line| line.split(is_part));
    words.filter(move |word| word.starts_with(of))
}
