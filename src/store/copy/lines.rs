//! The lines of a file that contains a store: one JSON object a line.
//!
//! The first line names the format. Each further line has a task, or names one that could not be read. The last line
//! has the counts, so that a truncated file is detected.

use std::{
    collections::BTreeMap,
    io::{BufRead, Read, Write},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use windlass_statemachine::{Json, plain};

use super::{FORMAT, FileError, Outside, Problem, pages};
use crate::store::{Exported, Limits};

/// The longest line. Every task that a store accepts is far shorter.
const LONGEST: u64 = 1 << 30;

const EXPORT: &str = "export";
const END: &str = "end";

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Head {
    /// `export`.
    windlass: String,
    /// The format of the lines.
    format: u64,
    /// The version of windlass that wrote the file.
    version: String,
    /// When it was written.
    at: Timestamp,
    /// How many tasks the store had.
    pub(super) tasks: u64,
}

impl Head {
    pub(super) fn new(at: Timestamp, tasks: u64) -> Self {
        Self {
            windlass: EXPORT.to_owned(),
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            tasks,
        }
    }
}

/// The last line of an export. A file without it is incomplete.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct End {
    /// `end`.
    windlass: String,
    #[serde(flatten)]
    counts: Counts,
}

/// The numbers of the last line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Counts {
    /// The lines with a task.
    pub(super) tasks: u64,
    /// The lines that name an unreadable task.
    pub(super) left: u64,
    /// The lines with an operation that belongs to no task.
    pub(super) outside: u64,
    /// The tasks that were deleted while the file was written: 0. An earlier version left them out.
    pub(super) gone: u64,
}

/// A line between the first and the last.
#[derive(Debug)]
pub(super) enum Line {
    Task(Box<Exported>),
    Left(Problem),
    Outside(Outside),
}

/// A line of an export.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum LineForm {
    Head(Head),
    Task(Box<Exported>),
    /// A task that could not be read.
    Left {
        /// The task, and why it could not be read.
        left: Problem,
    },
    /// An operation that does not belong to a task.
    Outside {
        /// The operation.
        outside: Outside,
    },
    End(End),
}

/// A line of an export, for its JSON Schema.
#[cfg(feature = "schema")]
#[derive(Debug)]
#[non_exhaustive]
pub struct ExportLine;

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ExportLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExportLine".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        LineForm::json_schema(generator)
    }
}

/// The fields of a line.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Writes one line.
pub(super) fn write(to: &mut impl Write, line: &impl Serialize) -> Result<(), FileError> {
    let failed = |source| FileError::Io {
        operation: "write",
        source,
    };
    serde_json::to_writer(&mut *to, line).map_err(|e| failed(e.into()))?;
    to.write_all(b"\n").map_err(failed)
}

/// Writes the last line.
pub(super) fn write_end(to: &mut impl Write, counts: Counts) -> Result<(), FileError> {
    let end = End {
        windlass: END.to_owned(),
        counts,
    };
    write(to, &end)
}

/// Reads the lines of a file, and checks each.
pub(super) struct Lines<R> {
    from: R,
    pub(super) head: Head,
    /// The number of the line that was read last.
    number: u64,
    seen: Counts,
    /// The order of the task that was read last.
    order: u64,
    has_ended: bool,
    /// Whether to refuse a line with fields that the task does not have.
    pub(super) is_strict: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(mut from: R) -> Result<Self, FileError> {
        let foreign = || FileError::Line {
            line: 1,
            reason: "is not the first line of an export; give a file that an export has written"
                .to_owned(),
        };
        let text = text(&mut from, 1)?.ok_or_else(foreign)?;
        let plain::Fields(fields): plain::Fields<Box<RawValue>> =
            plain::object(&text).map_err(|_| foreign())?;
        let of = |name: &str| fields.get(name).map(|raw| raw.get());
        if of("windlass") != Some(r#""export""#) {
            return Err(foreign());
        }
        let format = of("format").and_then(|format| format.parse().ok());
        if let Some(newer) = format.filter(|format| *format > FORMAT) {
            return Err(FileError::Newer(newer));
        }
        let head = plain::object(&text).map_err(|wrong| FileError::Line {
            line: 1,
            reason: wrong.to_string(),
        })?;
        Ok(Self {
            from,
            head,
            number: 1,
            seen: Counts::default(),
            order: 0,
            has_ended: false,
            is_strict: false,
        })
    }

    /// Returns the next line; `None` after the last one, whose counts are checked.
    pub(super) fn next(&mut self) -> Result<Option<Line>, FileError> {
        let Some(text) = text(&mut self.from, self.number + 1)? else {
            return match self.has_ended {
                true => Ok(None),
                false => Err(FileError::Cut { lines: self.number }),
            };
        };
        self.number += 1;
        let line = self.number;
        let wrong = |reason: String| FileError::Line { line, reason };
        if self.has_ended {
            return Err(wrong("the file continues after its last line".to_owned()));
        }
        let fields: Fields = match plain::object(&text) {
            Ok(plain::Fields(fields)) => fields,
            // The rest of the line is missing.
            Err(_) if !text.ends_with('\n') => return Err(FileError::Cut { lines: line - 1 }),
            Err(e) => return Err(wrong(e.to_string())),
        };
        if fields.contains_key("windlass") {
            self.check_end(fields).map_err(wrong)?;
            self.has_ended = true;
            return self.next();
        }
        let read = read(fields).map_err(wrong)?;
        match &read {
            Line::Task(task) if task.order <= self.order => {
                return Err(wrong(format!(
                    "order: {} does not follow {}, that of the task before",
                    task.order, self.order
                )));
            }
            Line::Task(task) if self.is_strict && !is_all_of(&text, task) => {
                let reason = "has a field or a value that this version of windlass does not keep; import the file with \
                              the version that has written it";
                return Err(wrong(reason.to_owned()));
            }
            Line::Task(task) => {
                self.order = task.order;
                self.seen.tasks += 1;
            }
            Line::Left(_) => self.seen.left += 1,
            Line::Outside(_) => self.seen.outside += 1,
        }
        Ok(Some(read))
    }

    /// Returns the error of the line that was read last.
    pub(super) fn wrong(&self, reason: String) -> FileError {
        FileError::Line {
            line: self.number,
            reason,
        }
    }

    fn check_end(&self, mut fields: Fields) -> Result<(), String> {
        let word: String = field(&mut fields, "windlass")?;
        if word != END {
            return Err(format!("windlass: is '{word}', not '{END}'"));
        }
        let said = Counts {
            tasks: field(&mut fields, "tasks")?,
            left: field(&mut fields, "left")?,
            outside: field(&mut fields, "outside")?,
            gone: field(&mut fields, "gone")?,
        };
        let gone = said.gone;
        let seen = Counts { gone, ..self.seen };
        let all = seen.tasks + seen.left + gone;
        if said != seen || all != self.head.tasks {
            return Err(format!(
                "tasks: {} of {} tasks are in the file, and {} lines should have one: lines are missing or were added; \
                 export the store again",
                self.seen.tasks, self.head.tasks, said.tasks
            ));
        }
        Ok(())
    }

    /// Returns the tasks of the next write; empty at the end.
    pub(super) fn page(&mut self) -> Result<Vec<Exported>, FileError> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < pages::AT_ONCE && bytes < Limits::WRITE_BYTES {
            match self.next()? {
                Some(Line::Task(task)) => {
                    bytes += task.bytes();
                    page.push(*task);
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(page)
    }
}

/// Returns whether a task that was read from a line contains everything in the line.
fn is_all_of(text: &str, task: &Exported) -> bool {
    let again = Json::new("line", task);
    let read = Json::parse("line", text.trim_end());
    matches!((again, read), (Ok(again), Ok(read)) if again.same_value(&read))
}

/// Reads the text of a line; `None` at the end of the file.
fn text(from: &mut impl BufRead, line: u64) -> Result<Option<String>, FileError> {
    let failed = |source| FileError::Io {
        operation: "read",
        source,
    };
    let mut text = Vec::new();
    let read = from.take(LONGEST).read_until(b'\n', &mut text);
    if read.map_err(failed)? as u64 == LONGEST {
        let reason =
            format!("has more than {LONGEST} bytes; give a file that an export has written");
        return Err(FileError::Line { line, reason });
    }
    let text = String::from_utf8(text).map_err(|e| {
        let at = e.utf8_error().valid_up_to() + 1;
        let reason = format!("is no text in UTF-8, at byte {at}");
        FileError::Line { line, reason }
    })?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Takes a field out of a line. The error names it.
fn field<T: DeserializeOwned>(fields: &mut Fields, name: &str) -> Result<T, String> {
    let raw = fields.remove(name);
    // An optional field may be absent.
    let text = raw.as_ref().map_or("null", |raw| raw.get());
    plain::read(text).map_err(|wrong| match raw {
        Some(_) => format!("{name}: {wrong}"),
        None => format!("{name}: is missing"),
    })
}

fn read(mut fields: Fields) -> Result<Line, String> {
    if fields.contains_key("left") {
        return alone(fields, "left").map(Line::Left);
    }
    if fields.contains_key("outside") {
        return alone(fields, "outside").map(Line::Outside);
    }
    let all = &mut fields;
    let exported = Exported {
        task: field(all, "task")?,
        state: field(all, "state")?,
        order: field(all, "order")?,
        submitted_at: field(all, "submitted_at")?,
        fence: field(all, "fence")?,
        lost_by: field(all, "lost_by")?,
        commands: field(all, "commands")?,
        history: field(all, "history")?,
        log: field::<Option<_>>(all, "log")?.unwrap_or_default(),
        holds_key: field(all, "holds_key")?,
        replaces: None,
    };
    no_other(&fields)?;
    let id = &exported.task.id;
    let stray = exported.commands.iter().find(|command| command.task != *id);
    if let Some(command) = stray {
        let (name, of) = (&command.id, &command.task);
        return Err(format!(
            "commands: '{name}' is of task '{of}', not of '{id}'"
        ));
    }
    if let Some(change) = exported.history.iter().find(|change| change.task != *id) {
        let (seq, of) = (change.seq, &change.task);
        return Err(format!(
            "history: change {seq} is of task '{of}', not of '{id}'"
        ));
    }
    let mut parts = exported.log.windows(2);
    if parts.any(|two| two[0].part >= two[1].part) {
        return Err("log: its parts are not in the order of their numbers".to_owned());
    }
    Ok(Line::Task(Box::new(exported)))
}

fn alone<T: DeserializeOwned>(mut fields: Fields, name: &str) -> Result<T, String> {
    let value = field(&mut fields, name)?;
    no_other(&fields)?;
    Ok(value)
}

fn no_other(fields: &Fields) -> Result<(), String> {
    match fields.keys().next() {
        Some(other) => Err(format!("{other}: is not a field of this line")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
