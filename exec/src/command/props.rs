//! [`Props`]: the command of a task of the kind `exec`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use windlass::{Invalid, Json};

use super::word::Word;
use windlass::statemachine::plain;

use crate::text;

/// The fields of the props. JSON lines accept the same fields.
pub const FIELDS: [&str; 12] = [
    "command",
    "args",
    "shell",
    "env",
    "env_file",
    "env_from_file",
    "cwd",
    "stdin",
    "timeout",
    "grace",
    "capture",
    "ok_exit_codes",
];

/// How many bytes of each stream are kept by default.
const CAPTURE: usize = 64 * 1024;
/// How many bytes of each stream are kept at most.
const MAX_CAPTURE: usize = 512 * 1024;
/// The default time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// The longest time between SIGTERM and SIGKILL.
const MAX_GRACE: Duration = Duration::from_secs(3600);

/// The unchecked props, as they are written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    command: Option<Word>,
    #[serde(default)]
    args: Vec<Word>,
    shell: Option<String>,
    #[serde(default, deserialize_with = "plain::fields")]
    env: BTreeMap<String, String>,
    env_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "plain::fields")]
    env_from_file: BTreeMap<String, PathBuf>,
    cwd: Option<PathBuf>,
    stdin: Option<String>,
    #[serde(default, deserialize_with = "length")]
    timeout: Option<String>,
    #[serde(default, deserialize_with = "length")]
    grace: Option<String>,
    capture: Option<u64>,
    ok_exit_codes: Option<Vec<u8>>,
}

/// A command to run, with checked fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Props {
    /// The program. A name without a slash is looked up in `PATH`.
    pub program: Word,
    /// Whether the program is a shell that reads a command line.
    pub is_shell: bool,
    /// The arguments of the program.
    pub args: Vec<Word>,
    /// Environment variables of the command.
    pub env: BTreeMap<String, String>,
    /// A file of variables that each attempt reads.
    pub env_file: Option<PathBuf>,
    /// Environment variables whose values are the content of these files. Each attempt reads the
    /// files.
    pub env_from_file: BTreeMap<String, PathBuf>,
    /// The folder in which the command runs; the worker's own folder by default.
    pub cwd: Option<PathBuf>,
    /// The text on the command's standard input; nothing by default.
    pub stdin: Option<String>,
    /// The time limit of an attempt.
    pub timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How many of the last bytes of each stream are kept.
    pub capture: usize,
    /// The exit codes that count as success.
    pub ok_exit_codes: Vec<u8>,
}

impl Props {
    /// Reads and checks props.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field and says what would be valid.
    pub fn parse(json: &Json) -> Result<Self, Invalid> {
        let written: Written = plain::object(json.as_str())
            .map_err(|e| Invalid::new("props", hinted(json, e.into())))?;
        check_names(&written)?;
        let is_shell = written.shell.is_some();
        let (program, args) = program(written.command, written.shell, written.args)?;
        let ok_exit_codes = written.ok_exit_codes.unwrap_or_else(|| vec![0]);
        if ok_exit_codes.is_empty() {
            let reason = "is empty: no end would be a success; the default is [0]";
            return Err(Invalid::new("props.ok_exit_codes", reason));
        }
        let capture = match written.capture {
            None => CAPTURE,
            Some(bytes) => usize::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= MAX_CAPTURE)
                .ok_or_else(|| {
                    let reason = format!("{bytes} is not from 0 to {MAX_CAPTURE} bytes");
                    Invalid::new("props.capture", reason)
                })?,
        };
        let timeout = duration("props.timeout", written.timeout)?;
        if timeout.is_some_and(|t| t.is_zero()) {
            let reason = "is zero; give a longer time, or leave it out for no limit";
            return Err(Invalid::new("props.timeout", reason));
        }
        let grace = duration("props.grace", written.grace)?.unwrap_or(GRACE);
        if grace > MAX_GRACE {
            let reason = format!("{grace:?} is more than an hour");
            return Err(Invalid::new("props.grace", reason));
        }
        Ok(Self {
            program,
            is_shell,
            args,
            env: written.env,
            env_file: written.env_file,
            env_from_file: written.env_from_file,
            cwd: written.cwd,
            stdin: written.stdin,
            timeout,
            grace,
            capture,
            ok_exit_codes,
        })
    }
}

/// Reads a length of time as text. For a number, the error suggests it as a number of seconds.
fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            let seconds = other.as_u64().unwrap_or(60);
            Err(D::Error::custom(format!(
                "is {other}, not text in quotes; write it like \"{seconds}s\""
            )))
        }
    }
}

/// Returns the error of props. If they are not an object, adds an example.
fn hinted(json: &Json, error: String) -> String {
    match json.as_str().trim_start().starts_with('{') {
        true => error,
        false => format!(r#"{error}; write them like {{"command":"ls"}}"#),
    }
}

fn check_names(written: &Written) -> Result<(), Invalid> {
    let is_bad = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    let bad = |field: &'static str, name: &str| {
        let reason = format!("{name:?} is not a variable: names have no '=', and nothing has NUL");
        Err(Invalid::new(field, reason))
    };
    for (name, value) in &written.env {
        if is_bad(name) || value.contains('\0') {
            return bad("props.env", name);
        }
    }
    let is_no_path = |path: &PathBuf| {
        let path = path.as_os_str().as_encoded_bytes();
        path.is_empty() || path.contains(&0)
    };
    for (name, path) in &written.env_from_file {
        if is_bad(name) {
            return bad("props.env_from_file", name);
        }
        if is_no_path(path) {
            let reason = format!("{name} names no file; give the path of one");
            return Err(Invalid::new("props.env_from_file", reason));
        }
        if written.env.contains_key(name) {
            let reason = format!("{name} is in 'env' too; give it once");
            return Err(Invalid::new("props.env_from_file", reason));
        }
    }
    if written.cwd.as_ref().is_some_and(is_no_path) {
        let reason = "names no folder; give the path of one, or leave it out";
        return Err(Invalid::new("props.cwd", reason));
    }
    if written.env_file.as_ref().is_some_and(is_no_path) {
        return Err(Invalid::new(
            "props.env_file",
            "names no file; give the path of one",
        ));
    }
    Ok(())
}

fn program(
    command: Option<Word>,
    shell: Option<String>,
    args: Vec<Word>,
) -> Result<(Word, Vec<Word>), Invalid> {
    let (field, program, args) = match (command, shell) {
        (Some(command), None) => ("props.command", command, args),
        (None, Some(script)) => {
            // The arguments after the script are $0, $1 and so on.
            let mut all: Vec<Word> = vec!["-c".into(), script.into(), "sh".into()];
            all.extend(args);
            ("props.shell", "sh".into(), all)
        }
        (Some(_), Some(_)) => {
            let reason = "is given together with 'command'; give one of them";
            return Err(Invalid::new("props.shell", reason));
        }
        (None, None) => {
            let reason = "is missing; give the program to run, or 'shell' with a line for sh";
            return Err(Invalid::new("props.command", reason));
        }
    };
    if program.as_bytes().trim_ascii().is_empty() {
        return Err(Invalid::new(field, "is empty; give the program to run"));
    }
    let is_folder =
        |end: &[u8]| program.as_bytes() == &end[1..] || program.as_bytes().ends_with(end);
    if program.as_bytes().ends_with(b"/") || is_folder(b"/.") || is_folder(b"/..") {
        let reason = "names a folder; give the program to run";
        return Err(Invalid::new(field, reason));
    }
    let has_nul = |word: &Word| word.as_bytes().contains(&0);
    if has_nul(&program) || args.iter().any(has_nul) {
        let reason = "or one of 'args' has a NUL, which a command cannot receive";
        return Err(Invalid::new(field, reason));
    }
    Ok((program, args))
}

fn duration(field: &'static str, text: Option<String>) -> Result<Option<Duration>, Invalid> {
    text.map(|text| text::duration(&text).map_err(|reason| Invalid::new(field, reason)))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Props, Invalid> {
        Props::parse(&Json::parse("props", text).unwrap())
    }

    #[test]
    fn the_defaults() {
        let props = parse(r#"{"command":"true"}"#).unwrap();
        assert_eq!((props.program, props.args.len()), ("true".into(), 0));
        assert_eq!(props.grace, Duration::from_secs(10));
        assert_eq!((props.capture, props.timeout), (65_536, None));
        assert_eq!(props.ok_exit_codes, [0]);
    }

    #[test]
    fn a_shell_line_takes_arguments() {
        let props = parse(r#"{"shell":"echo $1","args":["a b"]}"#).unwrap();
        assert_eq!(props.program, "sh");
        assert_eq!(props.args, ["-c", "echo $1", "sh", "a b"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("{}", "props.command: is missing"),
            (
                "null",
                r#"props: is null, not an object; write them like {"command":"ls"}"#,
            ),
            ("[]", "props: is an array, not an object"),
            (r#"{"command":""}"#, "props.command: is empty"),
            (
                r#"{"command":"a","env":{"A":"1","A":"2"}}"#,
                "props: env: 'A' is given twice",
            ),
            (r#"{"command":" "}"#, "props.command: is empty"),
            (r#"{"command":"bin/"}"#, "props.command: names a folder"),
            (r#"{"command":".."}"#, "props.command: names a folder"),
            (r#"{"command":"bin/."}"#, "props.command: names a folder"),
            (r#"{"command":"a","cwd":""}"#, "props.cwd: names no folder"),
            (
                r#"{"command":5}"#,
                "props: command: is 5, not text in quotes",
            ),
            (
                r#"{"command":"a","args":["x",1]}"#,
                "props: args[1]: is 1, not text in quotes",
            ),
            (
                r#"{"command":"a","shell":"b"}"#,
                "props.shell: is given together",
            ),
            (
                r#"{"comand":"a"}"#,
                "props: 'comand' is not a field; write 'command', if that is the one",
            ),
            (
                r#"{"command":"a","timeout":45}"#,
                "props: timeout: is 45, not text in quotes; write it like \"45s\"",
            ),
            (
                r#"{"command":"a","timeout":"soon"}"#,
                "props.timeout: 'soon' is not a duration",
            ),
            (
                r#"{"command":"a","timeout":"0s"}"#,
                "props.timeout: is zero",
            ),
            (
                r#"{"command":"a","grace":"2h"}"#,
                "props.grace: 7200s is more than an hour",
            ),
            (
                r#"{"command":"a","capture":99999999}"#,
                "props.capture: 99999999 is not from 0",
            ),
            (
                r#"{"command":"a","ok_exit_codes":[]}"#,
                "props.ok_exit_codes: is empty",
            ),
            (
                r#"{"command":"a","ok_exit_codes":[256]}"#,
                "props: ok_exit_codes[0]: is 256, not a whole number from 0 to 255",
            ),
            (
                r#"{"command":"a","env":{"A=B":"x"}}"#,
                "props.env: \"A=B\" is not a variable",
            ),
            (
                r#"{"command":"a","env_file":""}"#,
                "props.env_file: names no file",
            ),
            (
                r#"{"command":"a","env_from_file":{"A":""}}"#,
                "props.env_from_file: A names no file",
            ),
            (
                r#"{"command":"a","env_from_file":{"A=B":"f"}}"#,
                "props.env_from_file: \"A=B\" is not a variable",
            ),
            (
                r#"{"command":"a","env":{"A":"1"},"env_from_file":{"A":"f"}}"#,
                "props.env_from_file: A is in 'env' too",
            ),
            (
                "{\"command\":\"a\\u0000\"}",
                "props.command: or one of 'args' has a NUL",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn the_fields_are_those_that_are_read() {
        for field in FIELDS {
            let text = format!("{{\"command\":\"a\",\"{field}\":{{\"no\":[]}}}}");
            let error = parse(&text).unwrap_err().to_string();
            assert!(!error.contains("is not a field"), "{field}: {error}");
        }
    }
}
