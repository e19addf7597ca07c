//! Reads the lines of a user's crontab.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A job of a crontab.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The number of its line, from 1.
    pub(super) line: usize,
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

/// Reads the text of a crontab in the form of a user's own, without a column for the user. Notes a command whose
/// program `is_user`, as in a system's crontab.
pub(super) fn read(text: &str, is_user: impl Fn(&str) -> bool) -> Crontab {
    let mut crontab = Crontab::default();
    let (mut env, mut zone) = (BTreeMap::new(), None);
    for (at, line) in text.lines().enumerate() {
        let (at, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match variable(line) {
            Some(("CRON_TZ", value)) => zone = Some(value).filter(|zone| !zone.is_empty()),
            Some(("MAILTO" | "MAILFROM", _)) => {
                let note = "mail is not sent; `windlass logs` prints the output of a run";
                crontab.notes.push(format!("line {at}: {note}"));
            }
            Some((name, value)) => drop(env.insert(name.to_owned(), value)),
            None => match job(line) {
                Ok((cron, text)) => {
                    let (command, stdin) = percent(text);
                    let mut words = command.split_whitespace();
                    if let Some(user) = words.next().filter(|word| is_user(word))
                        && words.next().is_some()
                    {
                        crontab.notes.push(format!(
                            "line {at}: '{user}' is imported as the program, and is the name of a user; a crontab \
                             with a column for the user has to lose it first"
                        ));
                    }
                    let mut env = env.clone();
                    let shell = env.remove("SHELL").filter(|shell| shell != "/bin/sh");
                    crontab.jobs.push(Job {
                        line: at,
                        cron,
                        zone: zone.clone(),
                        command,
                        stdin,
                        shell,
                        env,
                    });
                }
                Err(reason) => crontab.errors.push((at, format!("line {at}: {reason}"))),
            },
        }
    }
    crontab
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

    /// Returns a name for the job: its program and a part of a hash of its command and times. The same
    /// line has the same name, so that it is imported once.
    pub(super) fn name(&self) -> String {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(c);
        let program: String = program.chars().filter(is_plain).take(40).collect();
        let program = program.trim_start_matches(['_', '.', '-']);
        let zone = self.zone.as_deref().unwrap_or_default();
        let props = self.props().to_string();
        let parts = [self.cron.as_bytes(), zone.as_bytes(), props.as_bytes()];
        format!("cron-{program}-{}", crate::hash::hex(&parts, 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Crontab {
        super::read(text, |_| false)
    }

    #[test]
    fn a_crontab_of_a_user_is_read() {
        let crontab = read(
            "# backups\n\nSHELL = /bin/bash\nPATH=\"/usr/bin:/bin\"\nMAILTO=root\n\
             30 2 * * * tar czf /tmp/home.tgz home\nCRON_TZ=Europe/Berlin\n\
             @daily  /usr/bin/mail -s hello%dear\\%friend%bye\n@reboot start\n* * * *\n@every 15m poll\n",
        );
        let [tar, mail, start, every] = crontab.jobs.as_slice() else {
            panic!("{crontab:?}");
        };
        assert_eq!(
            (tar.line, tar.cron.as_str(), &tar.zone),
            (6, "30 2 * * *", &None)
        );
        assert_eq!(
            tar.props().to_string(),
            r#"{"args":["-c","tar czf /tmp/home.tgz home"],"command":"/bin/bash","env":{"PATH":"/usr/bin:/bin"}}"#
        );
        assert!(tar.name().starts_with("cron-tar-"), "{}", tar.name());
        assert_eq!(mail.zone.as_deref(), Some("Europe/Berlin"));
        assert_eq!(mail.cron, "@daily");
        assert_eq!(mail.command, "/usr/bin/mail -s hello");
        assert_eq!(mail.stdin.as_deref(), Some("dear%friend\nbye\n"));
        assert_eq!(
            (start.cron.as_str(), start.command.as_str()),
            ("@reboot", "start")
        );
        assert_eq!(
            (every.cron.as_str(), every.command.as_str()),
            ("@every 15m", "poll")
        );
        assert_eq!(crontab.notes.len(), 1, "{:?}", crontab.notes);
        assert_eq!(crontab.errors.len(), 1);
        assert_eq!(crontab.errors[0].0, 10);
        assert!(
            crontab.errors[0]
                .1
                .starts_with("line 10: '* * * *' has no command")
        );
    }

    #[test]
    fn a_column_for_the_user_is_noted() {
        let text = "17 * * * * root run-parts /etc/cron.hourly\n@daily ann backup\n0 0 * * * ann\n0 0 * * * tar x\n";
        let crontab = super::read(text, |word| ["root", "ann"].contains(&word));
        assert_eq!(crontab.notes.len(), 2, "{:?}", crontab.notes);
        assert!(crontab.notes[0].starts_with("line 1: 'root' is imported as the program"));
        assert!(crontab.notes[1].starts_with("line 2: 'ann' is"));
        assert_eq!(crontab.jobs.len(), 4);
    }

    #[test]
    fn a_day_of_the_month_with_a_star_restricts_beside_the_weekday() {
        let crontab = read("0 0 */2 * 1 a\n0 0 1 * 1 b\n0 0 */2 * * c\n@daily d\n0 0 1 * */2 e\n");
        let expressions: Vec<String> = crontab.jobs.iter().map(Job::expression).collect();
        let expected = [
            "0 0 */2 * +1",
            "0 0 1 * 1",
            "0 0 */2 * *",
            "@daily",
            "0 0 1 * +0,2,4,6",
        ];
        assert_eq!(expressions, expected);
    }

    #[test]
    fn steps_of_weekdays_are_those_of_cron() {
        for (weekday, days) in [
            ("*/7", "0"),
            ("*/2", "0,2,4,6"),
            ("*/3", "0,3,6"),
            ("*/1", "0,1,2,3,4,5,6"),
            ("*/8", "*/8"),
            ("1-5", "1-5"),
        ] {
            assert_eq!(weekdays(weekday), days, "{weekday}");
        }
    }

    #[test]
    fn the_input_of_a_command_ends_with_one_line_break() {
        for (text, stdin) in [
            ("cat", None),
            ("cat%", None),
            ("cat%a", Some("a\n")),
            ("cat%a%", Some("a\n")),
            ("cat%a%%", Some("a\n\n")),
            ("cat%%", Some("\n")),
            ("cat%a\\%", Some("a%\n")),
        ] {
            assert_eq!(
                percent(text),
                ("cat".to_owned(), stdin.map(str::to_owned)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_command_with_an_equals_sign_is_no_variable() {
        let crontab = read("0 0 * * * A=1 run\n");
        assert_eq!(crontab.jobs[0].command, "A=1 run");
        assert_eq!(
            crontab.jobs[0].props().to_string(),
            r#"{"shell":"A=1 run"}"#
        );
    }
}
