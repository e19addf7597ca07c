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

/// Keeps the time of a program, and the processor time of what this process has waited for, if a run of [`slowest`] asks
/// for them.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn keep_program(name: &str, took: Duration) -> io::Result<()> {
    let Some(file) = env::var_os(FILE) else {
        return Ok(());
    };
    append(&file, "program", name, took.as_secs_f64())?;
    let processor = fs::read_to_string("/proc/self/stat").ok();
    match processor.as_deref().and_then(processor_of_children) {
        Some(seconds) => append(&file, "processor", name, seconds),
        None => Ok(()),
    }
}

/// Reads the seconds of processor time of the processes that have been waited for, and of those that these have waited
/// for, from the text of `/proc/PID/stat`.
fn processor_of_children(stat: &str) -> Option<f64> {
    /// Linux counts these times in hundredths of a second, on every architecture that windlass is built for.
    const TICKS: f64 = 100.0;
    // The name of the program stands in parentheses, and may have blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
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

/// Returns tables in Markdown: the programs by their times, the same by their processor times, then the slowest tests.
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
    let processor = rows("processor");
    let sum: f64 = processor.iter().map(|(seconds, _)| seconds).sum();
    let title = format!("program ({sum:.0} s of processor time in all)");
    text("program", &programs) + &text(&title, &processor) + &text("test", &tests)
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
    fn the_processor_time_of_children_is_read_behind_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 1350 250 20 0 1 0 5 6 7";
        assert_eq!(processor_of_children(stat), Some(16.0));
        assert_eq!(processor_of_children("7 (a) S 1"), None);
    }

    #[test]
    fn the_slowest_come_first_and_programs_stand_apart() {
        let times = "test 1.000 a\nprogram 9.000 stores\nprocessor 8.000 stores\nprogram 10.000 cli\n\
                     processor 2.000 cli\ntest 2.000 b\n";
        let expected = "| program | seconds |\n|---|---|\n| `cli` | 10.0 |\n| `stores` | 9.0 |\n\n\
                        | program (10 s of processor time in all) | seconds |\n|---|---|\n\
                        | `stores` | 8.0 |\n| `cli` | 2.0 |\n\n\
                        | test | seconds |\n|---|---|\n| `b` | 2.0 |\n| `a` | 1.0 |\n\n";
        assert_eq!(table(times), expected);
    }
}
