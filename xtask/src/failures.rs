//! The first lines of each failed test once more at the end of `cargo xtask test`: the output of 5,000 tests stands
//! between a failure and the last line, and a log that is cut in the middle has only the ends.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::Command,
};

use crate::slowest;

/// Names the file to which the programs of tests write their failures.
const FILE: &str = "WINDLASS_TEST_FAILURES";
/// How many lines of a failed test are repeated.
const LINES: usize = 40;
/// How many bytes of a line are repeated.
const LINE: usize = 500;

/// The file in which the failures of one run of `cargo test` are collected.
pub(crate) struct Failures(PathBuf);

impl Failures {
    /// Has the programs of a run of `cargo test` write their failures to a new file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn of(test: &mut Command) -> Result<Self, String> {
        let file = env::temp_dir().join(format!("windlass-failures-{}", std::process::id()));
        fs::write(&file, "").map_err(|e| format!("{} cannot be written: {e}", file.display()))?;
        test.env(FILE, &file);
        Ok(Self(file))
    }

    /// Prints what was collected.
    pub(crate) fn print(&self) {
        match fs::read_to_string(&self.0) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => eprintln!("==> the first lines of each failed test:\n{text}"),
            Err(e) => eprintln!("==> {} cannot be read: {e}", self.0.display()),
        }
    }
}

impl Drop for Failures {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_file(&self.0) {
            eprintln!("==> {} cannot be removed: {e}", self.0.display());
        }
    }
}

/// Copies the output of a program of tests to the standard output, until it ends, and its failures to the file.
///
/// # Errors
///
/// When the output cannot be read or written.
pub(crate) fn copy(output: impl Read) -> io::Result<()> {
    let failures = copy_to(output, &mut io::stdout())?;
    let file = env::var_os(FILE).filter(|_| !failures.is_empty());
    let Some(file) = file else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).open(file)?;
    file.write_all(&failures)
}

/// Copies the output, and returns the first lines of each section `---- NAME stdout ----`.
fn copy_to(output: impl Read, to: &mut impl Write) -> io::Result<Vec<u8>> {
    let (mut output, mut line) = (BufReader::new(output), Vec::new());
    let (mut failures, mut left) = (Vec::new(), 0);
    loop {
        line.clear();
        if output.read_until(b'\n', &mut line)? == 0 {
            return Ok(failures);
        }
        to.write_all(&line)?;
        slowest::keep(&line)?;
        let text = line.trim_ascii_end();
        if text.starts_with(b"---- ") && text.ends_with(b" stdout ----") {
            left = LINES + 1;
        } else if text == b"failures:" {
            left = 0;
        }
        if left > 0 && !text.is_empty() {
            left -= 1;
            failures.extend_from_slice(&text[..text.len().min(LINE)]);
            failures.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_each_failed_test_are_kept() {
        let mut output = String::from("test a ... FAILED\n\nfailures:\n\n---- a stdout ----\n");
        for n in 0..2 * LINES {
            output.push_str(&format!("line {n}\n\n"));
        }
        output.push_str("---- b stdout ----\nwhy\n\nfailures:\n    a\n    b\n");
        let mut copied = Vec::new();
        let failures = copy_to(output.as_bytes(), &mut copied).unwrap();
        assert_eq!(String::from_utf8(copied).unwrap(), output);
        let lines: Vec<String> = (0..LINES).map(|n| format!("line {n}\n")).collect();
        let expected = format!(
            "---- a stdout ----\n{}---- b stdout ----\nwhy\n",
            lines.concat()
        );
        assert_eq!(String::from_utf8(failures).unwrap(), expected);
    }

    #[test]
    fn output_without_failures_leaves_nothing() {
        let mut copied = Vec::new();
        let failures = copy_to("test a ... ok\nno end".as_bytes(), &mut copied).unwrap();
        assert_eq!(copied, b"test a ... ok\nno end");
        assert!(failures.is_empty());
    }
}
