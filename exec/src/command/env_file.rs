//! Variables of a command that are read from files when an attempt starts, and never stored.
//!
//! Errors name the file, the line and the variable. No error, log or record contains a value.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs,
    io::{self, Read as _},
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tracing::warn;

use super::props::Props;
use crate::text::without_mark;

/// The largest file of variables, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The largest value from a file, in bytes: the limit of Linux, which includes the name.
const MAX_VALUE: u64 = (128 << 10) - 512;

/// The variables of one attempt, from its files.
pub(super) type Variables = BTreeMap<String, OsString>;

/// Reads variables from files. Warns once about each file that other users can read.
#[derive(Debug, Clone, Default)]
pub(super) struct Reader {
    warned: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Reader {
    /// Reads the variables of a command: those of `env_file`, overridden by those of `env_from_file`.
    ///
    /// # Errors
    ///
    /// The file that could not be read or has the wrong form, and the reason.
    pub(super) async fn read(&self, props: &Props) -> Result<Variables, String> {
        if props.env_file.is_none() && props.env_from_file.is_empty() {
            return Ok(Variables::new());
        }
        let (reader, file) = (self.clone(), props.env_file.clone());
        let (single, cwd) = (props.env_from_file.clone(), props.cwd.clone());
        // A separate thread, because a file may be on a network.
        let read = tokio::task::spawn_blocking(move || {
            let place = |path: &Path| match &cwd {
                Some(cwd) => cwd.join(path),
                None => path.to_owned(),
            };
            let mut variables = match &file {
                Some(path) => reader.variables(&place(path))?,
                None => Variables::new(),
            };
            for (name, path) in &single {
                let value = reader.value(name, &place(path))?;
                variables.insert(name.clone(), value);
            }
            Ok(variables)
        });
        read.await
            .unwrap_or_else(|e| Err(format!("the variables could not be read: {e}")))
    }

    fn variables(&self, path: &Path) -> Result<Variables, String> {
        let about = |reason: &str| format!("props.env_file: {}: {reason}", path.display());
        let bytes = self.bytes(path, MAX_FILE).map_err(|e| about(&e))?;
        let text = String::from_utf8(bytes).map_err(|_| about("is not UTF-8 text"))?;
        let read = parse(&text).map_err(|e| about(&e))?;
        Ok(read.into_iter().map(|(k, v)| (k, v.into())).collect())
    }

    fn value(&self, name: &str, path: &Path) -> Result<OsString, String> {
        let about =
            |reason: &str| format!("props.env_from_file.{name}: {}: {reason}", path.display());
        let mut bytes = self.bytes(path, MAX_VALUE).map_err(|e| about(&e))?;
        if bytes.ends_with(b"\n") {
            bytes.pop();
            bytes.pop_if(|last| *last == b'\r');
        }
        if bytes.contains(&0) {
            return Err(about("has a NUL, which no variable can hold"));
        }
        Ok(OsString::from_vec(bytes))
    }

    fn bytes(&self, path: &Path, limit: u64) -> Result<Vec<u8>, String> {
        let why = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => "there is no such file on this machine".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "the worker's user is not allowed to read it; change its owner or mode".to_owned()
            }
            _ => e.to_string(),
        };
        let meta = fs::metadata(path).map_err(why)?;
        // A pipe would block the attempt until something writes to it.
        if !meta.is_file() {
            return Err("is not a regular file".to_owned());
        }
        if meta.len() > limit {
            let bytes = meta.len();
            return Err(format!("has {bytes} bytes; at most {limit} are read"));
        }
        // Some file systems report no size, and a file may grow.
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(why)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(why)?;
        if bytes.len() as u64 > limit {
            return Err(format!(
                "has more than {limit} bytes, which is the most that is read"
            ));
        }
        let is_open = meta.mode() & 0o004 != 0;
        if is_open && self.is_new(path) {
            warn!(file = %path.display(), "other users of this machine can read the variables of a command; chmod o-r");
        }
        Ok(bytes)
    }

    fn is_new(&self, path: &Path) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.insert(path.to_owned())
    }
}

/// Reads the text of a file of variables.
///
/// # Errors
///
/// The number of the wrong line, and what would be valid.
fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = without_mark(text);
    let mut variables = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let about = |reason: &str| format!("line {}: {reason}", at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = match line.strip_prefix("export") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
            _ => line,
        };
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| about("has no '='; write it like NAME=VALUE"))?;
        let name = name.trim_end();
        if !is_name(name) {
            let reason = "does not begin with a name; names have letters, digits and '_', and do not begin with a digit";
            return Err(about(reason));
        }
        let value = value_of(value.trim_start()).map_err(|e| about(&format!("{name}: {e}")))?;
        if value.contains('\0') {
            return Err(about(&format!(
                "{name}: has a NUL, which no variable can hold"
            )));
        }
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

/// Returns whether a text can be the name of a variable.
fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next();
    first.is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Reads the value after the `=`. The error contains no text of the line.
fn value_of(text: &str) -> Result<String, &'static str> {
    let (value, rest) = match text.chars().next() {
        Some('\'') => text[1..]
            .split_once('\'')
            .map(|(value, rest)| (value.to_owned(), rest))
            .ok_or("the quote does not end on the line")?,
        Some('"') => double_quoted(&text[1..]).ok_or("the quote does not end on the line")?,
        _ => {
            let comment = text
                .char_indices()
                .find(|(at, c)| *c == '#' && (*at == 0 || text[..*at].ends_with([' ', '\t'])));
            let end = comment.map_or(text.len(), |(at, _)| at);
            return Ok(text[..end].trim_end().to_owned());
        }
    };
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(value);
    }
    Err("text follows the closing quote; quote the whole value")
}

/// Reads up to the closing quote: returns the value, and the rest.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                c => value.extend(['\\', c]),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> String {
        let mut read = parse(text).unwrap();
        assert_eq!(read.len(), 1, "{text}");
        read.pop_first().unwrap().1
    }

    #[test]
    fn values_are_plain_or_quoted() {
        for (text, value) in [
            ("A=b", "b"),
            ("A=", ""),
            ("  A = b c  ", "b c"),
            ("export A=b", "b"),
            ("A=b#c", "b#c"),
            ("A=b # c", "b"),
            ("A=# c", ""),
            ("A=$HOME/x", "$HOME/x"),
            ("A='b # \"c\" $x \\n'", "b # \"c\" $x \\n"),
            ("A='' # none", ""),
            (r#"A="b\n\"c\"\\ \$d \e" # x"#, "b\n\"c\"\\ $d \\e"),
            ("A=b=c", "b=c"),
            ("\u{feff}A=b", "b"),
            ("A=b\r\n", "b"),
            ("# A=c\n\nA=b\n", "b"),
            ("A=first\nA=last\n", "last"),
            ("export=1", "1"),
        ] {
            assert_eq!(one(text), value, "{text:?}");
        }
        assert_eq!(parse("A=1\nB=2").unwrap().len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_without_its_value() {
        for (text, says) in [
            ("A=1\nsecret", "line 2: has no '='"),
            ("=secret", "line 1: does not begin with a name"),
            ("a-b=secret", "line 1: does not begin with a name"),
            ("1A=secret", "line 1: does not begin with a name"),
            ("A='secret", "line 1: A: the quote does not end"),
            ("A=\"secret\\", "line 1: A: the quote does not end"),
            ("A='x'secret", "line 1: A: text follows the closing quote"),
            ("A=secret\0", "line 1: A: has a NUL"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(says), "{text:?}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
