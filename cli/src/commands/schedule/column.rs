//! [`Column`]: the column for the user in the lines of a system's crontab.

/// Whether the lines of a crontab have a column for the user, before the command.
pub(super) enum Column<'a> {
    /// They have.
    User,
    /// They have not: a line that begins with a user and what follows is wrong.
    None(&'a dyn Fn(&str, &str) -> bool),
}

impl Column<'_> {
    /// Returns the user and the command of the text behind the times.
    pub(super) fn without<'t>(&self, text: &'t str) -> Result<(Option<&'t str>, &'t str), String> {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim_start();
        match self {
            Self::None(is_user) if !rest.is_empty() && is_user(first, rest) => Err(format!(
                "'{first}' is the name of a user; give --user-column for a crontab with a column for the user, as \
                 /etc/crontab has it, or write a program of this name with its path"
            )),
            Self::None(_) => Ok((None, text)),
            Self::User if rest.is_empty() => Err(format!(
                "'{text}' is the user, and no command follows (--user-column); write the line like \
                 '30 2 * * * root backup'"
            )),
            Self::User if first.contains(['/', '=', '$', '"', '\'']) => Err(format!(
                "'{first}' is not the name of a user (--user-column); write the line like '30 2 * * * root backup'"
            )),
            Self::User => Ok((Some(first), rest)),
        }
    }
}
