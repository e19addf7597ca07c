//! [`Maker`]: makes tasks from lines.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass::{
    Invalid, Json, Limit, NewTask,
    statemachine::{plain, wire::TaskForm},
    store::Submit,
};

use super::{
    args::{Args, DEFAULT_RETRY},
    input_files::{self, InputFiles, Stamp},
    names::{default_batch, slug},
    script::{Script, check_words, placed, shell_identity},
    words,
};
use crate::{
    env_args::EnvArgs,
    exec::{self, KIND, Props, RUN_KIND, Word},
    exit::Failure,
    hash, line,
};

/// The label by which the tasks of a batch are found.
pub(crate) const BATCH: &str = "batch";

/// The number of hash digits in an id: enough for billions of lines.
const ID_DIGITS: usize = 20;

/// The field of a task with the names of the files that it reads.
const INPUTS: &str = "inputs";

/// The props of a command that determine the location of its files.
#[derive(Debug, Deserialize)]
struct Folder {
    cwd: Option<PathBuf>,
}

/// A task to submit.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) submit: Submit,
    /// Whether its id is a digest of its content: a task with that id is the same work, whatever
    /// its options are.
    pub(super) derived: bool,
    /// Whether another task has its unique key. That task then counts as the task of the line.
    pub(super) has_stand_in: bool,
    /// The files that it reads.
    inputs: InputFiles,
    /// Their times and sizes.
    pub(super) stamp: Option<Stamp>,
}

impl Entry {
    /// Returns why a file that the task reads cannot show whether it changed.
    pub(super) fn input_not_there(&self) -> Option<String> {
        self.inputs.not_there()
    }

    /// Reads the times and sizes of the task's files. They may change until its command reads them.
    pub(super) fn look_at_inputs(&mut self) {
        self.stamp = self.inputs.stamp();
        if let Some(stamp) = &self.stamp {
            let digest = stamp.digest.clone();
            let labels = &mut self.submit.task.labels;
            labels.insert(input_files::LABEL.to_owned(), digest);
        }
    }
}

enum What {
    /// A line is a task.
    Task,
    /// A line is a word of this command.
    Words(Vec<String>),
    /// A line is the first argument of this script for sh.
    Shell {
        /// The input.
        template: String,
        script: Script,
    },
}

/// Makes tasks of lines.
pub(super) struct Maker {
    what: What,
    batch: String,
    cwd: String,
    timeout: Option<String>,
    env: EnvArgs,
    retry: Option<windlass::Retry>,
    limits: Vec<Limit>,
    /// The files that each line names, as templates.
    inputs: Vec<String>,
}

impl Maker {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let what = match &args.each {
            None => What::Task,
            Some(text) if args.shell => What::Shell {
                template: text.clone(),
                script: Script::new(text).map_err(|e| Failure::Usage(format!("--each: {e}")))?,
            },
            Some(text) => {
                let words = words::split(text).map_err(|e| {
                    Failure::Usage(format!("--each: '{text}' cannot be split into words: {e}"))
                })?;
                check_words(&words).map_err(|e| Failure::Usage(format!("--each: {e}")))?;
                What::Words(words)
            }
        };
        if args
            .each
            .as_ref()
            .is_some_and(|text| text.trim().is_empty())
        {
            return Err(Failure::Usage("--each: is empty; give a command".into()));
        }
        let cwd = std::env::current_dir()
            .ok()
            .and_then(|dir| dir.into_os_string().into_string().ok())
            .ok_or_else(|| {
                Failure::Usage("the current folder is gone, or its name is not UTF-8".into())
            })?;
        let batch = match &args.batch {
            Some(name) => name.clone(),
            None => default_batch(args, &cwd),
        };
        let maker = Self {
            what,
            batch,
            cwd,
            timeout: args.timeout.map(|t| format!("{}ms", t.as_millis())),
            env: args.env.clone(),
            retry: args.retry.clone(),
            limits: args.at_once.iter().chain(&args.rate).cloned().collect(),
            inputs: args.inputs.clone(),
        };
        // Checked here, so that an invalid option is reported once and not for every line.
        let props = maker.exec_props(Map::from_iter([("command".to_owned(), json!("true"))]))?;
        maker.finish(NewTask::new(RUN_KIND).props(&props), false)?;
        Ok(maker)
    }

    /// Returns the name of the batch.
    pub(super) fn batch(&self) -> &str {
        &self.batch
    }

    /// Returns the task of a line.
    ///
    /// # Errors
    ///
    /// The reason why the line is invalid.
    pub(super) fn make(&self, line: &[u8]) -> Result<Entry, String> {
        match &self.what {
            // The error names the line's number too.
            What::Task => std::str::from_utf8(line)
                .map_err(|e| format!("is not UTF-8 text at byte {}", e.valid_up_to() + 1))
                .and_then(|line| self.task(line).map_err(|e| e.to_string()))
                .map_err(|e| e.replace(" at line 1 column ", " at column ")),
            What::Words(words) => {
                let mut words: Vec<Word> = words.iter().map(|word| placed(word, line)).collect();
                if !self.has_place() {
                    words.push(Word::from_bytes(line.to_vec()));
                }
                let args = words.split_off(1);
                let props = json!({"command": words[0], "args": args});
                self.each(line, props.to_string(), props)
            }
            What::Shell { template, script } => {
                let word = Word::from_bytes(line.to_vec());
                let props = json!({"shell": script.text(), "args": [word]});
                let identity = match std::str::from_utf8(line) {
                    Ok(line) if script.has_places => shell_identity(template, line),
                    _ => props.to_string(),
                };
                self.each(line, identity, props)
            }
        }
    }

    fn has_place(&self) -> bool {
        match &self.what {
            What::Words(words) => words.iter().any(|word| word.contains("{}")),
            What::Task | What::Shell { .. } => false,
        }
    }

    /// Returns the task of a line of `--each`. Its identity is its command, not its options:
    /// another timeout is not another task.
    fn each(&self, line: &[u8], identity: String, props: Value) -> Result<Entry, String> {
        let make = || {
            let Value::Object(props) = props else {
                return Err(Invalid::new("props", "are not an object"));
            };
            let readable = String::from_utf8_lossy(line);
            let id = self.derive(&readable, &[b"each", identity.as_bytes(), line]);
            let props = self.exec_props(props)?;
            self.finish(NewTask::new(RUN_KIND).id(id).props(&props), false)
        };
        let submit = make().map_err(|e| e.to_string())?;
        Ok(Entry {
            submit,
            derived: true,
            has_stand_in: false,
            inputs: self.inputs_of(line),
            stamp: None,
        })
    }

    /// Returns a hint for the error of a line that is not text and ends with this byte.
    pub(super) fn hint_of_null(&self, end: u8) -> &'static str {
        match self.what {
            What::Task => "",
            _ if end == 0 => "",
            _ => {
                "; file names need not be text with -0 (`find . -print0 | windlass run -0 --each …`)"
            }
        }
    }

    /// Returns the files of a line of `--each`: those of `--inputs`, or else the line itself.
    fn inputs_of(&self, line: &[u8]) -> InputFiles {
        let path = |name: &OsStr| Path::new(&self.cwd).join(name);
        if self.inputs.is_empty() {
            return InputFiles::Line(path(OsStr::from_bytes(line)));
        }
        // An empty name turns off the line as an input file.
        let named = self.inputs.iter().filter(|name| !name.is_empty());
        let named: Vec<PathBuf> = named
            .map(|n| path(&placed(n, line).to_os_string()))
            .collect();
        match named.is_empty() {
            true => InputFiles::None,
            false => InputFiles::Named(named),
        }
    }

    /// Returns the id of this content: equal content has an equal id.
    fn derive(&self, readable: &str, parts: &[&[u8]]) -> String {
        let mut all = vec![self.batch.as_bytes(), self.cwd.as_bytes()];
        all.extend(parts);
        format!("{}-{}", slug(readable), hash::hex(&all, ID_DIGITS))
    }

    /// Returns a line that is a task: with the fields of one, or of a command.
    fn task(&self, line: &str) -> Result<Entry, Invalid> {
        let not_json = |e: serde_json::Error| {
            Invalid::new(
                "task",
                format!("{}; for plain lines give --each COMMAND", plain::words(&e)),
            )
        };
        let mut fields: Map<String, Value> = match serde_json::from_str(line).map_err(not_json)? {
            Value::Object(fields) => {
                // A field of the map that was given twice has lost one of its values.
                plain::each_once(line).map_err(|wrong| wrong.into_invalid("task"))?;
                fields
            }
            _ => {
                let reason = "is not a JSON object; write it like {\"command\":\"true\"}, or give --each COMMAND for plain lines";
                return Err(Invalid::new("task", reason));
            }
        };
        let own = TaskForm::FIELDS.into_iter().chain([INPUTS]);
        let known = || own.clone().chain(exec::FIELDS);
        if let Some(name) = fields.keys().find(|name| !known().any(|k| k == *name)) {
            return Err(Invalid::new("task", plain::unknown_field(name, known())));
        }
        let mut command = Map::new();
        for name in exec::FIELDS {
            if let Some(value) = fields.remove(name) {
                command.insert(name.to_owned(), value);
            }
        }
        let named = fields.remove(INPUTS);
        let mut task = if command.is_empty() && named.is_none() {
            // Taken from the text itself, which keeps every digit of its numbers.
            line::parse(line)?
        } else {
            if fields.contains_key("props") {
                let reason =
                    "are given together with the fields of a command; put these into props";
                return Err(Invalid::new("props", reason));
            }
            line::parse(&Value::Object(fields.clone()).to_string())?
        };
        // The kind that a line names, or the default of older versions: ids that are derived of it stay the same.
        let kind = task.kind.get_or_insert_with(|| KIND.to_owned()).clone();
        if exec::KINDS.contains(&kind.as_str()) {
            task.kind = Some(RUN_KIND.to_owned());
            if command.is_empty() {
                if task.props.is_null() {
                    let reason = "says no command; write it like {\"command\":\"true\"}";
                    return Err(Invalid::new("task", reason));
                }
                command =
                    plain::object(task.props.as_str()).map_err(|e| Invalid::new("props", e))?;
            }
            task.props = Json::new("props", &self.exec_props(command)?)?;
        } else if !command.is_empty() {
            let reason = format!("'{kind}' takes props, not the fields of a command");
            return Err(Invalid::new("kind", reason));
        }
        if task.labels.contains_key(BATCH) {
            let reason = "'batch' is set by --batch; leave it out";
            return Err(Invalid::new("labels", reason));
        }
        if task.labels.contains_key(input_files::LABEL) {
            let reason = "'batch-inputs' is set by the files in 'inputs'; leave it out";
            return Err(Invalid::new("labels", reason));
        }
        let inputs = self.inputs_of_task(named, task.props.get::<Folder>("props").ok())?;
        let derived = task.id.is_none();
        if derived {
            // Members are sorted by name, so their order in the line makes no difference.
            let text = serde_json::from_str::<Value>(line).map_err(not_json)?;
            task.id = Some(self.derive(&kind, &[b"task", text.to_string().as_bytes()]));
        }
        let has_limits = !task.limits.is_empty();
        let submit = self.finish(line::new_task(task)?, has_limits)?;
        Ok(Entry {
            submit,
            derived,
            has_stand_in: false,
            inputs,
            stamp: None,
        })
    }

    /// Returns the files in the field `inputs` of a task, from the folder in which its command
    /// runs.
    fn inputs_of_task(
        &self,
        named: Option<Value>,
        at: Option<Folder>,
    ) -> Result<InputFiles, Invalid> {
        let Some(named) = named else {
            return Ok(InputFiles::None);
        };
        let names: Vec<Word> = serde_json::from_value(named).map_err(|_| {
            let reason = "are not a list of file names; write them like [\"a.csv\",\"b.csv\"]";
            Invalid::new("inputs", reason)
        })?;
        let cwd = Path::new(&self.cwd).join(at.and_then(|at| at.cwd).unwrap_or_default());
        let files = names.iter().map(|name| cwd.join(name.to_os_string()));
        Ok(InputFiles::Named(files.collect()))
    }

    /// Returns the props of a command, with the options as defaults.
    fn exec_props(&self, mut props: Map<String, Value>) -> Result<Value, Invalid> {
        props
            .entry("cwd")
            .and_modify(|cwd| {
                if let Some(text) = cwd.as_str() {
                    *cwd = json!(Path::new(&self.cwd).join(text));
                }
            })
            .or_insert_with(|| json!(self.cwd));
        if let Some(timeout) = &self.timeout {
            props.entry("timeout").or_insert_with(|| json!(timeout));
        }
        self.env.add_to(&mut props)?;
        let props = Value::Object(props);
        Props::parse(&props.clone().into())?;
        Ok(props)
    }

    fn finish(&self, task: NewTask, has_limits: bool) -> Result<Submit, Invalid> {
        let mut task = task.label(BATCH, &self.batch).idempotent();
        if !has_limits {
            task = self.limits.iter().cloned().fold(task, NewTask::limit);
        }
        let mut submit = task.build()?;
        // A worker on the same store may run it, and has its own policy for tasks without one.
        if submit.task.retry.is_none() {
            let ours = submit.task.kind.is_command();
            submit.task.retry = self.retry.clone().or(ours.then_some(DEFAULT_RETRY));
        }
        Ok(submit)
    }
}
