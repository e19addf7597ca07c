//! Reads the lines of a crontab: a user's own, or one of the system's with a column for the user.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::column::Column;

/// A job of a crontab.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The number of its line, from 1.
    pub(super) line: usize,
    /// The name of the comment above it.
    pub(super) name: Option<String>,
    pub(super) cron: String,
    pub(super) zone: Option<String>,
    pub(super) command: String,
    pub(super) stdin: Option<String>,
    /// The shell, unless it is `/bin/sh`.
    pub(super) shell: Option<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// The content of a crontab.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Crontab {
    pub(super) jobs: Vec<Job>,
    /// What is left out, with the number of the line and the reason.
    pub(super) notes: Vec<String>,
    /// Lines that are invalid, with the number of the line and the reason.
    pub(super) errors: Vec<(usize, String)>,
}

/// Reads the text of a crontab.
pub(super) fn read(text: &str, column: &Column<'_>) -> Crontab {
    let mut crontab = Crontab::default();
    let (mut env, mut zone, mut named) = (BTreeMap::new(), None, None);
    let (mut names, mut users, mut doubts) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for (at, line) in text.lines().enumerate() {
        let (at, line) = (at + 1, line.trim());
        if let Some(comment) = line.strip_prefix('#') {
            named = name_of(comment).map(str::to_owned).or(named);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        match variable(line) {
            Some(("CRON_TZ", value)) => zone = Some(value).filter(|zone| !zone.is_empty()),
            Some(("MAILTO" | "MAILFROM", _)) => {
                let note = "mail is not sent; `windlass logs` prints the output of a run";
                crontab.notes.push(format!("line {at}: {note}"));
            }
            Some((name, value)) => drop(env.insert(name.to_owned(), value)),
            None => match job(line).and_then(|(cron, text)| {
                let path = env.get("PATH").map(String::as_str);
                Ok((cron, column.read(text, path)?))
            }) {
                Ok((cron, text)) => {
                    let (command, stdin) = percent(text.command);
                    users.extend(text.user.map(str::to_owned));
                    if let Some((word, why)) = text.doubt
                        && doubts.insert(word)
                    {
                        crontab.notes.push(format!("line {at}: '{word}' {why}"));
                    }
                    let name = named.take();
                    if let Some(name) = &name
                        && let Some(other) = names.insert(name.clone(), at)
                    {
                        let reason = format!(
                            "line {at}: name: '{name}' is also that of line {other}; give each line its own"
                        );
                        crontab.errors.push((at, reason));
                    }
                    let mut env = env.clone();
                    let shell = env.remove("SHELL").filter(|shell| shell != "/bin/sh");
                    crontab.jobs.push(Job {
                        line: at,
                        name,
                        cron,
                        zone: zone.clone(),
                        command,
                        stdin,
                        shell,
                        env,
                    });
                }
                Err(reason) => {
                    named = None;
                    crontab.errors.push((at, format!("line {at}: {reason}")));
                }
            },
        }
    }
    if !users.is_empty() {
        let users: Vec<String> = users.into_iter().collect();
        crontab.notes.push(format!(
            "the user of a line ({}) is left out: a command runs as the user of its worker",
            users.join(", ")
        ));
    }
    crontab
}

/// Returns the name of a comment `# name: NAME`.
fn name_of(comment: &str) -> Option<&str> {
    let comment = comment.trim_start_matches('#').trim();
    let (field, name) = comment.split_once(':')?;
    let name = name.trim();
    (field.trim_end().eq_ignore_ascii_case("name") && !name.is_empty()).then_some(name)
}

/// Reads `NAME=VALUE`. Ignores spaces around `=` and quotes around the value.
fn variable(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || !name.chars().all(is_name)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let value = value.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let inner = value.strip_prefix(*quote)?;
        inner.strip_suffix(*quote)
    });
    Some((name, quoted.unwrap_or(value).to_owned()))
}

/// Splits a line into the expression and the command.
fn job(line: &str) -> Result<(String, &str), String> {
    let is_interval = line
        .get(..7)
        .is_some_and(|name| name.eq_ignore_ascii_case("@every "));
    let fields = match line.starts_with('@') {
        true if is_interval => 2,
        true => 1,
        false => 5,
    };
    let mut rest = line;
    let mut words = Vec::new();
    for _ in 0..fields {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    if rest.is_empty() {
        return Err(format!(
            "'{line}' has no command after its {fields} time fields; write it like '30 2 * * * backup'"
        ));
    }
    Ok((words.join(" "), rest))
}

/// Splits a command at its first `%` into the command and its input, in which each further `%` is a line
/// break. Without text after the first `%` there is no input. `\%` is a `%` itself.
fn percent(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escape = c == '\\' && chars.peek() == Some(&'%');
        match (c, parts.last_mut()) {
            (_, Some(part)) if is_escape => part.extend(chars.next()),
            ('%', _) => parts.push(String::new()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    let stdin = parts.split_off(1);
    let command = parts.pop().unwrap_or_default().trim_end().to_owned();
    let stdin = Some(stdin.join("\n")).filter(|stdin| !stdin.is_empty());
    let stdin = stdin.map(|stdin| match stdin.ends_with('\n') {
        true => stdin,
        false => format!("{stdin}\n"),
    });
    (command, stdin)
}

/// Writes the weekdays `*/N` as a list.
fn weekdays(field: &str) -> String {
    match field.strip_prefix("*/").map(str::parse::<usize>) {
        Some(Ok(step @ 1..=7)) => {
            let days = (0..=7).step_by(step).map(|day| day % 7);
            let days: BTreeSet<usize> = days.collect();
            let days: Vec<String> = days.iter().map(usize::to_string).collect();
            days.join(",")
        }
        _ => field.to_owned(),
    }
}

impl Job {
    /// Returns the cron expression with its meaning in a crontab: a day that begins with `*`, such as `*/2`,
    /// does not make one of the two days enough, and steps of weekdays count from 0 to 7, which are both
    /// Sunday.
    pub(super) fn expression(&self) -> String {
        let fields: Vec<&str> = self.cron.split(' ').collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return self.cron.clone();
        };
        let both =
            day != "*" && weekday != "*" && (day.starts_with('*') || weekday.starts_with('*'));
        let plus = if both { "+" } else { "" };
        format!("{minute} {hour} {day} {month} {plus}{}", weekdays(weekday))
    }

    /// Returns the props of a task that runs the command.
    pub(super) fn props(&self) -> Value {
        let mut props = Map::new();
        match &self.shell {
            None => drop(props.insert("shell".to_owned(), json!(self.command))),
            Some(shell) => {
                props.insert("command".to_owned(), json!(shell));
                props.insert("args".to_owned(), json!(["-c", self.command]));
            }
        }
        if !self.env.is_empty() {
            props.insert("env".to_owned(), json!(self.env));
        }
        if let Some(stdin) = &self.stdin {
            props.insert("stdin".to_owned(), json!(stdin));
        }
        Value::Object(props)
    }

    /// Returns whether another line is the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.cron, &self.zone) == (&other.cron, &other.zone) && self.props() == other.props()
    }

    /// Returns the name of the comment, or one that is made of the program and a part of a hash of the command.
    pub(super) fn name(&self) -> String {
        let own = || self.hashed(&[self.props().to_string().as_bytes()]);
        self.name.clone().unwrap_or_else(own)
    }

    /// Returns the name that imports gave to the line before names were independent of the times.
    pub(super) fn earlier_name(&self) -> String {
        let zone = self.zone.as_deref().unwrap_or_default();
        let props = self.props().to_string();
        self.hashed(&[self.cron.as_bytes(), zone.as_bytes(), props.as_bytes()])
    }

    /// Returns the program, and a part of a hash of these parts.
    fn hashed(&self, parts: &[&[u8]]) -> String {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(c);
        let program: String = program.chars().filter(is_plain).take(40).collect();
        let program = program.trim_start_matches(['_', '.', '-']);
        format!("cron-{program}-{}", crate::hash::hex(parts, 8))
    }
}

#[cfg(test)]
mod tests;
