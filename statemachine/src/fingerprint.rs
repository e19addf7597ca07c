//! [`fingerprint`]: groups errors that differ only in their numbers, ids and paths.

use std::{borrow::Cow, hash::Hasher};

use fnv::FnvHasher;

/// How many characters of a text the fingerprint covers.
const COUNTED: usize = 1000;

/// Returns the fingerprint of an error text: 12 hexadecimal digits. Texts that differ only in numbers, ids and paths have
/// the same fingerprint.
///
/// A word with a digit counts as an id or a number, a word with a `/` or `\` as a path, and what stands in quotes after the word
/// `task` as an id: `task 'ann'`. The number after `exit code` or
/// `exit status` is kept, because it says what went wrong. Case, white space and everything
/// after the first 1,000 characters are ignored. A later version may group errors differently: a program that keeps
/// fingerprints cannot compare them with those of that version.
///
/// # Example
///
/// ```
/// use windlass_statemachine::fingerprint;
///
/// let one = fingerprint("order 17: cannot open /data/2030/a.csv: timed out after 30s");
/// let other = fingerprint("order 4711: cannot open /data/2031/b.csv: timed out after 5s");
/// assert_eq!(one, other);
/// assert_ne!(one, fingerprint("order 17: cannot open /data/2030/a.csv: permission denied"));
/// assert_ne!(fingerprint("exit code 1"), fingerprint("exit code 2"));
/// ```
pub fn fingerprint(error: &str) -> String {
    hashed(normal(&without_ids(error), Codes::Kept))
}

/// Returns the fingerprints that programs gave a text before they took what stands in quotes after `task` for an id, and before
/// they kept exit codes. A store may still have tasks under them.
pub(crate) fn earlier(error: &str) -> [String; 2] {
    [Codes::Kept, Codes::Masked].map(|codes| hashed(normal(error, codes)))
}

/// Returns a text with a number in the place of each id of a task. An id may have no digit, and may have several words.
fn without_ids(error: &str) -> Cow<'_, str> {
    const TASK: &str = "task '";
    let mut parts = error.split(TASK);
    let first = parts.next().unwrap_or_default();
    let mut ids = parts.clone().filter(|part| part.contains('\''));
    if ids.next().is_none() {
        return Cow::Borrowed(error);
    }
    let mut text = first.to_owned();
    for part in parts {
        text.push_str(TASK);
        match part.split_once('\'') {
            Some((_, rest)) => {
                text.push_str("0'");
                text.push_str(rest);
            }
            None => text.push_str(part),
        }
    }
    Cow::Owned(text)
}

/// What becomes of exit codes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Codes {
    Kept,
    Masked,
}

fn hashed(words: impl Iterator<Item = String>) -> String {
    let mut hash = FnvHasher::default();
    for word in words {
        hash.write(word.as_bytes());
        hash.write(b" ");
    }
    format!("{:012x}", hash.finish() >> 16)
}

/// Returns the words of a text. Numbers and ids become one placeholder word, paths another.
fn normal(error: &str, codes: Codes) -> impl Iterator<Item = String> {
    let end = error.char_indices().nth(COUNTED);
    let counted = end.map_or(error, |(end, _)| &error[..end]);
    // Punctuation between words is not a word: `id=7,` is `id` and a number.
    let is_between = |c: char| {
        c.is_whitespace()
            || (c.is_ascii_punctuation() && !matches!(c, '/' | '\\' | '-' | '_' | '.'))
    };
    let words = counted.split(is_between);
    let words = words.map(|word| word.trim_matches(['.', '-']));
    let words = words.filter(|word| !word.is_empty());
    // The two words before.
    let mut before = ["", ""];
    words.map(move |word| {
        let [exit, code] = before;
        before = [code, word];
        let is_code = codes == Codes::Kept
            && exit.eq_ignore_ascii_case("exit")
            && ["code", "status"]
                .iter()
                .any(|one| code.eq_ignore_ascii_case(one))
            && word.bytes().all(|b| b.is_ascii_digit());
        if is_code {
            word.to_owned()
        } else if word.contains(['/', '\\']) {
            "/".to_owned()
        } else if word.contains(|c: char| c.is_numeric()) {
            "0".to_owned()
        } else {
            word.to_lowercase()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(error: &str) -> String {
        let error = without_ids(error);
        normal(&error, Codes::Kept).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn numbers_ids_and_paths_are_the_same_word() {
        for (error, expected) in [
            ("timed out after 30s", "timed out after 0"),
            ("Timed  out\nafter 1.5 s.", "timed out after 0 s"),
            ("task 'invoice-17' is gone", "task 0 is gone"),
            (
                "task 'ann lee' waits for task 'b'",
                "task 0 waits for task 0",
            ),
            ("no such task 'ann", "no such task ann"),
            ("no task: 'ann'", "no task ann"),
            ("no 0190c2a4-7e31-7abc-8def-0123456789ab", "no 0"),
            ("open /data/a b.csv: denied", "open / b.csv denied"),
            ("GET https://a.b/c?d=e: refused", "get https / d e refused"),
            ("C:\\data\\x: denied", "c / denied"),
            ("code=E0308, field: name", "code 0 field name"),
            ("well-known a.b.c", "well-known a.b.c"),
            ("exit code 2: no 7 of 9", "exit code 2 no 0 of 0"),
            ("Exit status: 1.", "exit status 1"),
            (
                "the exit code of 7 is code 7",
                "the exit code of 0 is code 0",
            ),
            ("exit code 1a", "exit code 0"),
            ("", ""),
            ("...", ""),
        ] {
            assert_eq!(words(error), expected, "{error}");
        }
    }

    /// Regression: commands that failed with other exit codes were one group.
    #[test]
    fn errors_with_other_exit_codes_are_other_errors() {
        let (one, two) = ("exit code 1: no space", "exit code 2: no space");
        assert_ne!(fingerprint(one), fingerprint(two));
        assert_eq!(
            fingerprint("exit code 1: no room"),
            fingerprint("Exit code: 1, no room")
        );
        // As stores keep them from earlier programs.
        assert_eq!(earlier(one)[1], earlier(two)[1]);
    }

    /// Regression: tasks that did not run because of tasks `a` and `b-2` were two groups.
    #[test]
    fn errors_that_name_other_tasks_are_the_same_error() {
        let text =
            |id| format!("could not run: task '{id}' has to complete first (after_ok) and failed");
        let print = fingerprint(&text("fetch"));
        for id in ["fetch-2", "parse", "ann lee", "7"] {
            assert_eq!(fingerprint(&text(id)), print, "{id}");
        }
        assert!(!earlier(&text("fetch")).contains(&print));
        assert_eq!(earlier(&text("fetch-2"))[0], earlier(&text("parse-3"))[0]);
        assert_ne!(
            print,
            fingerprint(&text("fetch").replace("failed", "was killed"))
        );
    }

    #[test]
    fn a_fingerprint_is_12_digits_that_never_change() {
        assert_eq!(fingerprint(""), "cbf29ce48422");
        let text = fingerprint("connection refused");
        assert_eq!(text.len(), 12);
        assert_eq!(text, fingerprint("Connection  refused."));
        assert_ne!(text, fingerprint("refused connection"));
    }

    #[test]
    fn a_long_text_counts_to_its_thousandth_character() {
        let long = "é ".repeat(COUNTED / 2);
        assert_eq!(fingerprint(&long), fingerprint(&format!("{long}more")));
        assert_ne!(fingerprint("a b"), fingerprint("a b more"));
    }
}
