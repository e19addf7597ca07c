//! [`Column`]: the column for the user in the lines of a system's crontab.

use super::first::First;

/// Returns what the first word of a text is, before this rest and with this `PATH` of the crontab.
pub(super) type FirstOf<'a> = &'a dyn Fn(&str, &str, Option<&str>) -> First;

/// Whether the lines of a crontab have a column for the user, before the command.
pub(super) enum Column<'a> {
    /// They have: a line that begins with another word than a user is wrong, because the word would be cut off the command.
    User {
        first: FirstOf<'a>,
        /// The users that this machine need not have.
        named: &'a [String],
    },
    /// They have not: a line that begins with a user is wrong.
    None(FirstOf<'a>),
}

/// The text behind the times of a line.
pub(super) struct Text<'t> {
    pub(super) user: Option<&'t str>,
    pub(super) command: &'t str,
    /// The first word, and why it may be something else.
    pub(super) doubt: Option<(&'t str, &'static str)>,
}

impl Column<'_> {
    /// Returns the user and the command of the text behind the times.
    pub(super) fn read<'t>(&self, text: &'t str, path: Option<&str>) -> Result<Text<'t>, String> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim_start();
        match self {
            Self::None(first) => command(text, word, first(word, rest, path)),
            Self::User { .. } if rest.is_empty() => Err(format!(
                "'{word}' is the only word after the times, and the lines have a column for the user (--user-column); \
                 write both, the user and the command, like '30 2 * * * root backup'"
            )),
            Self::User { first, named } => {
                let own = |doubt: Option<&'static str>| Text {
                    user: Some(word),
                    command: rest,
                    doubt: doubt.map(|why| (word, why)),
                };
                if named.iter().any(|user| user == word) {
                    return Ok(own(None));
                }
                let (next, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                match first(word, rest, path) {
                    First::User => Ok(own(None)),
                    First::Either if first(next, after.trim_start(), path) != First::Unknown => {
                        Ok(own(Some(
                            "is a program and a user of this machine, and is taken as the user",
                        )))
                    }
                    is => Err(no_user(word, is)),
                }
            }
        }
    }
}

/// Returns the text of a line without a column for the user. `is`: what its first word is.
fn command<'t>(text: &'t str, word: &'t str, is: First) -> Result<Text<'t>, String> {
    let own = |doubt: Option<&'static str>| Text {
        user: None,
        command: text,
        doubt: doubt.map(|why| (word, why)),
    };
    match is {
        First::Command => Ok(own(None)),
        First::Either => Ok(own(Some(
            "is a program and a user of this machine; if it is the user of the line, give --user-column",
        ))),
        First::Unknown => Ok(own(Some(
            "is no program in PATH of this machine; if it is the user of the line, give --user-column",
        ))),
        First::User => Err(format!(
            "'{word}' is the name of a user; give --user-column for a crontab with a column for the user, as \
             /etc/crontab has it, or write a program of this name with its path"
        )),
    }
}

/// Says why this word is not taken as the user of a line.
fn no_user(word: &str, is: First) -> String {
    let what = match is {
        First::Either => "may be a program, and a user of this machine",
        _ => "is not a user of this machine",
    };
    let right = "write the user before the command, like '30 2 * * * root backup'";
    // The names of users of other machines are as those of this one.
    let is_name = |c: char| c.is_alphanumeric() || ['-', '_', '.', '@', '$', '\\'].contains(&c);
    match word.chars().all(is_name) {
        true => format!(
            "'{word}' {what} (--user-column); {right}, or give --user {word} if '{word}' is the user of the line"
        ),
        false => format!("'{word}' is not the name of a user (--user-column); {right}"),
    }
}
