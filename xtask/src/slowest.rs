//! `cargo xtask slowest`: which programs of tests and which tests take the time of `cargo xtask test`.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
    process::Command,
    time::Duration,
};

/// Names the file to which the programs of tests write how long each test took.
const FILE: &str = "WINDLASS_TEST_TIMES";
/// How many tests are printed.
const PRINTED: usize = 20;

/// Runs every test by `test`, and prints the programs and the slowest tests with their times.
///
/// # Errors
///
/// When a test fails, and when the times cannot be kept.
pub(crate) fn slowest(
    test: impl FnOnce(&[(&str, &Path)]) -> Result<(), String>,
) -> Result<(), String> {
    let file = env::temp_dir().join(format!("windlass-times-{}", std::process::id()));
    let fault = |e: io::Error| format!("{}: {e}", file.display());
    fs::write(&file, "").map_err(fault)?;
    let done = test(&[(FILE, &file)]);
    let times = fs::read_to_string(&file).map_err(fault)?;
    print!("{}", table(&times));
    fs::remove_file(&file).map_err(fault)?;
    done
}

/// Has a program of tests report how long each test takes, if a run of [`slowest`] asks for it. The standard library's
/// harness has the option on nightly compilers only, unless this variable is set.
pub(crate) fn report(program: &mut Command) {
    if env::var_os(FILE).is_some() {
        // A program of tests may itself run programs through the same chore.
        program.env_remove(FILE).env("RUSTC_BOOTSTRAP", "1");
        program.args(["-Zunstable-options", "--report-time"]);
    }
}

/// Keeps the time of a test, if a run of [`slowest`] asks for it and this line of its program has one.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn keep(line: &[u8]) -> io::Result<()> {
    let (Some(file), Some((name, seconds))) = (env::var_os(FILE), time_of(line)) else {
        return Ok(());
    };
    append(&file, "test", &name, seconds)
}

/// Keeps the time of a program, if a run of [`slowest`] asks for it.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn keep_program(name: &str, took: Duration) -> io::Result<()> {
    match env::var_os(FILE) {
        Some(file) => append(&file, "program", name, took.as_secs_f64()),
        None => Ok(()),
    }
}

fn append(file: &std::ffi::OsStr, what: &str, name: &str, seconds: f64) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(file)?;
    file.write_all(format!("{what} {seconds:.3} {name}\n").as_bytes())
}

/// Reads `test NAME ... ok <1.234s>`.
fn time_of(line: &[u8]) -> Option<(String, f64)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = end.strip_suffix("s>")?.rsplit_once('<')?.1;
    Some((name.to_owned(), seconds.parse().ok()?))
}

/// Returns a table in Markdown: the programs by their times, then the slowest tests.
fn table(times: &str) -> String {
    let rows = |of: &str| -> Vec<(f64, String)> {
        let each = times.lines().filter_map(|line| {
            let (seconds, name) = line.strip_prefix(of)?.trim_start().split_once(' ')?;
            Some((seconds.parse().ok()?, name.to_owned()))
        });
        let mut rows: Vec<(f64, String)> = each.collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows
    };
    let text = |title: &str, rows: &[(f64, String)]| {
        let lines = rows
            .iter()
            .map(|(seconds, name)| format!("| `{name}` | {seconds:.1} |\n"));
        format!(
            "| {title} | seconds |\n|---|---|\n{}\n",
            lines.collect::<String>()
        )
    };
    let (programs, mut tests) = (rows("program"), rows("test"));
    tests.truncate(PRINTED);
    text("program", &programs) + &text("test", &tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_test_is_read_from_its_line() {
        let line = b"test runner::waits::a_wait_ends ... ok <1.250s>\n";
        assert_eq!(
            time_of(line),
            Some(("runner::waits::a_wait_ends".to_owned(), 1.25))
        );
        for other in [
            &b"test a ... ok\n"[..],
            b"test a has been running for over 60 seconds\n",
            b"test a ... ignored, long\n",
            b"\xff\n",
        ] {
            assert_eq!(time_of(other), None);
        }
    }

    #[test]
    fn the_slowest_come_first_and_programs_stand_apart() {
        let times = "test 1.000 a\nprogram 9.000 stores\nprogram 10.000 cli\ntest 2.000 b\n";
        let expected = "| program | seconds |\n|---|---|\n| `cli` | 10.0 |\n| `stores` | 9.0 |\n\n\
                        | test | seconds |\n|---|---|\n| `b` | 2.0 |\n| `a` | 1.0 |\n\n";
        assert_eq!(table(times), expected);
    }
}
