//! The changelog, in the form of Keep a Changelog: people write it, under `## [Unreleased]`; a release dates it.

use super::tags;

/// The file.
pub(super) const FILE: &str = "CHANGELOG.md";
/// The section that people write.
const UNRELEASED: &str = "Unreleased";
/// Where the repository is.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// A section.
#[derive(Debug, PartialEq, Eq)]
struct Section<'a> {
    /// The version, or [`UNRELEASED`].
    name: &'a str,
    date: Option<&'a str>,
    text: &'a str,
}

/// The sections, newest first.
///
/// # Errors
///
/// When a heading has another form, the first section is not the unreleased one, or a date is none.
fn sections(changelog: &str) -> Result<Vec<Section<'_>>, String> {
    let mut sections = Vec::new();
    for part in changelog.split("\n## ").skip(1) {
        let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
        let read = heading
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        let (name, date) = read.ok_or_else(|| wrong(heading))?;
        let date = match (date, name == UNRELEASED) {
            ("", true) => None,
            (date, false) => Some(
                date.strip_prefix(" - ")
                    .filter(|d| is_date(d))
                    .ok_or_else(|| wrong(heading))?,
            ),
            _ => return Err(wrong(heading)),
        };
        sections.push(Section {
            name,
            date,
            text: without_links(text),
        });
    }
    match sections.first() {
        Some(first) if first.name == UNRELEASED => Ok(sections),
        _ => Err(format!(
            "{FILE} begins with another section than `## [{UNRELEASED}]`: put it first"
        )),
    }
}

fn wrong(heading: &str) -> String {
    format!(
        "{FILE} has the heading '{heading}': write `## [{UNRELEASED}]` or `## [VERSION] - YYYY-MM-DD`"
    )
}

fn is_date(text: &str) -> bool {
    let numbers: Vec<&str> = text.split('-').collect();
    let [year, month, day] = numbers[..] else {
        return false;
    };
    let is_within = |text: &str, length: usize, most: u32| {
        text.len() == length && text.parse().is_ok_and(|n: u32| (1..=most).contains(&n))
    };
    is_within(year, 4, 9999) && is_within(month, 2, 12) && is_within(day, 2, 31)
}

/// The text without the addresses of the headings, which end the file.
fn without_links(text: &str) -> &str {
    text.split_once("\n[Unreleased]: ")
        .map_or(text, |(text, _)| text)
        .trim()
}

/// The date of a version that is to be released now, or why there is none.
///
/// # Errors
///
/// When the changelog has another form.
pub(super) fn is_due(
    changelog: &str,
    version: &str,
    is_tagged: bool,
) -> Result<Result<String, String>, String> {
    let sections = sections(changelog)?;
    let dated = sections.iter().find(|section| section.name == version);
    Ok(match dated.and_then(|section| section.date) {
        Some(_) if is_tagged => Err(format!("{} is a tag already", tags::of(version))),
        Some(date) => Ok(date.to_owned()),
        None => Err(format!("{FILE} has no date for {version} yet")),
    })
}

/// Makes the unreleased section that of a version, and an empty one before it.
///
/// # Errors
///
/// When the changelog has another form, nothing is unreleased, the version has a section, or the date is none.
pub(super) fn prepare(changelog: &str, version: &str, date: &str) -> Result<String, String> {
    if !is_date(date) {
        return Err(format!(
            "could not prepare {version} for '{date}': a date is YYYY-MM-DD"
        ));
    }
    let sections = sections(changelog)?;
    if sections.iter().any(|section| section.name == version) {
        return Err(format!(
            "could not prepare {version}: {FILE} has a section for it; raise the version of Cargo.toml"
        ));
    }
    if sections[0].text.is_empty() {
        return Err(format!(
            "could not prepare {version}: nothing is under `## [{UNRELEASED}]` in {FILE}; write what changed for users"
        ));
    }
    let heading = format!("## [{UNRELEASED}]\n\n## [{version}] - {date}\n");
    let text = changelog.replacen(&format!("## [{UNRELEASED}]\n"), &heading, 1);
    let text = text
        .split_once("\n[Unreleased]: ")
        .map_or(text.as_str(), |(text, _)| text)
        .trim_end();
    let mut names: Vec<&str> = vec![version];
    names.extend(sections[1..].iter().map(|section| section.name));
    Ok(format!("{text}\n{}", links(&names)))
}

/// The addresses of the headings, for versions from the newest on.
fn links(versions: &[&str]) -> String {
    let mut links = format!(
        "\n[Unreleased]: {REPOSITORY}/compare/{}...HEAD\n",
        tags::of(versions[0])
    );
    for (n, version) in versions.iter().enumerate() {
        let tag = tags::of(version);
        let address = match versions.get(n + 1) {
            Some(before) => format!("compare/{}...{tag}", tags::of(before)),
            None => format!("releases/tag/{tag}"),
        };
        links += &format!("[{version}]: {REPOSITORY}/{address}\n");
    }
    links
}

/// The text of a version's section, or else of the unreleased one, with links that work outside of the repository.
///
/// # Errors
///
/// When the changelog has another form.
pub(super) fn notes(changelog: &str, version: &str) -> Result<String, String> {
    let sections = sections(changelog)?;
    let section = sections
        .iter()
        .find(|section| section.name == version)
        .unwrap_or(&sections[0]);
    let files = format!("]({REPOSITORY}/blob/{}/", tags::of(version));
    let mut parts = section.text.split("](");
    let mut notes = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_address = part.starts_with("https://") || part.starts_with('#');
        notes += if is_address { "](" } else { &files };
        notes += part;
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\nWhat changed.\n\n## [Unreleased]\n\n### Added\n\n- One ([a](docs/a.md), [b](https://b)).\n";

    #[test]
    fn a_release_dates_what_is_unreleased_and_the_next_one_starts_empty() {
        let first = prepare(TEXT, "0.1.0", "2026-12-01").unwrap();
        assert!(
            first.contains("## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n### Added\n"),
            "{first}"
        );
        assert!(first.ends_with(&format!(
            ").\n\n[Unreleased]: {REPOSITORY}/compare/v0.1.0...HEAD\n[0.1.0]: {REPOSITORY}/releases/tag/v0.1.0\n"
        )), "{first}");
        let error = prepare(&first, "0.1.0", "2026-12-02").unwrap_err();
        assert!(error.contains("has a section for it"), "{error}");
        let error = prepare(&first, "0.2.0", "2026-12-02").unwrap_err();
        assert!(error.contains("nothing is under"), "{error}");
        let changed = first.replacen(
            "## [Unreleased]\n",
            "## [Unreleased]\n\n### Fixed\n\n- Two.\n",
            1,
        );
        let second = prepare(&changed, "0.2.0", "2026-12-02").unwrap();
        assert!(
            second.contains("[0.2.0]: ") && second.contains("/compare/v0.1.0...v0.2.0\n"),
            "{second}"
        );
        assert_eq!(second.matches("\n[Unreleased]: ").count(), 1, "{second}");
        let error = prepare(TEXT, "0.1.0", "1st of May").unwrap_err();
        assert!(error.contains("YYYY-MM-DD"), "{error}");
    }

    #[test]
    fn a_release_is_due_when_its_version_has_a_date_and_no_tag() {
        let why = is_due(TEXT, "0.1.0", false).unwrap().unwrap_err();
        assert!(why.contains("no date for 0.1.0"), "{why}");
        let dated = prepare(TEXT, "0.1.0", "2026-12-01").unwrap();
        assert_eq!(
            is_due(&dated, "0.1.0", false).unwrap(),
            Ok("2026-12-01".to_owned())
        );
        let why = is_due(&dated, "0.1.0", true).unwrap().unwrap_err();
        assert!(why.contains("v0.1.0 is a tag already"), "{why}");
    }

    #[test]
    fn the_notes_of_a_release_lead_to_its_files() {
        let dated = prepare(TEXT, "0.1.0", "2026-12-01").unwrap();
        let expected = format!(
            "### Added\n\n- One ([a]({REPOSITORY}/blob/v0.1.0/docs/a.md), [b](https://b))."
        );
        assert_eq!(notes(&dated, "0.1.0").unwrap(), expected);
        assert_eq!(notes(TEXT, "0.1.0").unwrap(), expected);
    }

    #[test]
    fn a_heading_of_another_form_is_named() {
        for wrong in [
            "## 0.1.0 (unreleased)",
            "## [0.1.0]",
            "## [0.1.0] - soon",
            "## [Unreleased] - 2026-12-01",
        ] {
            let text = TEXT.replacen("## [Unreleased]", wrong, 1);
            let error = sections(&text).unwrap_err();
            assert!(error.contains(&wrong[3..]), "{error}");
        }
        let error =
            sections(&TEXT.replacen("[Unreleased]", "[0.1.0] - 2026-12-01", 1)).unwrap_err();
        assert!(error.contains("put it first"), "{error}");
    }

    #[test]
    fn the_changelog_of_this_tree_can_be_released() {
        let text = std::fs::read_to_string(crate::root().join(FILE)).unwrap();
        let found = sections(&text).unwrap();
        let is_dated = found
            .iter()
            .any(|section| section.name == super::super::VERSION);
        assert!(
            is_dated || !found[0].text.is_empty(),
            "nothing says what this version has"
        );
        let notes = notes(&text, super::super::VERSION).unwrap();
        let tree = format!(
            "](https://github.com/windlass-rs/windlass/blob/v{}/docs/",
            super::super::VERSION
        );
        assert!(
            notes.contains(&tree) && !notes.contains("](docs/"),
            "{notes}"
        );
    }
}
