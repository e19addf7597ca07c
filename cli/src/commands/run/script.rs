//! [`Script`]: the template of `--each --shell`, with the places of the line.
//!
//! A line never becomes part of the text that sh reads. sh gets it as its first argument, and a
//! place (`{}`) becomes `"$1"`. That is correct only where sh reads a plain word: within quotes the
//! quotes of `"$1"` would end the outer ones, and within a here-document or arithmetic it would
//! have another meaning. A template with a place elsewhere, or after syntax that shells read
//! differently, is refused.

use serde_json::json;

use crate::exec::Word;

/// The replacement of a place: the first argument as one word.
const ARGUMENT: &str = "\"$1\"";

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    text: String,
    /// Whether the template names the place of the line, with `{}` or by its end. Otherwise it uses
    /// `$1` itself.
    pub(super) has_places: bool,
}

/// The syntax that the reader is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// `$(…)`, with this many open parentheses in it.
    Substitution(u32),
    /// `"…"`.
    Quotes,
}

impl Script {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// Why the line cannot be at this place of the template, and what to write instead.
    pub(super) fn new(template: &str) -> Result<Self, String> {
        let mut reader = Reader {
            rest: template,
            ..Reader::default()
        };
        reader.read()?;
        let places = reader.places > 0;
        if !places && reader.reads_argument {
            return Ok(Self {
                text: reader.text,
                has_places: false,
            });
        }
        if let Some(what) = reader.unsure.filter(|_| !places) {
            return Err(format!(
                "the line cannot be added at the end, behind {what}; write \"$1\", with its double \
                 quotes, where the line is to stand"
            ));
        }
        if !places {
            if reader.text.ends_with('\\') || reader.comment {
                let reason = "the line cannot be added at the end, behind a comment or a backslash; \
                              write {} where the line is to stand";
                return Err(reason.into());
            }
            reader.text.push(' ');
            reader.text.push_str(ARGUMENT);
        }
        Ok(Self {
            text: reader.text,
            has_places: true,
        })
    }

    /// Returns the text for `sh -c`, whose first argument (`$1`) is the line.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Reads a template from the left to the right.
#[derive(Debug, Default)]
struct Reader<'a> {
    rest: &'a str,
    text: String,
    within: Vec<Within>,
    places: usize,
    /// Whether `$1` is at a place where sh replaces it.
    reads_argument: bool,
    /// The syntax that was found after which shells disagree on what a plain word is.
    unsure: Option<&'static str>,
    /// Whether it ends in a comment.
    comment: bool,
    /// The word so far, as it is written.
    word: String,
    /// The last character that sh reads, without line breaks after a backslash.
    last: Option<char>,
}

fn refused(place: &str) -> String {
    format!(
        "{{}} stands within {place}, where sh could read a part of the line as its own text; write \
         {{}} without quotes, or \"$1\" (with its double quotes): sh gets the line as its first \
         argument. A script for another shell takes it as an argument: sh -c 'echo \"$1\"' sh {{}}"
    )
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest.chars().next() {
            if let Some(what) = self.unsure {
                return self.read_unsure(what);
            }
            if self.rest.starts_with("{}") {
                self.place()?;
                continue;
            }
            match (c, self.within.last().copied()) {
                ('\\', _) => self.backslash()?,
                ('$', _) => self.dollar()?,
                ('`', _) => self.unsure = Some("a backquote"),
                ('"', Some(Within::Quotes)) => self.leave(),
                (_, Some(Within::Quotes)) => self.take(c.len_utf8()),
                ('"', _) => {
                    self.within.push(Within::Quotes);
                    self.take(1);
                }
                ('\'', _) => self.single()?,
                ('#', within) if self.word.is_empty() => match within {
                    None => self.comment()?,
                    Some(_) => self.unsure = Some("a comment within $(…)"),
                },
                (_, within) => self.plain(c, within),
            }
        }
        match (self.unsure, self.within.last()) {
            (None, Some(Within::Quotes)) => Err("has a double quote that is not closed".into()),
            (None, Some(Within::Substitution(_))) => Err("has a $( that is not closed".into()),
            _ => Ok(()),
        }
    }

    /// Takes the next bytes unchanged, as part of a word.
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.text.push_str(taken);
        self.word.push_str(taken);
        self.last = taken.chars().next_back();
        self.rest = rest;
    }

    fn leave(&mut self) {
        self.within.pop();
        self.take(1);
    }

    /// Reads the rest of a template after syntax that shells read differently.
    fn read_unsure(&mut self, what: &str) -> Result<(), String> {
        if self.rest.contains("{}") {
            return Err(refused(what).replacen("within", "within or behind", 1));
        }
        self.reads_argument |= ["$1", "${1", "$@", "$*"]
            .iter()
            .any(|name| self.rest.contains(name));
        self.take(self.rest.len());
        Ok(())
    }

    fn place(&mut self) -> Result<(), String> {
        if self.within.last() == Some(&Within::Quotes) {
            return Err(refused("double quotes"));
        }
        // Some shells evaluate the subscript of an array.
        if self.word.contains('[') {
            return Err(refused("brackets"));
        }
        self.places += 1;
        self.text.push_str(ARGUMENT);
        self.word.push_str("{}");
        self.last = Some('}');
        self.rest = &self.rest[2..];
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), String> {
        let Some(next) = self.rest[1..].chars().next() else {
            self.take(1);
            return Ok(());
        };
        if self.rest[1..].starts_with("{}") {
            return Err(refused("a word behind a backslash"));
        }
        if next != '\n' {
            self.take(1 + next.len_utf8());
            return Ok(());
        }
        // sh continues as if neither were there, even in the middle of "$(" or "<<".
        if self.last.is_some_and(|c| "$<([".contains(c)) || !self.within.is_empty() {
            self.unsure = Some("a line break behind a backslash");
            return Ok(());
        }
        let (last, word) = (self.last, self.word.len());
        self.take(2);
        self.last = last;
        self.word.truncate(word);
        Ok(())
    }

    fn dollar(&mut self) -> Result<(), String> {
        let quoted = self.within.last() == Some(&Within::Quotes);
        let rest = &self.rest[1..];
        if rest.starts_with("((") {
            self.unsure = Some("arithmetic");
        } else if rest.starts_with('[') {
            self.unsure = Some("$[");
        } else if rest.starts_with('\'') && !quoted {
            self.unsure = Some("$'");
        } else if rest.starts_with('(') && self.word.contains('[') {
            self.unsure = Some("brackets");
        } else if rest.starts_with('(') {
            self.take(2);
            self.within.push(Within::Substitution(0));
            self.word.clear();
        } else if let Some(inner) = rest.strip_prefix('{') {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_#%:-+=?/.*@!,^ ".contains(c);
            let name = inner.find(|c| !plain(c)).unwrap_or(inner.len());
            if !inner[name..].starts_with('}') || name == 0 {
                self.unsure = Some("${");
                return Ok(());
            }
            self.reads_argument |= inner.starts_with(['1', '@', '*']);
            self.take(2 + name + 1);
        } else {
            self.reads_argument |= rest.starts_with(['1', '@', '*']);
            // A name follows, "$#" (not a comment) or a plain character.
            let special = rest.starts_with(['#', '?', '$', '!', '*', '@', '-']);
            self.take(if special { 2 } else { 1 });
        }
        Ok(())
    }

    fn single(&mut self) -> Result<(), String> {
        let Some(length) = self.rest[1..].find('\'') else {
            return Err("has a single quote that is not closed".into());
        };
        if self.rest[1..=length].contains("{}") {
            return Err(refused("single quotes"));
        }
        self.take(length + 2);
        Ok(())
    }

    fn comment(&mut self) -> Result<(), String> {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        if self.rest[..length].contains("{}") {
            return Err(refused("a comment"));
        }
        self.comment = length == self.rest.len();
        self.take(length);
        self.word.clear();
        Ok(())
    }

    /// Reads a character outside of all quotes.
    fn plain(&mut self, c: char, within: Option<Within>) {
        if self.rest.starts_with("<<") {
            self.unsure = Some("a here-document");
            return;
        }
        if self.rest.starts_with("((") {
            self.unsure = Some("arithmetic");
            return;
        }
        if !" \t\n;&|()<>".contains(c) {
            return self.take(c.len_utf8());
        }
        // Some shells evaluate the subscript of an array, which may have blanks.
        let open = self.word.find('[').filter(|_| !self.word.contains(']'));
        self.unsure = match self.word.as_str() {
            // Its patterns have closing parentheses without opening ones.
            "case" if within.is_some() => Some("case within $(…)"),
            "[[" => Some("[["),
            word if c == '(' && word.ends_with('=') => Some("an array"),
            _ if open.is_some_and(|at| at > 0) => Some("brackets"),
            _ => None,
        };
        if self.unsure.is_some() {
            return;
        }
        match (c, within) {
            (')', Some(Within::Substitution(0))) => {
                self.leave();
                // It may be in the middle of a word.
                return;
            }
            (')', Some(Within::Substitution(open))) => {
                self.within.pop();
                self.within.push(Within::Substitution(open - 1));
            }
            ('(', Some(Within::Substitution(open))) => {
                self.within.pop();
                self.within.push(Within::Substitution(open + 1));
            }
            _ => {}
        }
        self.take(c.len_utf8());
        self.word.clear();
    }
}

/// Refuses a command without `--shell` whose words have the line in the middle of a script for
/// another shell, as in `sh -c 'echo {}'`.
///
/// # Errors
///
/// What to write instead.
pub(super) fn check_words(words: &[String]) -> Result<(), String> {
    /// Programs that read the word after a `-c` as a script.
    const SHELLS: [&str; 15] = [
        "sh", "bash", "dash", "ash", "ksh", "mksh", "yash", "zsh", "fish", "csh", "tcsh", "su",
        "runuser", "flock", "script",
    ];
    let mut shell = None;
    let mut script = false;
    for word in words {
        // A line that is a whole script is intended.
        if let Some(shell) = shell.filter(|_| script)
            && word != "{}"
            && word.contains("{}")
        {
            return Err(format!(
                "{{}} stands within a script for {shell}, which would run a part of the line as its \
                 own text; give the line as an argument: {shell} -c 'echo \"$1\"' {shell} {{}}"
            ));
        }
        script = false;
        let name = word.rsplit('/').next().unwrap_or_default();
        if SHELLS.contains(&name) {
            shell = Some(name);
        } else if let Some(letters) = word.strip_prefix('-') {
            script = letters == "-command" || !letters.starts_with('-') && letters.contains('c');
        }
    }
    Ok(())
}

/// Returns the text from which the id of a line's script is made. It is never executed.
pub(super) fn shell_identity(template: &str, line: &str) -> String {
    let quoted = shell_words::quote(line);
    let script = if template.contains("{}") {
        template.replace("{}", &quoted)
    } else {
        format!("{template} {quoted}")
    };
    json!({ "shell": script }).to_string()
}

/// Returns a word of a template in which the line replaces its placeholders.
pub(super) fn placed(template: &str, line: &[u8]) -> Word {
    let parts: Vec<&[u8]> = template.split("{}").map(str::as_bytes).collect();
    Word::from_bytes(parts.join(line))
}

#[cfg(test)]
mod tests;
