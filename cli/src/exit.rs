//! [`Exit`] codes, and the [`Failure`]s that lead to them.

use std::io::Write;

use windlass::{Invalid, runner::StartError, statemachine::text::of_io, store};

use crate::remedy::with_command;

/// How the program ends. Scripts rely on these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Ok,
    /// 1: not done: a task failed, a command was rejected or overridden, an id exists already, some
    /// tasks of a command on many failed, a confirmation was denied.
    No,
    /// 2: bad usage or input.
    Usage,
    /// 3: the task, node or command does not exist.
    NotFound,
    /// 4: the store cannot be used or reached, or the output cannot be written.
    Store,
    /// 5: the time of `--timeout` has passed, or that of `--until` of `wait-signal`.
    Timeout,
    /// 130: interrupted.
    #[allow(
        dead_code,
        reason = "for the commands that stay until they are interrupted"
    )]
    Interrupted,
}

/// The exit codes, for `--help` and the reference.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    not done: a task failed, a command was rejected or overridden, an id exists already,
       some tasks of a command on many failed, a confirmation was denied
  2    bad usage or input
  3    no such task, node or command
  4    the store cannot be used or reached, or the output cannot be written
  5    the time of --timeout has passed, or that of --until of wait-signal
  130  interrupted";

impl Exit {
    /// Returns the number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Store => 4,
            Self::Timeout => 5,
            Self::Interrupted => 130,
        }
    }

    /// Returns the exit with this number.
    pub(crate) fn from_code(code: u8) -> Self {
        let all = [
            Self::Ok,
            Self::Usage,
            Self::NotFound,
            Self::Store,
            Self::Timeout,
        ];
        all.into_iter()
            .find(|e| e.code() == code)
            .unwrap_or(Self::No)
    }
}

/// Why a command failed. Printed as one line, which names the field and says what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command was not carried out, or a task failed.
    #[error("{0}")]
    No(String),
    /// Bad usage or input.
    #[error("{0}")]
    Usage(String),
    /// The task, node or command does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The store cannot be used or reached, or the machine has a fault.
    #[error("{0}")]
    Store(String),
    /// The time of `--timeout` has passed.
    #[error("{0}")]
    Timeout(String),
    /// The reader of the output is gone, so nothing can be reported.
    #[error("the reader has closed the output")]
    Pipe,
}

impl Failure {
    /// Returns the same failure, with the name of the argument.
    pub(crate) fn about(self, what: &str) -> Self {
        let named = |text: String| match text.strip_prefix("store: ") {
            Some(text) => format!("{what}: {text}"),
            None => format!("{what}: {text}"),
        };
        match self {
            Self::No(text) => Self::No(named(text)),
            Self::Usage(text) => Self::Usage(named(text)),
            Self::NotFound(text) => Self::NotFound(named(text)),
            Self::Store(text) => Self::Store(named(text)),
            Self::Timeout(text) => Self::Timeout(named(text)),
            Self::Pipe => Self::Pipe,
        }
    }

    /// Returns the exit of the failure.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::No(_) => Exit::No,
            Self::Usage(_) => Exit::Usage,
            Self::NotFound(_) => Exit::NotFound,
            Self::Store(_) => Exit::Store,
            Self::Timeout(_) => Exit::Timeout,
            Self::Pipe => Exit::Ok,
        }
    }

    /// Prints the failure on standard error. Returns the exit of the program.
    pub(crate) fn report(&self) -> Exit {
        if !matches!(self, Self::Pipe) {
            let text = crate::text::one_line(&self.to_string());
            // If standard error is closed, there is no reader.
            let _ = writeln!(std::io::stderr(), "error: {text}");
        }
        self.exit()
    }

    /// Prints the failure like [`report`](Self::report), as a JSON log line.
    pub(crate) fn report_json(&self) -> Exit {
        if !matches!(self, Self::Pipe) {
            let line = serde_json::json!({
                "timestamp": jiff::Timestamp::now(),
                "level": "ERROR",
                "message": self.to_string(),
                "target": "windlass",
            });
            // If standard error is closed, there is no reader.
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                crate::text::json(&line.to_string())
            );
        }
        self.exit()
    }

    /// Returns the error of a store about a schedule.
    pub(crate) fn of_schedule(error: store::Error) -> Self {
        let text = error.to_string();
        match error {
            store::Error::NotFound { what: "task", .. } => Self::NotFound(format!(
                "{text}; `windlass schedule list` shows the schedules"
            )),
            store::Error::AlreadyExists { what: "task", .. } => Self::No(format!(
                "{text}; choose another id, or change the schedule: `windlass schedule update`"
            )),
            other => other.into(),
        }
    }

    /// Returns the failure of a file that could not be read or written.
    pub(crate) fn file(path: &str, error: &std::io::Error) -> Self {
        Self::Usage(format!("{path}: {}", of_io(error)))
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let mut text = with_command(&error.to_string(), error.remedy());
        match error {
            store::Error::NotFound { what, name } => {
                match what {
                    "task" if name.contains('*') => text.push_str(
                        "; an id is taken literally: select several tasks by filters, such as --prefix and --label",
                    ),
                    "task" => text.push_str("; `windlass list` shows those that do"),
                    "node" => text.push_str("; `windlass nodes` shows those that live"),
                    _ => {}
                }
                Self::NotFound(text)
            }
            // The state of a task or a schedule does not allow it, so the command line is not at
            // fault.
            store::Error::Invalid(e) if e.field() == "state" => Self::No(text),
            store::Error::Invalid(error) => error.into(),
            store::Error::TooLarge { .. }
            | store::Error::Unsupported { .. }
            | store::Error::NotASchedule { .. } => Self::Usage(text),
            store::Error::AlreadyExists { what: "task", .. } => {
                let is_replace = std::env::args().any(|word| word == "--replace");
                text.push_str(match is_replace {
                    true => "; --replace takes only the id of a task that has ended: kill or complete it first, or choose another id",
                    false => "; choose another id (--idempotent takes a task that is the same as submitted)",
                });
                Self::No(text)
            }
            store::Error::AlreadyFinished {
                task: id,
                difference,
            } => Self::No(format!(
                "task '{id}' has ended already{}; `windlass retry` starts it again, and `windlass submit --replace` uses its \
                 id for a new task",
                difference.map_or_else(String::new, |difference| format!("; {difference}"))
            )),
            store::Error::AlreadyExists { .. }
            | store::Error::ScheduleEnded(_)
            | store::Error::NotUnique { .. }
            | store::Error::Refused(_) => Self::No(text),
            store::Error::Claimed(id) => Self::No(format!(
                "task '{id}' is claimed by a node, or its node has ended without releasing it and the command may still run; \
                 wait until a node has released it, or give --force, which stops the handler (a worker that starts on the \
                 machine of a dead node ends what that node was running)"
            )),
            store::Error::Corrupt { .. } => {
                text.push_str("; `windlass retry` reads it again or starts it again; a task that it cannot read either \
                     can only be deleted: `windlass delete`");
                Self::No(text)
            }
            _ => Self::Store(text),
        }
    }
}

impl From<Invalid> for Failure {
    fn from(error: Invalid) -> Self {
        Self::Usage(named(&error, std::env::args()))
    }
}

/// Returns the text of an error about a field. Names the option if the field was set by one: `--start-at` for
/// `start_at`.
fn named(error: &Invalid, words: impl Iterator<Item = String>) -> String {
    match option_of(error.field(), words) {
        Some(option) => format!("{option}: {}", error.reason()),
        None => error.to_string(),
    }
}

/// Returns the option with which a field was set, or the name of the field.
pub(crate) fn named_option(field: &str) -> String {
    option_of(field, std::env::args()).unwrap_or_else(|| field.to_owned())
}

/// Returns the option with which a field was set, if it was.
fn option_of(field: &str, words: impl Iterator<Item = String>) -> Option<String> {
    let name = field.replace('_', "-");
    let options = [
        format!("--{name}"),
        format!("--{}", name.trim_end_matches('s')),
    ];
    let mut given = words.take_while(|word| word != "--").filter_map(|word| {
        let option = word.split('=').next().unwrap_or_default().to_owned();
        options.contains(&option).then_some(option)
    });
    given.next()
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(e) => e.into(),
            StartError::NameTaken(_) => Self::No(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::Pipe
        } else {
            Self::Store(format!(
                "could not write the output: {error}; check the disk or the program that reads it"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_option_by_which_the_field_was_given() {
        let text = |field: &'static str, line: &str| {
            let error = Invalid::new(field, "is wrong");
            named(&error, line.split(' ').map(str::to_owned))
        };
        let line = "windlass submit k --start-at x --label=a=b --id 7 -- echo --props";
        for (field, expected) in [
            ("start_at", "--start-at: is wrong"),
            ("labels", "--label: is wrong"),
            ("id", "--id: is wrong"),
            ("kind", "kind: is wrong"),
            ("props", "props: is wrong"),
        ] {
            assert_eq!(text(field, line), expected);
        }
    }

    #[test]
    fn store_errors_have_their_exit_codes() {
        let id: windlass::TaskId = "a".parse().unwrap();
        for (error, code) in [
            (store::Error::no_task(&id), 3),
            (store::Error::finished(&id), 1),
            (store::Error::ScheduleEnded(id.clone()), 1),
            (Invalid::new("x", "y").into(), 2),
            (store::Error::not_retried(windlass::StateKind::Runnable), 1),
            (store::Error::unavailable("list", "busy"), 4),
            (store::Error::Unusable("not ours".into()), 4),
            (store::Error::fenced(&id), 4),
        ] {
            assert_eq!(Failure::from(error.clone()).exit().code(), code, "{error}");
        }
    }
}
