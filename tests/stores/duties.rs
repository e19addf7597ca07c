//! Compares the duties in the docs of the store traits with the cases of the conformance suite.
//!
//! Each numbered duty ends with the cases that check it: "Cases: `topic::case`, ….". A case that
//! checks more than any duty is listed in the docs of its topic: "Beyond the duties: `case`.".
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

const TRAITS: [&str; 5] = [
    "coordinator",
    "registry",
    "transfer",
    "doctor",
    "state_store",
];

fn read(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// One numbered item below a heading "Duties of an implementation".
#[derive(Debug)]
struct Duty {
    /// The file, and how the text of the duty begins.
    name: String,
    text: String,
}

impl Duty {
    fn cases(&self) -> Vec<String> {
        let list = self.text.split_once("Cases: ").map_or("", |(_, list)| list);
        quoted(list)
    }
}

/// The names between backticks.
fn quoted(text: &str) -> Vec<String> {
    let names = text.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Whether a line begins a numbered item: "12. ".
fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(". ")
}

fn duties_of(file: &str, source: &str) -> Vec<Duty> {
    let mut duties: Vec<Duty> = Vec::new();
    let (mut is_in_section, mut is_in_item) = (false, false);
    for line in source.lines() {
        let Some(line) = line.trim_start().strip_prefix("///") else {
            (is_in_section, is_in_item) = (false, false);
            continue;
        };
        let line = line.strip_prefix(' ').unwrap_or(line);
        if line.starts_with("# ") {
            (is_in_section, is_in_item) = (line == "# Duties of an implementation", false);
        } else if is_in_section && is_numbered(line) {
            is_in_item = true;
            duties.push(Duty {
                name: format!("{file}: {line}"),
                text: line.to_owned(),
            });
        } else if is_in_item && line.starts_with("   ") {
            if let Some(duty) = duties.last_mut() {
                duty.text.push(' ');
                duty.text.push_str(line.trim());
            }
        } else {
            is_in_item = false;
        }
    }
    duties
}

/// The source of a trait. The documents that its docs include stand in their places.
fn source_of(name: &str) -> String {
    let source = read(&format!("src/store/{name}.rs"));
    let mut whole = String::new();
    for line in source.lines() {
        let included = line.strip_prefix("#[doc = include_str!(\"");
        match included.and_then(|rest| rest.split('"').next()) {
            Some(file) => {
                let text = read(&format!("src/store/{file}"));
                whole.extend(text.lines().map(|line| format!("/// {line}\n")));
            }
            None => whole.extend([line, "\n"]),
        }
    }
    whole
}

fn duties() -> Vec<Duty> {
    let of = |name: &&str| duties_of(name, &source_of(name));
    TRAITS.iter().flat_map(of).collect()
}

/// The cases that the lists of the suite name, as `topic::case`.
fn suite() -> BTreeSet<String> {
    let lists = ["list_clients", "list_nodes", "list_data", "list_states"];
    let lists = lists.map(|name| read(&format!("src/testing/conformance/{name}.rs")));
    let lists = lists.concat();
    let (mut topic, mut cases) = (None, BTreeSet::new());
    for line in lists.lines().map(str::trim) {
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if let Some(name) = line.strip_suffix(" {").filter(|name| is_word(name)) {
            topic = Some(name);
        } else if line == "}" {
            topic = None;
        } else if let (Some(topic), Some(case)) = (topic, line.strip_suffix(',')) {
            let case = case.split(" needs ").next().unwrap();
            assert!(is_word(case), "{topic}: {case}");
            cases.insert(format!("{topic}::{case}"));
        }
    }
    cases
}

/// The cases that the docs of their topics list as beyond the duties.
fn beyond(cases: &BTreeSet<String>) -> BTreeSet<String> {
    let topics: BTreeSet<&str> = cases.iter().filter_map(|c| c.split("::").next()).collect();
    let mut beyond = BTreeSet::new();
    for topic in topics {
        let source = read(&format!("src/testing/conformance/{topic}.rs"));
        let docs = source.lines().map_while(|line| line.strip_prefix("//!"));
        let docs: Vec<&str> = docs.collect();
        let docs = docs.join("");
        if let Some((_, list)) = docs.split_once("Beyond the duties: ") {
            beyond.extend(quoted(list).iter().map(|case| format!("{topic}::{case}")));
        }
    }
    beyond
}

#[test]
fn every_duty_names_cases_that_exist() {
    let (cases, duties) = (suite(), duties());
    assert!(cases.len() > 150, "only {} cases were found", cases.len());
    assert!(duties.len() > 30, "only {} duties were found", duties.len());
    for file in TRAITS {
        let is_of = |duty: &&Duty| duty.name.starts_with(&format!("{file}: "));
        assert!(duties.iter().any(|duty| is_of(&duty)), "{file} has no duty");
    }
    for duty in &duties {
        let named = duty.cases();
        assert!(!named.is_empty(), "{}: names no case", duty.name);
        for case in named {
            assert!(cases.contains(&case), "{}: {case} is no case", duty.name);
        }
    }
}

#[test]
fn every_case_holds_a_duty_or_goes_beyond_them() {
    let (cases, duties) = (suite(), duties());
    let named: BTreeSet<String> = duties.iter().flat_map(Duty::cases).collect();
    let beyond = beyond(&cases);
    let unknown: Vec<_> = beyond.difference(&cases).collect();
    assert!(
        unknown.is_empty(),
        "beyond the duties, but no case: {unknown:?}"
    );
    let both: Vec<_> = beyond.intersection(&named).collect();
    assert!(both.is_empty(), "held by a duty and beyond them: {both:?}");
    let is_known = |case: &&String| named.contains(*case) || beyond.contains(*case);
    let unnamed: Vec<_> = cases.iter().filter(|case| !is_known(case)).collect();
    assert!(
        unnamed.is_empty(),
        "no duty names these cases; name them in the docs of a store trait, or in the docs of their \
         topic after \"Beyond the duties: \": {unnamed:#?}"
    );
}
