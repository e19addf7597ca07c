//! [`Column`]: the column for the user in the lines of a system's crontab.

use super::first::First;

/// Whether the lines of a crontab have a column for the user, before the command.
pub(super) enum Column<'a> {
    /// They have.
    User,
    /// They have not: a line that begins with a user is wrong. The function returns what the first word is, before this rest and
    /// with this `PATH` of the crontab.
    None(&'a dyn Fn(&str, &str, Option<&str>) -> First),
}

/// The text behind the times of a line.
pub(super) struct Text<'t> {
    pub(super) user: Option<&'t str>,
    pub(super) command: &'t str,
    /// The first word, and why it may be no command.
    pub(super) doubt: Option<(&'t str, &'static str)>,
}

impl Column<'_> {
    /// Returns the user and the command of the text behind the times.
    pub(super) fn read<'t>(&self, text: &'t str, path: Option<&str>) -> Result<Text<'t>, String> {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim_start();
        let own = |doubt: Option<&'static str>| Text {
            user: None,
            command: text,
            doubt: doubt.map(|why| (first, why)),
        };
        match self {
            Self::None(is) => match is(first, rest, path) {
                First::Command => Ok(own(None)),
                First::Either => Ok(own(Some("is a program and a user of this machine"))),
                First::Unknown => Ok(own(Some("is no program in PATH of this machine"))),
                First::User => Err(format!(
                    "'{first}' is the name of a user; give --user-column for a crontab with a column for the user, as \
                     /etc/crontab has it, or write a program of this name with its path"
                )),
            },
            Self::User if rest.is_empty() => Err(format!(
                "'{text}' is the user, and no command follows (--user-column); write the line like \
                 '30 2 * * * root backup'"
            )),
            Self::User if first.contains(['/', '=', '$', '"', '\'']) => Err(format!(
                "'{first}' is not the name of a user (--user-column); write the line like '30 2 * * * root backup'"
            )),
            Self::User => Ok(Text {
                user: Some(first),
                command: rest,
                doubt: None,
            }),
        }
    }
}
