//! [`Hint`]: the command lines that messages print, for readers who copy them into a shell.

use std::{borrow::Cow, fmt::Write};

use windlass::{TaskId, store::without_password};

use crate::text::is_unprintable;

/// Makes command lines that act on the store of this call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hint {
    /// The store, if it was named on the command line: a command line without it would use another
    /// one.
    store: Option<String>,
}

impl Hint {
    /// Takes the URL of a store that was named on the command line.
    pub(crate) fn new(store: Option<&str>) -> Self {
        Self {
            store: store.map(without_password),
        }
    }

    /// Returns the command line of `windlass` with these words. The caller must quote variable words.
    pub(crate) fn command(&self, words: &str) -> String {
        match &self.store {
            Some(url) => format!("windlass {words} --store {}", quoted(url)),
            None => format!("windlass {words}"),
        }
    }

    /// Returns the command line with these words and a task.
    pub(crate) fn on_task(&self, words: &str, id: &TaskId) -> String {
        format!("{} {}", self.command(words), argument(id.as_str()))
    }

    /// Returns the command line with these words and tasks.
    pub(crate) fn on_tasks(&self, words: &str, ids: &[TaskId]) -> String {
        let dashes = ids.iter().any(|id| id.as_str().starts_with('-'));
        let ids: Vec<_> = ids.iter().map(|id| quoted(id.as_str())).collect();
        let dashes = if dashes { "-- " } else { "" };
        format!("{} {dashes}{}", self.command(words), ids.join(" "))
    }
}

/// Returns an argument that is not read as an option, even if the text begins with `-`.
fn argument(text: &str) -> String {
    let options_end = if text.starts_with('-') { "-- " } else { "" };
    format!("{options_end}{}", quoted(text))
}

/// Returns an option with its value, even if the value begins with `-`.
pub(crate) fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{between}{}", quoted(value))
}

/// Returns the text as one word that no shell expands. `shell_words::quote` does not quote braces and `~`, which
/// shells expand, nor control characters, which terminals interpret.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_@%+=:,./".contains(c);
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        return text.into();
    }
    if !text.chars().any(is_unprintable) {
        return format!("'{}'", text.replace('\'', r"'\''")).into();
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if is_unprintable(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Three octal digits, so that a following digit is not part of the escape.
                    let _ = write!(word, "\\{byte:03o}");
                }
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word.into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Returns what a shell makes of the words of a command line, one a line.
    fn words(line: &str) -> String {
        let script = format!("printf '%s|' {line}");
        let shell = Command::new("bash").args(["-c", &script]).output();
        String::from_utf8(shell.unwrap().stdout).unwrap()
    }

    #[test]
    fn a_shell_reads_a_quoted_text_as_one_word() {
        for text in [
            "plain-1.x",
            "a b",
            "it's",
            "$(touch x)",
            "`id`",
            "\"",
            "{a,b}",
            "~",
            "~root",
            "a;b",
            "a&b",
            "*",
            "!!",
            "#",
            "é x",
            "\\",
            "a\nb",
            "a\u{202e}b\u{9b}",
            "\u{1b}[2J1'\\",
            "=ls",
            "",
        ] {
            let quoted = quoted(text);
            assert_eq!(words(&quoted), format!("{text}|"), "{quoted}");
            assert!(!quoted.chars().any(is_unprintable), "{quoted}");
        }
        assert_eq!(quoted("report-2026"), "report-2026");
    }

    #[test]
    fn a_command_names_the_store_of_the_command_line_without_its_password() {
        let on = |url, id: &str| Hint::new(url).on_task("delete", &id.parse().unwrap());
        assert_eq!(on(None, "t"), "windlass delete t");
        assert_eq!(on(None, "-x"), "windlass delete -- -x");
        assert_eq!(
            on(Some("sqlite:a b"), "-x y"),
            "windlass delete --store 'sqlite:a b' -- '-x y'"
        );
        let hidden = on(Some("etcd://me:secret@h/jobs"), "t");
        assert_eq!(hidden, "windlass delete --store 'etcd://***@h/jobs' t");
    }

    #[test]
    fn a_value_that_begins_with_a_hyphen_is_no_option() {
        assert_eq!(option("--batch", "a b"), "--batch 'a b'");
        assert_eq!(option("--batch", "-a"), "--batch=-a");
    }
}
